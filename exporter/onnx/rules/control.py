"""Nodes that run inner graphs."""

from __future__ import annotations

from typing import Any, Sequence

from exporter.onnx.node import Node, Operators
from exporter.onnx.rules import rule
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.netdef.dtypes import number_of
from runtime_arm.operators.control.declared import with_declared
from runtime_arm.registry.specs import TensorSpec


@rule("If")
def if_(node: Node) -> Operators:
    """Caffe2's If; if the condition is constant, only the branch is kept."""
    condition = node.constant_scalar(0)
    if condition is None:
        branches = node.get_graph("then_branch"), node.get_graph("else_branch")
        for name, blobs in zip(node.outputs, zip(*(branch.external_output for branch in branches))):
            dtypes, dims = [node.net.dtype(blob) for blob in blobs], [node.net.dims(blob) for blob in blobs]
            if dtypes[0] is not None and dtypes[0] == dtypes[1]:
                node.net.hint(name, dtypes[0], dims[0] if dims[0] == dims[1] else None)
        return [node.to("If", then_net=branches[0], else_net=branches[1])]
    for index, blob in enumerate(node.inline("then_branch" if condition else "else_branch")):
        node.alias(index, blob)
    return []


@rule("Loop", "Scan")
def loop(node: Node) -> Operators:
    """The operator, whose body says what the file declares of scanned outputs, if that is all of their shape."""
    op = node.as_onnx()
    body, declared = op.get_net("body"), node.declared_outputs("body")
    carried = len(node.inputs) - (1 if node.type == "Loop" else node.get_int("num_scan_inputs"))
    scanned = list(zip(body.external_output, declared))[max(carried, 0) :]
    specs = {
        name: TensorSpec(tuple(size for size in dims if size is not None), dtype)
        for name, (dtype, dims) in scanned
        if dtype is not None and dims is not None and None not in dims and number_of(dtype) is not None
    }
    return [op.with_args(body=with_declared(body, specs))]


@rule("BatchedScan")
def batched_scan(node: Node) -> Operators:
    """Scan of opset 8: one Scan over the batch, in which one runs over the sequences of each of its samples."""
    body, count = node.get_graph("body"), node.get_int("num_scan_inputs")
    sample = [node.fresh("sample") for _ in node.inputs]
    results = [node.fresh("result") for _ in body.external_output]
    directions = node.get_ints("directions", [0] * count)
    inner = _scan(sample, results, body, num_scan_inputs=count, scan_input_directions=directions)
    samples = NetDef(op=(inner,), external_input=tuple(sample), external_output=tuple(results))
    return [_scan(node.inputs, node.outputs, samples, name=node.name, num_scan_inputs=len(sample))]


def _scan(inputs: Sequence[str], outputs: Sequence[str], body: NetDef, **options: Any) -> OperatorDef:
    return OperatorDef.of("Scan", inputs, outputs, domain="onnx", body=body, **options)
