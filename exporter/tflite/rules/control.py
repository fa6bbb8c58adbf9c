"""Operators that run other graphs of the model, and variables that keep their content from run to run."""

from __future__ import annotations

from typing import List

import numpy as np

from exporter.tflite.node import Node
from exporter.tflite.rules import rule
from runtime_arm.errors import ExportError


def _graph(node: Node, option: str) -> int:
    return int(node.option(option, -1))


@rule("IF", any_type=True)
def if_(node: Node) -> None:
    """If the condition is constant, only the branch is kept."""
    graphs = [_graph(node, f"{branch}_subgraph_index") for branch in ("then", "else")]
    condition, inputs = node.value(0), [node.input(index) for index in range(1, node.input_count)]
    if condition is not None and condition.size == 1:
        return _bind(node, node.subnets.inline(graphs[0 if condition.reshape(-1)[0] else 1], inputs, node.net))
    branches = [node.subnets.branch(graph, inputs, node.net) for graph in graphs]
    outputs = [node.output(index) for index in range(node.output_count)]
    node.add("If", [node.input(0)], outputs, then_net=branches[0], else_net=branches[1])


@rule("WHILE", any_type=True)
def while_(node: Node) -> None:
    """ONNX's Loop: the condition is evaluated before the loop and at the end of each iteration."""
    condition, body = (_graph(node, f"{part}_subgraph_index") for part in ("cond", "body"))
    carried = node.inputs()
    (goes_on,) = _one(node.subnets.inline(condition, carried, node.net))
    inner = node.net.nested()
    names = [inner.fresh(f"{node.result(index).name}_carried") for index in range(len(carried))]
    for index, name in enumerate(names):
        inner.input(name, node.dtype(index), node.result(index).dims if _keeps_shape(node, index) else None)
    results = node.subnets.inline(body, names, inner)
    if len(results) != len(carried):
        raise ExportError(f"the body has {len(results)} outputs, {len(carried)} tensors are carried")
    (again,) = _one(node.subnets.inline(condition, results, inner))
    trip, before = inner.fresh("trip"), inner.fresh("goes_on")
    loop = inner.net("body", [trip, before, *names], [again, *results])
    outputs = [node.output(index) for index in range(node.output_count)]
    node.add("Loop", ["", goes_on, *carried], outputs, domain="onnx", body=loop)


def _keeps_shape(node: Node, index: int) -> bool:
    """Whether a carried tensor is declared with the same shape before and after an iteration."""
    dims = node.dims(index)
    return dims is not None and None not in dims and dims == node.result(index).dims


def _one(blobs: List[str]) -> List[str]:
    if len(blobs) != 1:
        raise ExportError(f"the condition's graph must have one output, it has {len(blobs)}")
    return blobs


def _bind(node: Node, blobs: List[str]) -> None:
    if len(blobs) < node.output_count:
        raise ExportError(f"the graph has {len(blobs)} outputs, {node.output_count} are needed")
    for index in range(node.output_count):
        node.alias(index, blobs[index])


@rule("CALL", any_type=True)
def call(node: Node) -> None:
    _bind(node, node.subnets.inline(_graph(node, "subgraph"), node.inputs(), node.net))


@rule("STABLEHLO_COMPOSITE", any_type=True)
def composite(node: Node) -> None:
    """A composite operator is translated by the graph that defines it."""
    _bind(node, node.subnets.inline(_graph(node, "decomposition_subgraph_index"), node.inputs(), node.net))


@rule("CALL_ONCE")
def call_once(node: Node) -> None:
    """A graph that initialises variables; the initial values must be constant."""
    node.subnets.variables.once = True
    node.subnets.inline(_graph(node, "init_subgraph_index"), [], node.net)
    node.subnets.variables.once = False


@rule("VAR_HANDLE")
def var_handle(node: Node) -> None:
    node.refer(f"{node.option_text('container')}/{node.option_text('shared_name')}")


@rule("ASSIGN_VARIABLE", any_type=True)
def assign_variable(node: Node) -> None:
    name, variables = node.referred(0), node.subnets.variables
    blob, value = node.input(1), node.value(1)
    if variables.once:
        if value is None:
            raise ExportError(f"variable {name!r} must have a constant initial value")
        blob = variables.states[name] = node.net.state(node.net.fresh(name.strip("/") or "variable"), np.array(value))
    elif name in variables.states:
        node.net.keep(variables.states[name], blob)
    variables.current[name] = blob


@rule("READ_VARIABLE", any_type=True)
def read_variable(node: Node) -> None:
    name, variables = node.referred(0), node.subnets.variables
    if name not in variables.current:
        raise ExportError(f"variable {name!r} is read before it is initialised")
    node.alias(0, variables.current[name])
