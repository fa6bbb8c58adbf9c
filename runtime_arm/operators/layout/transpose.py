"""Permutations: Transpose, NCHW2NHWC, NHWC2NCHW and ChannelShuffle of Caffe2."""

from __future__ import annotations

from typing import Any, List, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.copying import copy_all
from runtime_arm.operators.common.windows import channels_last
from runtime_arm.operators.layout.reshape import product
from runtime_arm.registry.kernel import Call, Run
from runtime_arm.registry.schema import Operator, operator, require
from runtime_arm.registry.specs import Shape, TensorSpec

LINE_NBYTES = 64  # of a cache
CACHED_LINES = 128  # what the smallest first-level caches, 16 KB, hold besides the output


@operator("Transpose")
def transpose(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Dimension i of Y is dimension ``axes[i]`` of X. Without ``axes`` the order is reversed."""
    return [x.with_shape([x.shape[axis] for axis in transpose_axes(op, x.ndim)])]


def transpose_axes(op: OperatorDef, ndim: int) -> Sequence[int]:
    """The permutation that a Transpose applies. ArgumentError if its axes are not a permutation."""
    axes = op.get_ints("axes") or tuple(range(ndim))[::-1]
    if sorted(axes) != list(range(ndim)):
        raise ArgumentError(op, f"axes {axes} are not a permutation of the dimensions 0 to {ndim - 1}")
    return axes


@operator("NCHW2NHWC")
def nchw2nhwc(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """(N, C, spatial...) to (N, spatial..., C)."""
    require(op, x.ndim >= 3, "the input must have three dimensions or more", x)
    return [x.with_shape([x.shape[axis] for axis in _channels_last(x.ndim)])]


@operator("NHWC2NCHW")
def nhwc2nchw(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """(N, spatial..., C) to (N, C, spatial...)."""
    require(op, x.ndim >= 3, "the input must have three dimensions or more", x)
    return [x.with_shape([x.shape[axis] for axis in _channels_first(x.ndim)])]


def _channels_last(ndim: int) -> Sequence[int]:
    return [0, *range(2, ndim), 1]


def _channels_first(ndim: int) -> Sequence[int]:
    return [0, ndim - 1, *range(1, ndim - 1)]


def permutation_of(op: OperatorDef, ndim: int) -> Sequence[int]:
    """The dimension of X that each dimension of Y is, for any of these operators but ChannelShuffle."""
    if op.type == "NCHW2NHWC":
        return _channels_last(ndim)
    return _channels_first(ndim) if op.type == "NHWC2NCHW" else transpose_axes(op, ndim)


def _add_kernels(schema: Operator) -> None:
    @schema.reference
    def reference(op: OperatorDef, x: Array) -> List[Any]:
        return [np.transpose(x, permutation_of(op, x.ndim)).copy()]

    @schema.kernel("NUMPY", splits_work=True)
    def numpy(call: Call) -> Run:
        x = call.inputs[0]
        return copy_all(_in_blocks(call.outputs[0], x.transpose(permutation_of(call.op, x.ndim))), call)


def _in_blocks(target: Array, source: Array) -> List[Tuple[Array, Array]]:
    """Pieces of both arrays along their last dimensions.

    They are so short that the source's lines stay cached between rows.
    """
    first = max(source.ndim - 1, 0)
    while first > 0 and source.strides[first - 1] == source.strides[first] * source.shape[first]:
        first -= 1
    shape = (*source.shape[:first], product(source.shape[first:]))
    target, source = target.reshape(shape), source.reshape(shape)
    if shape[-1] <= CACHED_LINES or source.strides[-1] < LINE_NBYTES:
        return [(target, source)]
    pieces = [slice(start, start + CACHED_LINES) for start in range(0, shape[-1], CACHED_LINES)]
    return [(target[..., piece], source[..., piece]) for piece in pieces]


for _schema in (transpose, nchw2nhwc, nhwc2nchw):
    _add_kernels(_schema)


@operator("ChannelShuffle")
def channel_shuffle(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Channel g * C/G + k becomes channel k * G + g, for G = ``group`` (1) groups; ``order`` NCHW or NHWC.

    Source: Zhang et al., ShuffleNet, CVPR 2018, section 3.1.
    """
    group = op.get_int("group", 1)
    require(op, x.ndim >= 2, "the input must have two dimensions or more", x)
    channels = x.shape[_channel_axis(op, x.ndim)]
    require(op, group > 0 and channels % group == 0, f"the {channels} channels must be divisible by group {group}", x)
    return [x]


def _channel_axis(op: OperatorDef, ndim: int) -> int:
    return ndim - 1 if channels_last(op) else 1


def grouped_shapes(op: OperatorDef, shape: Shape) -> Tuple[Shape, Shape, int]:
    """X's shape with channels as (G, C/G), Y's shape with channels as (C/G, G), and the axis of the first of these."""
    axis, group = _channel_axis(op, len(shape)), op.get_int("group", 1)
    before, each, after = shape[:axis], shape[axis] // group, shape[axis + 1 :]
    return (*before, group, each, *after), (*before, each, group, *after), axis


@channel_shuffle.reference
def channel_shuffle_reference(op: OperatorDef, x: Array) -> List[Any]:
    axis, group = _channel_axis(op, x.ndim), op.get_int("group", 1)
    each = x.shape[axis] // group
    source = [g * each + k for k in range(each) for g in range(group)]
    return [np.take(x, source, axis=axis)]


@channel_shuffle.kernel("NUMPY", splits_work=True)
def channel_shuffle_numpy(call: Call) -> Run:
    x, y = call.inputs[0], call.outputs[0]
    grouped, shuffled, axis = grouped_shapes(call.op, x.shape)
    return copy_all([(y.reshape(shuffled), x.reshape(grouped).swapaxes(axis, axis + 1))], call)
