"""Operators that run nets."""

from __future__ import annotations

from typing import Any, Dict, Sequence, Set

import onnx
from onnx import helper

from exporter.to_onnx.graph import Graph
from exporter.to_onnx.rules import Call, Results, rule
from runtime_arm.errors import ExportError
from runtime_arm.netdef import NetDef


@rule("If")
def if_(call: Call) -> Results:
    """A branch that writes blobs named like the operator's outputs sets these; else its outputs go by position."""
    branches: Dict[str, Any] = {}
    for name, argument in (("then_branch", "then_net"), ("else_branch", "else_net")):
        net = call.op.get_net(argument) if call.op.has(argument) else NetDef(argument)
        branches[name] = _graph(call, net, [], _outputs(call, net))
    names = call.nodes("If", [call.x], len(call.op.output), **branches)
    for name, then, other in zip(names, branches["then_branch"].output, branches["else_branch"].output):
        _declare_either(call, name, then.name, other.name)
    return names


def _declare_either(call: Call, name: str, then: str, other: str) -> None:
    """Declare an output with the type and sizes on which both branches agree."""
    types = call.graph.types
    dims = [types.dims(then), types.dims(other)]
    if dims[0] is not None and dims[1] is not None and len(dims[0]) == len(dims[1]):
        types.declare(name, types.dtype(then), [n if n == m else None for n, m in zip(*dims)])


def _outputs(call: Call, net: NetDef) -> Sequence[str]:
    """The blobs that a branch returns; a missing branch leaves the blobs unchanged."""
    written: Set[str] = {name for op in net.op for name in op.output}
    if net.external_output and not written.intersection(call.op.output):
        if len(net.external_output) == len(call.op.output):
            return net.external_output
        raise ExportError(
            f"net {net.name!r} has {len(net.external_output)} outputs, the operator {len(call.op.output)}"
        )
    missing = [name for name in call.op.output if name not in written and not call.graph.has(name)]
    if missing:
        raise ExportError(f"a branch does not write {missing[0]!r}, which has no value before the operator")
    return call.op.output


@rule("onnx.Loop")
def loop(call: Call) -> Results:
    body = call.op.get_net("body")
    graph = _graph(call, body, body.external_input[: max(2, len(call.op.input))], body.external_output)
    for value, number in zip(graph.input, (onnx.TensorProto.INT64, onnx.TensorProto.BOOL)):
        value.CopyFrom(helper.make_tensor_value_info(value.name, number, []))  # onnxruntime does not infer these
    return call.nodes("Loop", call.inputs, len(call.op.output), body=graph)


@rule("onnx.Scan")
def scan(call: Call) -> Results:
    body = call.op.get_net("body")
    graph = _graph(call, body, body.external_input[: len(call.op.input)], body.external_output)
    attributes = {arg.name: arg.ints.tolist() for arg in call.op.arg if arg.kind == "ints"}
    return call.nodes(
        "Scan",
        call.inputs,
        len(call.op.output),
        body=graph,
        num_scan_inputs=call.op.get_int("num_scan_inputs"),
        **attributes,
    )


def _graph(call: Call, net: NetDef, formal: Sequence[str], outputs: Sequence[str]) -> onnx.GraphProto:
    """A net as an ONNX graph with the formal inputs; it sees the blobs around it."""
    translator = call.translator.nested()
    inner = translator.graph
    inputs = [inner.define(blob, ()) for blob in formal]
    translator.add_net(net)
    names = [_own_output(inner, blob) for blob in outputs]
    inner.learn_types()
    return helper.make_graph(
        inner.nodes,
        net.name or "net",
        [onnx.ValueInfoProto(name=name) for name in inputs],
        [onnx.ValueInfoProto(name=name) for name in names],
    )


def _own_output(inner: Graph, blob: str) -> str:
    """A new name under which the graph writes the blob; every output of a graph needs its own."""
    name, own = inner.operand(blob).name, inner.fresh(f"{blob}_out")
    inner.nodes.append(helper.make_node("Identity", [name], [own]))
    return own
