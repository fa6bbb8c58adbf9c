"""Leaves out the bias of a convolution if the layers that read its results can take it over: one pass less.

    relu(v + b) = max(v, -b) + b

The stored blob is the result minus b. This b, one number per channel, is the shift. A maximum with -b costs no more
than one with zero. The layers that read the blob make up for the shift in their own biases. A convolution that adds the
blob adds the shift to its bias. A convolution that reads it adds the products of its weights with the shift, which
works only without zero padding. That bias may be shifted in turn, so in a chain of residual blocks no convolution at
the end of a block has a bias. Pools and concatenations pass the shift on.

Rounding errors of the stored values are proportional to the shift, too, so a shift must not outweigh the results. It
would if a bias masked a channel out, in long chains in which shifts add up, and if a single weight of a reader made
more of one channel's shift than all other weights make of the results.
"""

from __future__ import annotations

from typing import Dict, Iterator, List, Optional, Sequence, Set

import numpy as np

from optimize.layers.fused import with_activation, without_activation
from optimize.layers.linear import CONVOLUTIONS_AND_FUSED, FULLY_CONNECTED, Layer
from optimize.rewriting.program import Match, Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal, Rule
from runtime_arm.engines.conv.bias_shifts import has_outlier, outweighs
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.windows import AVERAGE_POOLS, MAX_POOLS, NOTSET, caffe2_list, channels_last
from runtime_arm.operators.fused.fused import MAX
from runtime_arm.operators.layout.concat import adds_axis, join_axis

_CONCATS = {"Concat", "DepthConcat"}
_POOLS = {*MAX_POOLS, *AVERAGE_POOLS}
_PASSING = _POOLS | _CONCATS
_SUFFIX = "_shifted"

Shifts = Dict[str, Array]  # by blob, one number for each channel, float64


def _biased(program: Program, start: int) -> Iterator[Match]:
    """Convolutions with a bias, and the operators that read their results."""
    for place in range(start, len(program.net.op)):
        op = program.net.op[place]
        if op.full_type in CONVOLUTIONS_AND_FUSED and _has_bias(op):
            yield _reach(program, place)


def _has_bias(op: OperatorDef) -> bool:
    return len(op.input) > 2 and bool(op.input[2])


def _reach(program: Program, place: int) -> Match:
    """The operator, and after it all operators that its results reach through pools and concatenations."""
    places: Set[int] = {place}
    blobs: List[str] = [program.net.op[place].output[0]]
    for blob in blobs:
        for reader in program.readers(blob):
            op = program.net.op[reader]
            if op.full_type in _PASSING and reader not in places:
                blobs.append(op.output[0])
            places.add(reader)
    return Match(tuple(sorted(places)), tuple(blobs))


def _shift(program: Program, match: Match) -> Rewrite:
    _require_takers(program, match)
    op, *readers = program.operators(match)
    layer = Layer.of(program, op)
    assert layer.bias is not None
    shifts: Shifts = {op.output[0]: layer.bias.astype(np.float64)}
    weights: Dict[str, Optional[Array]] = {}
    names = _new_names(program, match.inner)
    operators = [_unbiased(program, op, layer, names[op.output[0]], weights)]
    for reader in readers:
        inputs = [names.get(name, name) for name in reader.input]
        if reader.full_type in _PASSING:
            y = reader.output[0]
            shifts[y] = _passed_on(program, reader, shifts)
            operators.append(reader.replace(input=tuple(inputs), output=(names[y], *reader.output[1:])))
        else:
            bias = program.fresh(f"{reader.output[0]}_bias")
            weights[bias] = _bias_with(program, reader, shifts)
            inputs[2:3] = [bias]
            operators.append(reader.replace(input=tuple(inputs)))
    return Rewrite(tuple(operators), weights=weights, each=True)


def _new_names(program: Program, blobs: Sequence[str]) -> Dict[str, str]:
    """New names for blobs whose content changes, perhaps not for the first time."""
    names: Dict[str, str] = {}
    for blob in blobs:
        name = program.fresh(blob.split(_SUFFIX)[0] + _SUFFIX)
        names[blob] = program.fresh(blob + _SUFFIX) if name in names.values() else name
    return names


def _unbiased(
    program: Program, op: OperatorDef, layer: Layer, y: str, weights: Dict[str, Optional[Array]]
) -> OperatorDef:
    """The convolution without its bias. Its results are less by the bias; the floor of its ReLU becomes a weight."""
    bare, activation = without_activation(op)
    inputs = list(bare.input)
    inputs[2] = ""
    bare = bare.replace(input=tuple(inputs if any(inputs[2:]) else inputs[:2]), output=(y,))
    if activation is None:
        return bare
    assert layer.bias is not None
    floor = -layer.bias.astype(np.float64)
    if activation.full_type == MAX:
        floor += _constant(program, activation.input[1]).reshape(-1)
    name = program.fresh(f"{op.output[0]}_floor")
    weights[name] = _finite(floor, layer.bias).reshape(-1, *[1] * (layer.weights.ndim - 2))
    return with_activation(bare, OperatorDef("Max", (y, name), (y,), domain="onnx"))


def _passed_on(program: Program, op: OperatorDef, shifts: Shifts) -> Array:
    """The shift of the output of a pool or a concatenation."""
    if op.full_type in _POOLS:
        return shifts[op.input[0]]
    return np.concatenate([shifts[name] if name in shifts else np.zeros(_channels(program, name)) for name in op.input])


def _bias_with(program: Program, op: OperatorDef, shifts: Shifts) -> Array:
    """The bias of a layer that reads shifted blobs."""
    layer = Layer.of(program, op)
    total = np.zeros(layer.outputs.number) if layer.bias is None else layer.bias.astype(np.float64)
    if op.input[0] in shifts:
        shift = shifts[op.input[0]]
        pixels, rest = divmod(layer.inputs, shift.size)
        if rest or (pixels > 1 and op.full_type not in FULLY_CONNECTED):
            raise Refusal(f"{op.signature()} takes a different number of channels")
        total = total + layer.of_constant(shift.repeat(pixels))
    for addend in op.input[3:4]:
        total = total + shifts.get(addend, 0)
    return _finite(total, layer.weights)


def _finite(numbers: Array, like: Array) -> Array:
    with np.errstate(over="ignore"):
        narrow = numbers.astype(like.dtype)
    if not np.isfinite(narrow).all():
        raise Refusal("a sum is not finite")
    return narrow


# Checks


def _require_takers(program: Program, match: Match) -> None:
    """Refusal unless the convolution can be shifted and every reader makes up for it in its own bias or can itself be
    shifted."""
    pending = [match]
    seen: Set[int] = set()
    for one in pending:
        reason = program.why_fixed(one)
        if reason is not None:
            raise Refusal(reason)
        op, *readers = program.operators(one)
        _require_shiftable(program, op)
        for place, reader in zip(one.places[1:], readers):
            if reader.full_type in _PASSING:
                _require_passing(program, reader)
                continue
            _require_taking(program, reader, one.inner)
            if not _has_bias(reader) and place not in seen:
                seen.add(place)
                pending.append(_reach(program, place))


def _require_shiftable(program: Program, op: OperatorDef) -> None:
    layer = Layer.of(program, op)
    limit = without_activation(op)[1]
    if channels_last(op):
        raise Refusal("the channels come last")
    if limit is not None and limit.full_type not in ("Relu", "onnx.Relu", MAX):
        raise Refusal(f"{op.signature()} ends with {limit.full_type}")
    if limit is not None and limit.full_type == MAX:
        _constant(program, limit.input[1])
    if any(op.input[3:4]):
        _require_no_broadcast(program, op, layer)
    if layer.bias is not None and outweighs(layer.bias, layer.weights):
        raise Refusal("the bias outweighs the results")


def _require_passing(program: Program, op: OperatorDef) -> None:
    if channels_last(op) or len(list(filter(None, op.output))) > (op.full_type in _CONCATS) + 1:
        raise Refusal(f"{op.signature()} does not pass the shift on")
    if op.full_type in AVERAGE_POOLS and (
        op.get_int("legacy_pad", NOTSET) != NOTSET or any(caffe2_list(op, "pad", "tlbr"))
    ):
        raise Refusal(f"{op.signature()} pads with zeros")
    if op.full_type in _CONCATS:
        if adds_axis(op) or join_axis(op, len(program.dims(op.output[0]) or ())) != 1:
            raise Refusal(f"{op.signature()} does not join channels")
        for name in op.input:
            _channels(program, name)


def _require_taking(program: Program, op: OperatorDef, shifted: Sequence[str]) -> None:
    """Refusal unless the operator is a layer that reads the shifted blobs as inputs for which its bias can make up."""
    if op.full_type not in CONVOLUTIONS_AND_FUSED | FULLY_CONNECTED:
        raise Refusal(f"{op.signature()} needs the results themselves")
    layer = Layer.of(program, op)
    if op.input[0] in shifted and has_outlier(layer.weights):
        raise Refusal(f"one weight of {op.signature()} outweighs the others")
    if op.input[0] in shifted and (channels_last(op) or layer.pads_with_zeros() or op.get_int("axis", 1) != 1):
        raise Refusal(f"{op.signature()} pads with zeros, or has its channels in another dimension")
    if any(name in shifted and at not in (0, 3) for at, name in enumerate(op.input)):
        raise Refusal(f"{op.signature()} needs the results themselves")
    if any(name in shifted for name in op.input[3:4]):
        _require_no_broadcast(program, op, layer)


def _require_no_broadcast(program: Program, op: OperatorDef, layer: Layer) -> None:
    addend, y = op.input[3], op.output[0]
    if not program.have_same_shape(addend, y) or _channels(program, y) != layer.outputs.number:
        raise Refusal(f"{addend!r} and the products may be of different shapes")


def _constant(program: Program, name: str) -> Array:
    value = program.value(name)
    if value is None:
        raise Refusal(f"{name!r} is not constant")
    return value


def _channels(program: Program, name: str) -> int:
    dims = program.dims(name)
    if dims is None or len(dims) < 2 or dims[1] is None:
        raise Refusal(f"the number of channels of {name!r} is not known")
    return dims[1]


PASS = Pass("shift_biases", (Rule(_biased, _shift),))
