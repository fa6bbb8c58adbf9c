"""Kinds of operators of recommenders and language networks: bags of embeddings, products with packed weights."""

from __future__ import annotations

from typing import Any, List, Sequence

from onnx import NodeProto, helper

from scripts.fuzzing.graphs import BOOL, FLOAT, INT64, UINT8, Graph, Value

MOST_PICKED, MOST_BAGS = 9, 5
NEWER_REDUCTIONS = 18  # the opset from which on all reductions take their axes as an input


def bags(g: Graph) -> None:
    """An EmbeddingBag as PyTorch's older exporter writes it, sometimes with a weight for each row."""
    table = g.value(ranks=(2,))
    rows, picked, count = table.known(0), g.integer(0, MOST_PICKED), g.integer(1, MOST_BAGS)
    cuts = sorted(g.integer(0, picked) for _ in range(count + 1))
    indices = g.constant([g.integer(-rows, rows - 1) for _ in range(picked)])
    name, zero = f"bags{len(g.nodes)}", g.constant([0])
    nodes: List[NodeProto] = [helper.make_node("Identity", [f"{name}_go"], [f"{name}_on"])]

    def then(type: str, reads: Sequence[str], **attributes: Any) -> str:
        result = f"{name}_{len(nodes)}"
        nodes.append(helper.make_node(type, reads, [result], **attributes))
        return result

    at = [
        then("Unsqueeze", [then("Gather", [g.constant(limits), f"{name}_trip"]), zero])
        for limits in (cuts[:-1], cuts[1:])
    ]
    found = then("Gather", [table.name, then("Slice", [indices, *at, zero])])
    if g.chance(0.3):
        weights = then("Slice", [g.weight(picked, scale=1), *at, zero])
        found = then("Mul", [found, then("Unsqueeze", [weights, g.constant([1])])])
    if g.opset < NEWER_REDUCTIONS and len({*cuts}) == len(cuts):  # the mean of nothing is another in each runtime
        bag = then("ReduceMean", [found], axes=[0], keepdims=0)
    else:
        bag = then("ReduceSum", [found, zero], keepdims=0)
    inputs = [("_trip", INT64), ("_go", BOOL)]
    body = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info(name + suffix, type, []) for suffix, type in inputs],
        [
            helper.make_tensor_value_info(f"{name}_on", BOOL, []),
            helper.make_tensor_value_info(bag, FLOAT, [size or None for size in table.shape[1:]]),
        ],
    )
    reads = [g.constant(count), g.constant(True, BOOL)]
    g.add(helper.make_node("Loop", reads, [name], body=body), [Value(name, FLOAT, (count, *table.shape[1:]))])


def packed_product(g: Graph) -> None:
    """A product with weights of 4 bits in blocks, as language networks are published."""
    block = g.choose(16, 32)
    x = g.value(ranks=(2, 3))
    terms, columns = x.known(-1), g.integer(1, 9)
    blocks = -(-terms // block)
    packed = g.constant(
        [[[g.integer(0, 255) for _ in range(block // 2)] for _ in range(blocks)] for _ in range(columns)], UINT8
    )
    points = [g.constant([g.integer(0, 255) for _ in range(columns * -(-blocks // 2))], UINT8)] if g.chance(0.5) else []
    reads = [x.name, packed, g.weight(columns * blocks, scale=0.02), *points]
    node = helper.make_node(
        "MatMulNBits",
        reads,
        [f"packed{len(g.nodes)}"],
        domain="com.microsoft",
        K=terms,
        N=columns,
        bits=4,
        block_size=block,
    )
    g.add(node, [Value(node.output[0], FLOAT, (*x.shape[:-1], columns))])
