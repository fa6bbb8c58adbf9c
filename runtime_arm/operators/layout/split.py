"""Splitting a blob along one dimension: Caffe2's Split and SplitByLengths, ONNX's Split."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.copying import along, copy_all
from runtime_arm.operators.layout.concat import adds_axis, join_axis
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import Operator, axis_of, integers_of, operator, require
from runtime_arm.registry.specs import TensorSpec


def _axis(op: OperatorDef, ndim: int) -> int:
    if op.domain:
        return axis_of(op, op.get_int("axis", 0), ndim)
    return join_axis(op, ndim)


def _places(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> List[Tuple[slice, ...]]:
    """The part of X that each output is."""
    x, start, places = inputs[0], 0, []
    assert x is not None
    axis = _axis(op, x.ndim)
    for y in outputs:
        length = 1 if adds_axis(op) else y.shape[axis]
        places.append(along(axis, start, start + length))
        start += length
    return places


@operator("Split", inputs=(1, 2), outputs=(1, None), splits=_places)
def split(op: OperatorDef, x: TensorSpec, lengths: Optional[TensorSpec] = None) -> List[TensorSpec]:
    """The outputs are parts of X along ``axis``, of the lengths in ``split`` or in the second input, else equal.

    Without ``axis``, the channels of ``order`` (NCHW) are split. With ``add_axis`` every part has one element, and its
    dimension is removed.
    """
    axis = join_axis(op, x.ndim)
    require(op, x.ndim > 0, "the input must have a dimension", x)
    if adds_axis(op):
        count = len(op.output)
        require(op, count == x.shape[axis], f"dimension {axis} must equal the number of outputs, {count}", x)
        return [x.with_shape(x.shape[:axis] + x.shape[axis + 1 :])] * count
    if lengths is not None:
        require(op, not op.has("split"), "the lengths are given twice: as an argument and as an input")
        wanted: Sequence[int] = integers_of(op, lengths, "split")
    else:
        wanted = op.get_ints("split") or _equal(op, x, axis)
    return parts(op, x, axis, wanted)


def _equal(op: OperatorDef, x: TensorSpec, axis: int) -> List[int]:
    count = len(op.output)
    require(op, x.shape[axis] % count == 0, f"dimension {axis} must be divisible by the number of outputs, {count}", x)
    return [x.shape[axis] // count] * count


def parts(op: OperatorDef, x: TensorSpec, axis: int, lengths: Sequence[int]) -> List[TensorSpec]:
    """The specs of consecutive parts of ``x``. ShapeError unless there is one length per output and they add up."""
    rule = f"lengths {list(lengths)} must be {len(op.output)} numbers that add up to dimension {axis}"
    require(op, len(lengths) == len(op.output) and min(lengths) >= 0 and sum(lengths) == x.shape[axis], rule, x)
    return [x.with_shape((*x.shape[:axis], length, *x.shape[axis + 1 :])) for length in lengths]


@operator("SplitByLengths", inputs=2, outputs=(1, None), splits=_places)
def split_by_lengths(op: OperatorDef, x: TensorSpec, lengths: TensorSpec) -> List[TensorSpec]:
    """Each output takes the part of X along ``axis`` as long as the sum of its share of the lengths in input 1.

    Without ``axis``, the channels of ``order`` (NCHW) are split. The lengths are divided evenly among the outputs. With
    ``use_scaling_lengths`` they are relative: they are scaled to add up to X's dimension.
    """
    require(op, x.ndim > 0, "X must have a dimension", x)
    axis = join_axis(op, x.ndim)
    given, count = integers_of(op, lengths, "lengths"), len(op.output)
    require(
        op,
        len(given) % count == 0,
        f"lengths {given}: their number must be divisible by that of the outputs, {count}",
        x,
    )
    each = len(given) // count
    sums = [sum(given[i * each : (i + 1) * each]) for i in range(count)]
    total = sum(sums)
    if op.get_bool("use_scaling_lengths") and total:
        require(op, x.shape[axis] % total == 0, f"dimension {axis} must be divisible by the sum of lengths {given}", x)
        sums = [length * (x.shape[axis] // total) for length in sums]
    return parts(op, x, axis, sums)


@operator("Split", domain="onnx", inputs=(1, 2), outputs=(1, None), splits=_places)
def onnx_split(op: OperatorDef, x: TensorSpec, lengths: Optional[TensorSpec] = None) -> List[TensorSpec]:
    """The outputs are parts of X along ``axis`` (0), of the lengths in the second input.

    Without it they have equal lengths, rounded up; the last ones are shorter or empty if X's dimension does not
    suffice.
    """
    axis = axis_of(op, op.get_int("axis", 0), x.ndim)
    if lengths is not None:
        require(op, not op.has("num_outputs"), "give num_outputs or the lengths, not both")
        return parts(op, x, axis, integers_of(op, lengths, "split"))
    count = op.get_int("num_outputs", len(op.output))
    if count != len(op.output):
        raise ArgumentError(op, f"num_outputs is {count}, but there are {len(op.output)} outputs")
    each, length = -(-x.shape[axis] // count), x.shape[axis]
    return parts(op, x, axis, [min(each, max(length - i * each, 0)) for i in range(count)])


def _add_kernels(schema: Operator) -> None:
    @schema.reference
    def reference(op: OperatorDef, x: Array, lengths: Optional[Array] = None) -> List[Any]:
        axis = _axis(op, x.ndim)
        known = [TensorSpec.known(x)] + ([] if lengths is None else [TensorSpec.known(lengths)])
        specs = schema.shape(op, *known)
        stops = np.cumsum([1 if adds_axis(op) else spec.shape[axis] for spec in specs])
        pieces = np.split(x, stops[:-1], axis)
        return [piece.reshape(spec.shape).copy() for piece, spec in zip(pieces, specs)]

    @schema.kernel("NUMPY")
    def numpy(call: Call) -> Run:
        x, places = call.inputs[0], _places(call.op, call.in_specs, call.out_specs)
        return copy_all([(y, x[at].reshape(y.shape)) for at, y in zip(places, call.outputs)])


for _schema in (split, split_by_lengths, onnx_split):
    _add_kernels(_schema)
split.alias("DepthSplit")
