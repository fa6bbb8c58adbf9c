"""Operators that run sub-nets: If, While (Caffe2, ONNX), Loop, Scan (ONNX).

Their reference kernels take a SubNets before the inputs, which runs and infers the sub-nets. Sub-nets see the blobs of
the surrounding net by name. They are planned like any net, once for each set of input shapes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Protocol, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ShapeError
from runtime_arm.netdef import Array, NetDef, OperatorDef
from runtime_arm.operators.control.trials import require_small_trip
from runtime_arm.registry.schema import Branch, DataDependent, axis_of, operator, require
from runtime_arm.registry.specs import TensorSpec

if TYPE_CHECKING:
    from runtime_arm.operators.control.accumulators import Accumulators

ENDLESS = np.iinfo(np.int64).max


class Steady(Protocol):
    """A body whose blobs keep their shapes, on memory that stays where it is."""

    def loop(
        self, state: Sequence[Any], trips: range, holds: Callable[[Array], bool]
    ) -> Tuple[List[Any], List[List[Array]]]:
        """The carried blobs after a Loop's last trip, and the scanned outputs of each trip, as long as its condition
        holds."""
        ...


class SubNets(Protocol):
    """The nets among the arguments of the operator that is running."""

    def run(self, net: NetDef, feeds: Mapping[str, Any], fetches: Sequence[str]) -> List[Any]:
        """The blobs ``fetches`` after a run of the net with these inputs."""
        ...

    def steady(self, net: NetDef, feeds: Mapping[str, Any], fetches: Sequence[str]) -> Optional[Steady]:
        """The net, a Loop's body, planned for inputs like these, on memory that stays; None if that cannot be had."""
        ...

    def infer(self, net: NetDef, feeds: Mapping[str, TensorSpec], fetches: Sequence[str]) -> List[Optional[TensorSpec]]:
        """The specs of these blobs for inputs of these specs; None if they depend on data."""
        ...


def _unknown(op: OperatorDef, *inputs: Optional[TensorSpec]) -> List[TensorSpec]:
    raise DataDependent(op.type)


def _holds(op: OperatorDef, condition: Any) -> bool:
    if condition.size != 1:  # each trip of a loop asks: no text without an error
        raise ShapeError(op, f"the condition must be one element, got shape {condition.shape}")
    return bool(condition.item())


def _writes(net: NetDef) -> Dict[str, None]:
    """The names that a net writes, in order."""
    return dict.fromkeys(name for op in net.op for name in op.output if name)


@operator("If", inputs=(1, None), outputs=(0, None), control=True)
def if_(op: OperatorDef, *inputs: Optional[TensorSpec]) -> List[TensorSpec]:
    """Runs ``then_net`` if the first input is true, else ``else_net``, if there is one.

    A branch that writes blobs named like the operator's outputs sets these, and the other outputs keep their values
    (Caffe2). Of any other branch, the outputs are taken by position (ONNX).
    """
    return _unknown(op)


@if_.branches
def if_branch(op: OperatorDef, inputs: Sequence[Optional[TensorSpec]]) -> Optional[Branch]:
    """The branch to run, if the condition is known; an empty net if there is none."""
    condition = inputs[0]
    return None if condition is None or condition.value is None else _chosen(op, condition.value)


def _chosen(op: OperatorDef, condition: Any) -> Branch:
    holds = _holds(op, condition)
    if not holds and not op.has("else_net"):
        return Branch(NetDef(), {})
    net = op.get_net("then_net" if holds else "else_net")
    names = [name for name in op.output if name in _writes(net)]
    if names:
        return Branch(net, dict(zip(names, names)))
    if len(net.external_output) != len(op.output):
        raise ShapeError(
            op, f"net {net.name!r} has {len(net.external_output)} outputs, but the operator has {len(op.output)}"
        )
    return Branch(net, dict(zip(op.output, net.external_output)))


@if_.reference
def if_reference(op: OperatorDef, nets: SubNets, condition: Array, *unused: Any) -> List[Any]:
    net, outputs = _chosen(op, condition)
    found = dict(zip(outputs, nets.run(net, {}, list(outputs.values())))) if outputs else {}
    return [found.get(name) for name in op.output]


@operator("While", inputs=(1, None), outputs=(0, None), control=True)
def while_(op: OperatorDef, *inputs: Optional[TensorSpec]) -> List[TensorSpec]:
    """Runs ``cond_net`` (if there is one) and ``loop_net`` in turn while the first input, which they write, is true."""
    return _unknown(op)


@while_.reference
def while_reference(op: OperatorDef, nets: SubNets, condition: Array, *inputs: Any) -> List[Any]:
    body = op.get_net("loop_net")
    test = op.get_net("cond_net") if op.has("cond_net") else NetDef()
    kept = {op.input[0], *op.output, *body.captures(), *test.captures()}
    state: Dict[str, Any] = dict(zip(op.input, (condition, *inputs)))

    def advance(net: NetDef) -> None:
        names = [name for name in _writes(net) if name in kept]
        if net.op:
            read = {name: state[name] for name in net.captures() if name in state}
            state.update(zip(names, _trip(op, nets, net, read, names)))

    while True:
        advance(test)
        if not _holds(op, state[op.input[0]]):
            return [state.get(name) for name in op.output]
        advance(body)


def _trip(op: OperatorDef, nets: SubNets, net: NetDef, feeds: Mapping[str, Any], fetches: Sequence[str]) -> List[Any]:
    results = nets.run(net, feeds, fetches)
    require_small_trip(op.signature, results)
    return results


def _accumulators(body: NetDef, read: int, written: int, state: Sequence[Any]) -> Accumulators:
    from runtime_arm.operators.control.accumulators import Accumulators  # nets with branches alone do without

    return Accumulators(body, read, written, state)


def _stacked(op: OperatorDef, slices: Sequence[Any], spec: Optional[TensorSpec]) -> Array:
    """The slices, stacked along a new first dimension; none if the body, whose ``spec`` is known, never ran."""
    if slices:
        require(op, len({one.shape for one in slices}) == 1, "scanned outputs must have the same shape in every step")
        return np.stack(slices)
    if spec is None:
        raise ShapeError(op, "the body never ran, and the shape of its scanned output depends on data")
    return np.zeros((0, *spec.shape), spec.dtype)


def _specs_of_none(
    nets: SubNets, body: NetDef, feeds: Mapping[str, TensorSpec], names: Sequence[str]
) -> List[Optional[TensorSpec]]:
    """The output specs of a body that never ran: inferred from inputs like these, else as its file declares them."""
    from runtime_arm.operators.control.declared import declared  # loops that run do without

    known = declared(body)
    return [known.get(name) if spec is None else spec for name, spec in zip(names, nets.infer(body, feeds, names))]


def _spec(array: Any) -> TensorSpec:
    return TensorSpec(array.shape, array.dtype)


@operator("Loop", domain="onnx", inputs=(1, None), outputs=(0, None), control=True)
def loop(op: OperatorDef, *inputs: Optional[TensorSpec]) -> List[TensorSpec]:
    """Runs ``body`` as often as the first input says, and only as long as the condition is true.

    Inputs: trip count, condition (either may be left out), carried blobs. ``body`` takes (trip, condition, carried...)
    and returns (condition, carried..., scanned...); the returned condition counts only if the operator has one.
    Outputs: the carried blobs, then the scanned ones, stacked.
    """
    return _unknown(op)


@loop.reference
def loop_reference(
    op: OperatorDef, nets: SubNets, trips: Optional[Array], condition: Optional[Array] = None, *carried: Any
) -> List[Any]:
    body = op.get_net("body")
    count = ENDLESS if trips is None else int(trips.reshape(-1)[0])
    require(op, trips is not None or condition is not None, "without a trip count and a condition the loop never ends")
    _check_body(op, body, 2 + len(carried), 1 + len(carried))
    goes_on = condition is None or _holds(op, condition)
    state, growing = list(carried), _accumulators(body, 2, 1, carried)
    scanned: List[List[Array]] = [[] for _ in body.external_output[1 + len(state) :]]
    trip = 0
    while goes_on and trip < count:
        named = _named(body, trip, goes_on, growing.take(state))
        if trip == 1 and not growing:
            rest = _rest(op, nets, named, state, condition is not None, range(1, count))
            if rest is not None:
                state, more = rest
                scanned = [[*slices, *others] for slices, others in zip(scanned, more)]
                break
        results = _trip(op, nets, body, named, body.external_output)
        goes_on = condition is None or _holds(op, results[0])
        state = results[1 : 1 + len(state)]
        for slices, one in zip(scanned, results[1 + len(state) :]):
            slices.append(one)
        trip += 1
    specs: List[Optional[TensorSpec]] = [None] * len(scanned)
    if scanned and trip == 0:
        feeds = {name: _spec(array) for name, array in _named(body, trip, goes_on, state).items()}
        specs = _specs_of_none(nets, body, feeds, body.external_output[1 + len(state) :])
    return [*growing.joined(state), *(_stacked(op, slices, spec) for slices, spec in zip(scanned, specs))]


def _rest(
    op: OperatorDef, nets: SubNets, named: Mapping[str, Any], state: Sequence[Any], conditional: bool, trips: range
) -> Optional[Tuple[List[Any], List[List[Array]]]]:
    """The carried blobs at the end, and the scanned ones of all trips but the first; None if trips must run one by one,
    because shapes change. named, state: the body's inputs in the second trip, and those of them that are carried."""
    body = op.get_net("body")
    steady = nets.steady(body, named, body.external_output) if len(named) == 2 + len(state) else None
    if steady is None:
        return None
    return steady.loop(state, trips, lambda goes_on: not conditional or _holds(op, goes_on))


@operator("ONNXWhile", inputs=(2, None), outputs=(0, None), control=True)
def onnx_while(op: OperatorDef, *inputs: Optional[TensorSpec]) -> List[TensorSpec]:
    """Loop. The trip count counts only with ``has_trip_count``, the condition with ``has_cond``. Scanned blobs have one
    row a trip, which are joined; of a single trip they are kept as they are, of none they are (0,) int32.
    Source: Caffe2.
    """
    return _unknown(op)


@onnx_while.reference
def onnx_while_reference(op: OperatorDef, nets: SubNets, trips: Array, condition: Array, *carried: Any) -> List[Any]:
    results = loop_reference(
        op,
        nets,
        trips if op.get_bool("has_trip_count") else None,
        condition if op.get_bool("has_cond") else None,
        *carried,
    )
    return [*results[: len(carried)], *(_rows(op, stack) for stack in results[len(carried) :])]


def _rows(op: OperatorDef, stack: Array) -> Array:
    """Caffe2's form of a scanned blob, of which there is one for each trip."""
    if len(stack) < 2:
        return stack[0] if len(stack) else np.zeros(0, np.int32)
    require(
        op,
        stack.shape[1:2] == (1,),
        f"a scanned blob of several trips must have one row per trip, got {stack.shape[1:]}: else Caffe2 loses rows",
    )
    return stack[:, 0]


def _named(body: NetDef, trip: int, goes_on: bool, state: Sequence[Any]) -> Dict[str, Any]:
    return dict(zip(body.external_input, [np.array(trip, np.int64), np.array(goes_on), *state]))


def _check_body(op: OperatorDef, body: NetDef, inputs: int, outputs: int) -> None:
    require(
        op,
        len(body.external_input) >= inputs and len(body.external_output) >= outputs,
        f"the body must have {inputs} inputs and at least {outputs} outputs, but has {len(body.external_input)} and "
        f"{len(body.external_output)}",
    )


@operator("Scan", domain="onnx", inputs=(1, None), outputs=(1, None), control=True)
def scan(op: OperatorDef, *inputs: Optional[TensorSpec]) -> List[TensorSpec]:
    """Runs ``body`` for each slice of the last ``num_scan_inputs`` inputs. The inputs before them are states.

    ``body`` takes (states..., slices...) and returns (states..., scanned...). Outputs: the states, then the scanned
    blobs, stacked. ``scan_input_axes``, ``scan_output_axes`` (0), ``scan_input_directions``, ``scan_output_directions``
    (0 forward, 1 reverse).
    """
    return _unknown(op)


@scan.reference
def scan_reference(op: OperatorDef, nets: SubNets, *inputs: Any) -> List[Any]:
    body, count = op.get_net("body"), op.get_int("num_scan_inputs")
    require(op, 0 < count <= len(inputs), f"num_scan_inputs must be 1 to {len(inputs)}, got {count}")
    states, sequences = list(inputs[: len(inputs) - count]), inputs[len(inputs) - count :]
    _check_body(op, body, len(inputs), len(states))
    slices = [_slices(op, i, x) for i, x in enumerate(sequences)]
    length = len(slices[0])
    require(
        op,
        all(len(x) == length for x in slices),
        f"scanned inputs must have equal lengths, got {[len(x) for x in slices]}",
    )
    scanned: List[List[Array]] = [[] for _ in body.external_output[len(states) :]]
    growing = _accumulators(body, 0, 0, states)
    for elements in zip(*slices):
        given = [*growing.take(states), *elements]
        results = _trip(op, nets, body, dict(zip(body.external_input, given)), body.external_output)
        states = results[: len(states)]
        for stack, one in zip(scanned, results[len(states) :]):
            stack.append(one)
    specs: List[Optional[TensorSpec]] = [None] * len(scanned)
    if length == 0:
        taken = [*map(_spec, states), *(TensorSpec(x.shape[1:], x.dtype) for x in slices)]
        feeds = dict(zip(body.external_input, taken))
        specs = _specs_of_none(nets, body, feeds, body.external_output[len(states) :])
    whole = growing.joined(states)
    return [*whole, *(_joined(op, i, stack, spec) for i, (stack, spec) in enumerate(zip(scanned, specs)))]


def _slices(op: OperatorDef, index: int, x: Array) -> Array:
    """The scanned input, with the scanned axis first and in running order."""
    axes, directions = op.get_ints("scan_input_axes"), op.get_ints("scan_input_directions")
    require(
        op,
        x.ndim > 0 and len(axes or directions or (0,) * (index + 1)) > index,
        "every scanned input must have a dimension and an axis",
    )
    moved = np.moveaxis(x, axis_of(op, axes[index] if axes else 0, x.ndim), 0)
    return moved[::-1] if directions and directions[index] else moved


def _joined(op: OperatorDef, index: int, slices: Sequence[Any], spec: Optional[TensorSpec]) -> Array:
    axes, directions = op.get_ints("scan_output_axes"), op.get_ints("scan_output_directions")
    stacked = _stacked(op, slices[::-1] if directions and directions[index] else slices, spec)
    return np.moveaxis(stacked, 0, axis_of(op, axes[index] if axes else 0, stacked.ndim))
