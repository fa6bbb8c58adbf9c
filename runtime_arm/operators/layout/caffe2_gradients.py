"""Gradient operators of operators that move elements and that no existing operator of Caffe2 undoes."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.broadcasting import broadcast
from runtime_arm.operators.common.copying import along, copy_all
from runtime_arm.operators.common.dtypes import FLOAT32_64, FLOATS
from runtime_arm.operators.common.formulas import only_for
from runtime_arm.operators.common.unbroadcast import sum_into, sum_to
from runtime_arm.operators.common.windows import channels_last
from runtime_arm.operators.layout.pad import Padding, image_padding
from runtime_arm.operators.layout.slice import sliced_shape, slices_of
from runtime_arm.operators.layout.tile import repeats_of
from runtime_arm.operators.layout.transpose import channel_shuffle, grouped_shapes
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import Shape, TensorSpec


@operator("DropoutGrad", inputs=(1, 2), dtypes=FLOATS, inplace={0: 0})
def dropout_grad(op: OperatorDef, dy: TensorSpec, mask: Optional[TensorSpec] = None) -> List[TensorSpec]:
    """dX = dY / (1 - ratio) where the mask is true, else 0; with is_test dX = dY."""
    masked = mask is not None and mask.dtype == np.bool_ and mask.shape == dy.shape
    require(op, op.get_bool("is_test") or masked, "without is_test there must be a mask of dY's shape", dy, mask)
    return [dy]


def _factor(op: OperatorDef) -> float:
    return 1.0 if op.get_bool("is_test") else 1 / (1 - op.get_float("ratio", 0.5))


@dropout_grad.reference
def dropout_grad_reference(op: OperatorDef, dy: Array, mask: Optional[Array] = None) -> List[Any]:
    kept = 1.0 if op.get_bool("is_test") or mask is None else mask
    return [(dy.astype(np.float64) * kept * _factor(op)).astype(dy.dtype)]


@dropout_grad.kernel("NUMPY", supports=only_for(FLOAT32_64))
def dropout_grad_numpy(call: Call) -> Run:
    dy, dx, factor = call.inputs[0], call.outputs[0], call.outputs[0].dtype.type(_factor(call.op))
    mask = None if call.op.get_bool("is_test") else call.inputs[1]

    def run() -> None:
        np.multiply(dy, factor, out=dx)
        if mask is not None:
            np.multiply(dx, mask, out=dx)

    return run


@operator("SliceGradient", inputs=(2, 6), dtypes=FLOATS)
def slice_gradient(op: OperatorDef, x: TensorSpec, *others: TensorSpec) -> List[TensorSpec]:
    """dX = dY where X was taken, else 0. Inputs: X, starts and ends unless they are arguments, dY."""
    *bounds, dy = others
    slices = slices_of(op, x, bounds)
    require(op, list(dy.shape) == sliced_shape(x.shape, slices), "dY must have the shape of the slice", x, dy)
    return [x]


@slice_gradient.reference
def slice_gradient_reference(op: OperatorDef, x: Array, *others: Array) -> List[Any]:
    *bounds, dy = others
    dx = np.zeros(x.shape, x.dtype)
    dx[slices_of(op, TensorSpec.known(x), [None if b is None else TensorSpec.known(b) for b in bounds])] = dy
    return [dx]


@slice_gradient.kernel("NUMPY")
def slice_gradient_numpy(call: Call) -> Run:
    x, *bounds = call.in_specs[:-1]
    assert x is not None
    dx = call.outputs[0]
    return copy_all([(dx, dx.dtype.type(0)), (dx[slices_of(call.op, x, bounds)], call.inputs[-1])])


@operator("TileGradient", inputs=(1, 3), dtypes=FLOATS)
def tile_gradient(op: OperatorDef, dy: TensorSpec, *given: TensorSpec) -> List[TensorSpec]:
    """dX = the sum of dY over the repetitions. Arguments and further inputs as for Tile."""
    repeats = repeats_of(op, dy, given)
    fits = all(times > 0 and n % times == 0 for n, times in zip(dy.shape, repeats))
    require(op, fits, f"dY must consist of {repeats} repetitions", dy)
    return [dy.with_shape([n // times for n, times in zip(dy.shape, repeats)])]


def _repeated(
    op: OperatorDef, dy: Array, dx: Shape, given: Sequence[Optional[TensorSpec]]
) -> Tuple[Array, Tuple[int, ...]]:
    """dY with a dimension for each repetition, and the axes of these."""
    repeats = repeats_of(op, TensorSpec(dy.shape, dy.dtype), given)
    shape = [size for times, n in zip(repeats, dx) for size in (times, n)]
    return dy.reshape(shape), tuple(range(0, 2 * len(dx), 2))


@tile_gradient.reference
def tile_gradient_reference(op: OperatorDef, dy: Array, *given: Array) -> List[Any]:
    known = [TensorSpec.known(array) for array in given]
    shape = tile_gradient.shape(op, TensorSpec.known(dy), *known)[0].shape
    parts, axes = _repeated(op, dy.astype(np.float64), shape, known)
    return [parts.sum(axis=axes).astype(dy.dtype)]


@tile_gradient.kernel("NUMPY", supports=only_for(FLOAT32_64))
def tile_gradient_numpy(call: Call) -> Run:
    parts, axes = _repeated(call.op, call.inputs[0], call.outputs[0].shape, call.in_specs[1:])
    return lambda: np.add.reduce(parts, axis=axes, out=call.outputs[0])


@operator("ChannelShuffleGradient", dtypes=FLOATS)
def channel_shuffle_gradient(op: OperatorDef, dy: TensorSpec) -> List[TensorSpec]:
    """ChannelShuffle undone: channel k * G + g becomes channel g * C/G + k, for G = ``group`` groups."""
    return list(channel_shuffle.shape(op, dy))


@channel_shuffle_gradient.reference
def channel_shuffle_gradient_reference(op: OperatorDef, dy: Array) -> List[Any]:
    _, shuffled, axis = grouped_shapes(op, dy.shape)
    return [dy.reshape(shuffled).swapaxes(axis, axis + 1).reshape(dy.shape)]


@channel_shuffle_gradient.kernel("NUMPY", splits_work=True)
def channel_shuffle_gradient_numpy(call: Call) -> Run:
    dy, dx = call.inputs[0], call.outputs[0]
    grouped, shuffled, axis = grouped_shapes(call.op, dy.shape)
    return copy_all([(dx.reshape(grouped), dy.reshape(shuffled).swapaxes(axis, axis + 1))], call)


@operator("PadImageGradient", dtypes=FLOATS)
def pad_image_gradient(op: OperatorDef, dy: TensorSpec) -> List[TensorSpec]:
    """dX = the sum of dY over the pixels of Y that are copies of a pixel of X. Arguments as for PadImage."""
    padding = image_padding(op)
    shape = [n - head - tail for n, head, tail in zip(dy.shape, padding.heads, padding.tails)]
    require(op, dy.ndim == 4 and min(shape) >= 0, "dY is smaller than the padding", dy)
    return [dy.with_shape(shape)]


@pad_image_gradient.reference
def pad_image_gradient_reference(op: OperatorDef, dy: Array) -> List[Any]:
    padding, shape = image_padding(op), pad_image_gradient.shape(op, TensorSpec.known(dy))[0].shape
    dx = dy.astype(np.float64)
    for axis in range(4):
        sources = np.array(padding.sources(shape, axis), np.intp)
        total = np.zeros((*dx.shape[:axis], shape[axis], *dx.shape[axis + 1 :]))
        at: Any = (*[slice(None)] * axis, sources[sources >= 0])
        np.add.at(total, at, np.compress(sources >= 0, dx, axis))
        dx = total
    return [dx.astype(dy.dtype)]


def _cropped_rows(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    """Between the two axes: dY with the height of dX."""
    assert inputs[0] is not None
    first = 1 if channels_last(op) else 2
    return [inputs[0].with_shape([*inputs[0].shape[:first], outputs[0].shape[first], *inputs[0].shape[first + 1 :]])]


@pad_image_gradient.kernel("NUMPY", supports=only_for(FLOAT32_64), scratch=_cropped_rows)
def pad_image_gradient_numpy(call: Call) -> Run:
    dy, dx, between = call.inputs[0], call.outputs[0], call.scratch[0]
    padding, first = image_padding(call.op), 1 if channels_last(call.op) else 2
    steps = [
        step
        for axis, pair in ((first, (dy, between)), (first + 1, (between, dx)))
        for step in _folds(padding, axis, *pair)
    ]

    def run() -> None:
        between.fill(0)
        dx.fill(0)
        for target, source in steps:
            np.add(target, source, out=target)

    return run


def _folds(padding: Padding, axis: int, source: Array, target: Array) -> List[Tuple[Array, Array]]:
    """Views of ``target`` and what is added to them: the middle at once, the lines of the padding one by one."""
    sources = padding.sources(target.shape, axis)
    inside = [i for i, at in enumerate(sources) if at == i - padding.heads[axis] >= 0]
    start, stop = (inside[0], inside[-1] + 1) if inside else (0, 0)
    head = padding.heads[axis]
    steps = [(target[along(axis, start - head, stop - head)], source[along(axis, start, stop)])]
    for i, at in enumerate(sources):
        if at >= 0 and not start <= i < stop:
            steps.append((target[along(axis, at, at + 1)], source[along(axis, i, i + 1)]))
    return steps


slice_gradient.alias("SliceGradient", domain="armnet")
tile_gradient.alias("TileGradient", domain="armnet")


@operator("ExpandGradient", inputs=2, dtypes=FLOATS)
def expand_gradient(op: OperatorDef, dy: TensorSpec, x: TensorSpec) -> List[TensorSpec]:
    """dX = the sum of dY over what of X was broadcast."""
    require(op, broadcast(op, (dy, x)) == dy.shape and dy.dtype == x.dtype, "X must broadcast to dY", dy, x)
    return [x]


@expand_gradient.reference
def expand_gradient_reference(op: OperatorDef, dy: Array, x: Array) -> List[Any]:
    return [sum_to(dy.astype(np.float64), x.shape).astype(x.dtype)]


@expand_gradient.kernel("NUMPY", supports=only_for(FLOAT32_64))
def expand_gradient_numpy(call: Call) -> Run:
    return sum_into(call.inputs[0], call.outputs[0])


expand_gradient.alias("SumLike", domain="armnet")
