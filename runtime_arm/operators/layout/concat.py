"""Caffe2's Concat: joining blobs along one dimension."""

from __future__ import annotations

from typing import Any, List, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.copying import along, copy_all
from runtime_arm.operators.common.windows import channels_last
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import axis_of, operator, require
from runtime_arm.registry.specs import Shape, TensorSpec


def _places(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> List[Tuple[slice, ...]]:
    """The part of Y that each input becomes."""
    axis, start, places = join_axis(op, outputs[0].ndim), 0, []
    for x in inputs:
        length = 1 if x is None or adds_axis(op) else x.shape[axis]
        places.append(along(axis, start, start + length))
        start += length
    return places


@operator("Concat", inputs=(1, None), outputs=2, joins=_places, kind=Kind.CONCATENATION)
def concat(op: OperatorDef, *inputs: TensorSpec) -> List[TensorSpec]:
    """Y joins the inputs along ``axis``. The second output holds their lengths there, int32.

    Without ``axis``, they are joined along the channels of ``order`` (NCHW). With ``add_axis`` the inputs, all of one
    shape, are stacked along a new dimension, which becomes dimension ``axis`` of Y.
    """
    require(op, all(x is not None for x in inputs), "no input may be left out")
    first = inputs[0]
    axis = join_axis(op, first.ndim + adds_axis(op))
    shapes = [_with_axis(op, x.shape, axis) for x in inputs]
    others = {(x.dtype, shape[:axis], shape[axis + 1 :], len(shape)) for x, shape in zip(inputs, shapes)}
    require(op, len(others) == 1, f"inputs must have one dtype and the same dimensions except {axis}", *inputs)
    lengths = [shape[axis] for shape in shapes]
    joined = (*shapes[0][:axis], sum(lengths), *shapes[0][axis + 1 :])
    return [first.with_shape(joined), TensorSpec.known(np.array(lengths, np.int32))]


def join_axis(op: OperatorDef, ndim: int) -> int:
    """The dimension along which Concat joins and Split splits blobs of ``ndim`` dimensions."""
    require(op, ndim > 0, "blobs must have a dimension")
    if not op.has("axis"):
        return axis_of(op, 3 if channels_last(op) else 1, ndim)
    if op.has("order"):
        raise ArgumentError(op, "give axis or order, not both")
    return axis_of(op, op.get_int("axis"), ndim)


def adds_axis(op: OperatorDef) -> bool:
    """Whether Concat stacks its inputs, and Split unstacks."""
    return op.has("axis") and op.get_bool("add_axis")


def _with_axis(op: OperatorDef, shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], 1, *shape[axis:]) if adds_axis(op) else shape


@concat.reference
def concat_reference(op: OperatorDef, *inputs: Array) -> List[Any]:
    axis = join_axis(op, inputs[0].ndim + adds_axis(op))
    joined = np.stack(inputs, axis) if adds_axis(op) else np.concatenate(inputs, axis)
    return [joined, np.array([1 if adds_axis(op) else x.shape[axis] for x in inputs], np.int32)]


@concat.kernel("NUMPY", splits_work=True)
def concat_numpy(call: Call) -> Run:
    y = call.outputs[0]
    axis, places = join_axis(call.op, y.ndim), _places(call.op, call.in_specs, call.out_specs)
    pairs = [(y[at], x.reshape(_with_axis(call.op, x.shape, axis))) for at, x in zip(places, call.inputs)]
    return copy_all(pairs, call)


concat.alias("DepthConcat")
