"""Branches and loops, whose nets become further graphs of the model.

TFLite's graphs cannot read blobs of the graph around them: those that a net reads become its inputs.
"""

from __future__ import annotations

from typing import Dict, List, Sequence, Tuple

import numpy as np

from exporter.to_tflite.graph import Graph, Operand
from exporter.to_tflite.layout import plain
from exporter.to_tflite.model import Operation
from exporter.to_tflite.rules import Call, Results, rule
from optimize.rewriting.single_assignment import names_read
from runtime_arm.errors import ExportError
from runtime_arm.netdef import NetDef
from runtime_arm.registry.specs import TensorSpec

_TRIP, _GOES_ON = TensorSpec((), np.int64), TensorSpec((), np.bool_)


def _captured(call: Call, nets: Sequence[NetDef]) -> Tuple[Dict[str, Operand], List[str]]:
    """What the nets read from the net around them: the names, without constants."""
    names = dict.fromkeys(name for net in nets for name in net.captures())
    found = {name: call.translator.blobs[name] for name in names if name in call.translator.blobs}
    return found, [name for name, operand in found.items() if operand.spec.value is None]


class _Inner:
    """A graph of the model that has inputs of these names, and sees the constants around it."""

    def __init__(self, call: Call, name: str, inputs: Sequence[Tuple[str, TensorSpec]], seen: Dict[str, Operand]):
        self.graph = call.graph.another(name)
        self.blobs = {blob: Operand(operand.spec) for blob, operand in seen.items() if operand.spec.value is not None}
        for blob, spec in inputs:
            number = self.graph.tensor(blob, spec.shape, spec.dtype)
            self.graph.built.inputs.append(number)
            self.blobs[blob] = Operand(TensorSpec(spec.shape, spec.dtype), number, plain(spec.ndim))
        self.translator = call.translator.into(self.graph, self.blobs)

    def add(self, net: NetDef) -> List[TensorSpec]:
        """Translate the net; what its outputs are."""
        self.graph.wanted.update(names_read(net))
        self.translator.add_net(net)
        return [self.blobs[name].spec for name in net.external_output]

    def returns(self, names: Sequence[str]) -> None:
        """These blobs are the graph's outputs, in their own order, each in a tensor of its own."""
        for name in names:
            number = self.graph.take(self.blobs[name], None, name)
            taken = {*self.graph.built.inputs, *self.graph.built.outputs}
            if number in taken or self.graph[number].value is not None:
                number = self.graph.copied(number, name)
            self.graph.built.outputs.append(number)


def _condition(call: Call, index: int) -> int:
    """A condition of one element, as bool without dimensions."""
    if call.spec(index).size != 1:
        raise ExportError("its condition must be one element")
    number = call.take(index)
    if call.spec(index).dtype != np.bool_:
        number = call.emit("CAST", [number], call.graph[number].shape, np.bool_)
    return call.graph.reshaped(number, ())


@rule("If", "onnx.If")
def if_(call: Call) -> Results:
    """Both branches must give results of the same shapes."""
    if not call.op.argument("else_net"):
        raise ExportError("it has no other branch")
    nets = [call.op.get_net("then_net"), call.op.get_net("else_net")]
    if any(len(net.external_output) != len(call.op.output) for net in nets):
        raise ExportError("a branch sets other blobs than its results")
    seen, names = _captured(call, nets)
    inputs = [(name, seen[name].spec) for name in names]
    found = []
    for net, branch in zip(nets, ("then", "else")):
        inner = _Inner(call, f"{call.op.output[0]}_{branch}", inputs, seen)
        found.append((inner.graph.number, inner.add(net)))
        inner.returns(net.external_output)
    (then, specs), (other, others) = found
    if [(spec.shape, spec.dtype) for spec in specs] != [(spec.shape, spec.dtype) for spec in others]:
        raise ExportError("its branches give results of different shapes")
    call.outputs = [TensorSpec(spec.shape, spec.dtype) for spec in specs]
    given = [_condition(call, 0), *(call.graph.take(seen[name], None, name) for name in names)]
    return _results(call, "IF", given, {"ThenSubgraphIndex": then, "ElseSubgraphIndex": other})


def _results(call: Call, type: str, inputs: List[int], options: Dict[str, int]) -> List[Operand]:
    outputs = [
        call.graph.tensor(name or "unread", spec.shape, spec.dtype)
        for name, spec in zip([*call.op.output, *[""] * len(call.outputs)], call.outputs)
    ]
    call.graph.emit(Operation(type, inputs, outputs, dict(options)))
    return [call.result(number, None, index) for index, number in enumerate(outputs)]


@rule("onnx.Loop")
def loop(call: Call) -> Results:
    """The state is the number of the iteration, the condition, the carried blobs, and the blobs from the net around."""
    body = call.op.get_net("body")
    carried = list(range(2, len(call.operands)))
    if len(body.external_output) != 1 + len(carried):
        raise ExportError("TFLite has no results that grow with each iteration")
    seen, names = _captured(call, [body])
    specs = [TensorSpec(call.spec(index).shape, call.spec(index).dtype) for index in carried]
    trips = call.operand(0) if call.has(0) else None
    most = [("most_trips", _TRIP)] if trips is not None and trips.spec.value is None else []
    state = [*zip(body.external_input, [_TRIP, _GOES_ON, *specs]), *most, *((name, seen[name].spec) for name in names)]
    around = [name for name, _ in state[2 + len(carried) :]]
    if trips is not None and trips.spec.value is not None:
        seen = {**seen, "most_trips": Operand(TensorSpec.known(trips.spec.value.reshape(())))}
    checked = _goes_on(call, state, seen, trips is not None)
    again = _iteration(call, body, state, seen, specs, around)
    given = [call.graph.constant(np.int64(0)), _condition(call, 1) if call.has(1) else call.graph.constant(np.True_)]
    given += [call.take(index) for index in carried]
    given += [call.graph.reshaped(call.take(0), ()) for _ in most]
    given += [call.graph.take(seen[name], None, name) for name in names]
    call.outputs = [TensorSpec(spec.shape, spec.dtype) for _, spec in state]
    found = _results(call, "WHILE", given, {"CondSubgraphIndex": checked, "BodySubgraphIndex": again})
    call.outputs = call.outputs[2 : 2 + len(carried)]
    return found[2 : 2 + len(carried)]


def _goes_on(call: Call, state: Sequence[Tuple[str, TensorSpec]], seen: Dict[str, Operand], counted: bool) -> int:
    """The graph that says whether there is another iteration; a loop without an initial condition has none at all."""
    inner = _Inner(call, f"{call.op.output[0]}_condition", state, seen)
    graph, (trip, goes_on) = inner.graph, inner.graph.built.inputs[:2]
    if not counted:
        graph.built.outputs.append(graph.copied(goes_on, "again"))
        return graph.number
    most = graph.take(inner.blobs["most_trips"], None, "most_trips")
    left, again = (graph.tensor(name, (), np.bool_) for name in ("left", "again"))
    graph.emit(Operation("LESS", [trip, most], [left]))
    if not call.has(1):
        graph.built.outputs.append(left)
        return graph.number
    graph.emit(Operation("LOGICAL_AND", [left, goes_on], [again]))
    graph.built.outputs.append(again)
    return graph.number


def _iteration(
    call: Call,
    body: NetDef,
    state: Sequence[Tuple[str, TensorSpec]],
    seen: Dict[str, Operand],
    specs: Sequence[TensorSpec],
    around: Sequence[str],
) -> int:
    """The graph of one iteration."""
    inner = _Inner(call, f"{call.op.output[0]}_body", state, seen)
    graph, (goes_on, *results) = inner.graph, inner.add(body)
    if [(spec.shape, spec.dtype) for spec in results] != [(spec.shape, spec.dtype) for spec in specs]:
        raise ExportError("what it carries changes its shape")
    trip = graph.tensor("next_trip", (), np.int64)
    graph.emit(Operation("ADD", [graph.built.inputs[0], graph.constant(np.int64(1))], [trip]))
    graph.built.outputs.append(trip)
    name = body.external_output[0]
    again = graph.reshaped(graph.take(inner.blobs[name], None, name), ())
    graph.built.outputs.append(graph.copied(again, name) if _is_taken(graph, again) else again)
    if goes_on.size != 1 or goes_on.dtype != np.bool_:
        raise ExportError("its condition must be one element of bool")
    inner.returns([*body.external_output[1:], *around])
    return graph.number


def _is_taken(graph: Graph, number: int) -> bool:
    return number in graph.built.inputs or graph[number].value is not None
