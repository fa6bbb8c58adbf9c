"""Reshapes, concatenations, transpositions and resampling."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArmnetError
from runtime_arm.gpu.builder import BLOCKS, LANES, PLAIN, Builder, as_image, blocks_of, image_group
from runtime_arm.gpu.device import Buffer
from runtime_arm.gpu.lowering.registry import lowers
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.common.resampling import Resampled
from runtime_arm.operators.image.caffe2 import axes_of as caffe2_axes
from runtime_arm.operators.image.onnx import axes_of as onnx_axes
from runtime_arm.operators.layout.concat import join_axis
from runtime_arm.operators.layout.transpose import grouped_shapes, permutation_of
from runtime_arm.planning.steps import Step, Value
from runtime_arm.registry.kernel import Specs
from runtime_arm.registry.schema import DataDependent
from runtime_arm.registry.specs import Shape, TensorSpec

MOST_DIMENSIONS = 6


@lowers("view")
def reshape(builder: Builder, step: Step) -> None:
    """The output is the input with another shape: the same buffer, plain, or in blocks if nothing moves."""
    x, y = step.inputs[0], step.outputs[0]
    assert x is not None
    if x.spec.shape == y.spec.shape or _one_pixel(x.spec.shape, y.spec.shape):
        for layout in (BLOCKS, PLAIN):
            if builder.has(x, layout):
                builder.hold(y, layout, builder.read(x, layout))
        return
    builder.hold(y, PLAIN, builder.read(x, PLAIN))


def _one_pixel(x: Shape, y: Shape) -> bool:
    """Whether both are (N, C) with images of one pixel."""
    return max(len(x), len(y)) <= 4 and as_image(x) == as_image(y) and as_image(x)[2:] == (1, 1)


def _joins(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    return "the device joins what is computed" if any(spec is None for spec in inputs) else None


@lowers("Concat", "DepthConcat", supports=_joins)
def concat(builder: Builder, step: Step) -> None:
    y, values = step.outputs[0], [value for value in step.inputs if value is not None]
    axis = join_axis(step.op, y.spec.ndim)
    channels = [value.spec.shape[1] if value.spec.ndim > 1 else 1 for value in values]
    images = y.spec.ndim == 4 == values[0].spec.ndim and axis == 1 and not any(c % LANES for c in channels[:-1])
    layout = BLOCKS if images and any(builder.has(value, BLOCKS) for value in values) else PLAIN
    read = [builder.read(value, layout) for value in values]
    written = builder.output(y, layout)
    if layout == BLOCKS:
        n, _, h, w = as_image(y.spec.shape)
        runs, widths = n, [blocks_of(c) * LANES * h * w for c in channels]
    else:
        runs = int(np.prod(y.spec.shape[:axis]))
        widths = [value.spec.size // runs for value in values]
    at = 0
    for buffer, width in zip(read, widths):
        count = runs * width
        builder.launch("move", "copy_runs", {}, (count,), (64,), buffer, written, count, width, at, sum(widths))
        at += width


def _permutes(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    fits = outputs[0].ndim <= MOST_DIMENSIONS
    return None if fits else f"the device permutes {MOST_DIMENSIONS} dimensions at most"


@lowers("Transpose", "NCHW2NHWC", "NHWC2NCHW", "ChannelShuffle", supports=_permutes)
def transpose(builder: Builder, step: Step) -> None:
    x = step.inputs[0]
    assert x is not None
    shape, axes = x.spec.shape, list(range(x.spec.ndim))
    if step.op.type == "ChannelShuffle":
        shape, _, axis = grouped_shapes(step.op, shape)
        axes = [*range(axis), axis + 1, axis, *range(axis + 2, len(shape))]
    else:
        axes = list(permutation_of(step.op, x.spec.ndim))
    strides, step_size = [0] * len(shape), 1
    for axis in reversed(range(len(shape))):
        strides[axis], step_size = step_size, step_size * shape[axis]
    permute(builder, x, step.outputs[0], [shape[axis] for axis in axes], [strides[axis] for axis in axes])


def permute(builder: Builder, x: Value, y: Value, sizes: List[int], strides: List[int], start: int = 0) -> None:
    """y, with these sizes, is x read with these strides, in elements."""
    missing = MOST_DIMENSIONS - len(sizes)
    sizes, strides = [1] * missing + sizes, [0] * missing + strides
    count = y.spec.size
    read = builder.read(x, PLAIN)
    builder.launch(
        *("move", "permute", {}, (count,), (64,), read, builder.output(y, PLAIN), count),
        *(*sizes[1:], *strides, start),
    )


def _axes(op: OperatorDef, inputs: Specs) -> List[Resampled]:
    resampled: Any = onnx_axes if op.domain == "onnx" else caffe2_axes
    return list(resampled(op, *inputs))


def _resamples(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    assert inputs[0] is not None
    try:
        axes = _axes(op, inputs)
    except (ArmnetError, DataDependent):
        return "its sizes depend on data"
    if inputs[0].ndim != 4 or any(one.axis not in (2, 3) or one.outside is not None for one in axes):
        return "the device resizes the rows and columns of images (N, C, H, W)"
    return None


@lowers("ResizeNearest", "UpsampleNearest", "UpsampleBilinear", "onnx.Resize", supports=_resamples)
def resize(builder: Builder, step: Step) -> None:
    x, y = step.inputs[0], step.outputs[0]
    assert x is not None
    n, c, height, width = as_image(x.spec.shape)
    planes = n * blocks_of(c)
    axes = {one.axis: one for one in _axes(step.op, step.in_specs)}
    (rows, row_weights, row_taps), (columns, column_weights, column_taps) = (
        _table(builder, axes.get(axis), x.spec.shape[axis]) for axis in (2, 3)
    )
    size = (y.spec.shape[3], y.spec.shape[2], planes)
    builder.launch(
        *("move", "resample", {}, size, image_group(*size), builder.read(x, BLOCKS)),
        *(rows, row_weights, columns, column_weights, builder.output(y, BLOCKS)),
        *(planes, height, width, *y.spec.shape[2:], row_taps, column_taps),
    )


def _table(builder: Builder, one: Optional[Resampled], size: int) -> Tuple[Buffer, Buffer, int]:
    """The taps of an axis on the device: indices, weights and their number."""
    indices: Any = np.arange(size)[None] if one is None else one.indices
    weights: Any = np.ones(indices.shape) if one is None or one.weights is None else one.weights
    return builder.numbers(indices.astype(np.int32)), builder.numbers(weights.astype(np.float32)), indices.shape[0]
