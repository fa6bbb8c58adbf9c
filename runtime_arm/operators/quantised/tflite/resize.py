"""TensorFlow Lite's RESIZE_BILINEAR of integers: in fixed point of 10 bits for int8 and int16, in float32 for uint8.

Source: LiteRT, tflite/kernels/internal/reference/resize_bilinear.h.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.quantised.tflite.parameters import UP_TO_SIXTEEN_BITS, quantised
from runtime_arm.records import NamedTuple
from runtime_arm.registry.blocks import ranges
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import integers_of, require
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import Step, in_turn

ONE = 1 << 10  # of the fixed point
BLOCK = 3 << 13  # elements in a block of output rows
EXACT = 1 << 24  # a float32 holds all whole numbers up to it


class Axis(NamedTuple):
    """For every output position of a dimension: the pixels before and after it, and their weights."""

    low: Array
    high: Array
    low_weight: Array
    high_weight: Array


def axis_of_size(op: OperatorDef, size: int, output: int, dtype: Any) -> Axis:
    """Weights are fixed-point integers, for uint8 float32."""
    aligned, centred = op.get_bool("align_corners") and output > 1, op.get_bool("half_pixel_centers")
    if aligned and centred:
        raise ArgumentError(op, "align_corners and half_pixel_centers cannot both be set")
    pixels, steps = (size - 1, output - 1) if aligned else (size, output)
    if dtype != np.uint8:
        positions, low, high = _fixed_positions(pixels, steps, output, centred)
    else:
        positions, low, high = _float_positions(pixels, steps, output, centred)
    low, high = np.maximum(low, 0), np.minimum(high, size - 1)
    unit: Any = ONE if dtype != np.uint8 else np.float32(1)
    offset = positions - low.astype(positions.dtype) * unit
    return Axis(low.astype(np.intp), high.astype(np.intp), unit - offset, offset)


def _fixed_positions(pixels: int, steps: int, output: int, centred: bool) -> Tuple[Array, Array, Array]:
    scale = (ONE * pixels + steps // 2) // steps
    positions = np.arange(output, dtype=np.int64) * scale
    if centred:
        positions += scale // 2 - ONE // 2
    towards_zero = np.sign(positions) * (np.abs(positions) // ONE)
    above = positions + ONE - 1
    return positions, towards_zero, np.sign(above) * (np.abs(above) // ONE)


def _float_positions(pixels: int, steps: int, output: int, centred: bool) -> Tuple[Array, Array, Array]:
    scale, half = np.float32(pixels) / np.float32(steps), np.float32(0.5)
    positions = np.arange(output, dtype=np.float32)
    positions = (positions + half) * scale - half if centred else positions * scale
    return positions, np.floor(positions).astype(np.int64), np.ceil(positions).astype(np.int64)


@quantised("QuantizedResizeBilinear", inputs=2, dtypes=UP_TO_SIXTEEN_BITS)
def quantized_resize_bilinear(op: OperatorDef, x: TensorSpec, size: TensorSpec) -> List[TensorSpec]:
    """X (N, H, W, C) to Y (N, *size, C), rounded to nearest, ties away from zero. X and Y share one scale.

    align_corners, half_pixel_centers (0): as in TensorFlow's ResizeBilinear.
    """
    require(op, x.ndim == 4 and min(x.shape[1:3]) > 0, "X must be (N, H, W, C) with pixels", x)
    wanted = integers_of(op, size, "size")
    require(op, len(wanted) == 2 and min(wanted) > 0, f"size must be two positive numbers, got {wanted}")
    for pixels, output in zip(x.shape[1:3], wanted):
        axis_of_size(op, pixels, output, x.dtype)
    return [TensorSpec((x.shape[0], *wanted, x.shape[3]), x.dtype)]


@quantized_resize_bilinear.reference
def quantized_resize_bilinear_reference(op: OperatorDef, x: Array, size: Array) -> List[Any]:
    rows, columns = (axis_of_size(op, pixels, int(output), x.dtype) for pixels, output in zip(x.shape[1:3], size))
    values = x.astype(np.int64 if x.dtype != np.uint8 else np.float32)
    total: Any = 0
    for right in (False, True):
        for down in (False, True):
            met = values.take(rows[down], 1).take(columns[right], 2)
            total = total + met * rows[2 + down][:, None, None] * columns[2 + right][:, None]
    if x.dtype != np.uint8:
        return [(np.sign(total) * ((np.abs(total) + (1 << 19)) >> 20)).astype(x.dtype)]
    return [(total + np.float32(0.5)).astype(np.uint8)]


class _Block(NamedTuple):
    """Output rows of one image."""

    image: int
    rows: slice


def _blocks(x: Sequence[int], y: Sequence[int]) -> Iterator[_Block]:
    """The blocks of an output of a shape, which hold BLOCK elements of it and of what is read at most."""
    batch, height, width, channels = y
    for image in range(batch):
        for begin, end in ranges(height, max(1, BLOCK // max(max(width, x[2]) * channels, 1))):
            yield _Block(image, slice(begin, end))


class _Whole(NamedTuple):
    """Weights as whole numbers, which sums may meet in any order: exact in the dtype. unit: of a sum."""

    rows: Sequence[Array]
    columns: Sequence[Array]
    unit: float
    dtype: Any


def _axes(op: OperatorDef, x: TensorSpec, y: TensorSpec) -> List[Axis]:
    return [axis_of_size(op, *sizes, x.dtype) for sizes in zip(x.shape[1:3], y.shape[1:3])]


def _whole(axes: Sequence[Axis], dtype: Any) -> Optional[_Whole]:
    """None if the weights, of uint8, are no multiples of the fixed point's unit, or sums of them are rounded."""
    unit, parts, most = 1.0, [], float(np.iinfo(dtype).max) + 1
    for axis in axes:
        weights = [np.asarray(one, np.float64) * (ONE if dtype == np.uint8 else 1) for one in axis[2:]]
        if any(bool((one != np.rint(one)).any()) for one in weights):
            return None
        divisor = int(np.gcd.reduce(np.concatenate(weights).astype(np.int64), initial=0))
        common = max(divisor & -divisor, 1)  # a power of two
        parts.append([one / common for one in weights])
        unit, most = unit * common / ONE, most * ONE / common
    if most <= EXACT:
        return _Whole(parts[0], parts[1], unit, np.float32)
    return None if dtype == np.uint8 else _Whole(parts[0], parts[1], unit, np.float64)


def _scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> List[TensorSpec]:
    """Pixels of the rows that are read; three buffers of rows, or two of pixels and one of them as they are read."""
    x, y = inputs[0], outputs[0]
    assert x is not None
    most = max((block.rows.stop - block.rows.start for block in _blocks(x.shape, y.shape)), default=0)
    read, rows = most * x.shape[2] * x.shape[3], most * max(x.shape[2], y.shape[2]) * x.shape[3]
    whole = _whole(_axes(op, x, y), x.dtype)
    if whole is None:
        return [TensorSpec((size,), of) for size, of in ((read, x.dtype), (rows, x.dtype), *[(rows, np.float32)] * 2)]
    return [TensorSpec((read,), x.dtype), *[TensorSpec((rows,), whole.dtype)] * 3]


@quantized_resize_bilinear.kernel("NUMPY", scratch=_scratch)
def quantized_resize_bilinear_numpy(call: Call) -> Run:
    """Adds rows, then columns, where no sum is rounded; else the four pixels around an output one by one."""
    x, y = call.in_specs[0], call.out_specs[0]
    assert x is not None
    axes = _axes(call.op, x, y)
    whole = _whole(axes, x.dtype)
    steps: List[Step] = []
    for block in _blocks(x.shape, y.shape):
        out = call.outputs[0][block.image, block.rows]
        if whole is None:
            total, work = _four_pixels(call, block, axes, steps)
        else:
            total, work = _rows_then_columns(call, block, axes, whole, steps)
        steps += _rounded(total, work, x.dtype)
        steps.append(partial(np.copyto, out, total, casting="unsafe"))
    return in_turn(steps)


def _rows_then_columns(
    call: Call, block: _Block, axes: Sequence[Axis], whole: _Whole, steps: List[Step]
) -> Tuple[Array, Array]:
    """Adds steps that make a block; the sums and a buffer of their size."""
    image, out = call.inputs[0][block.image], call.outputs[0][block.image, block.rows]
    height, (width, channels) = len(out), image.shape[1:]
    read = call.scratch[0][: height * width * channels].reshape(height, width, channels)
    rows, added = (buffer[: read.size].reshape(read.shape) for buffer in call.scratch[1:3])
    product, total = (buffer[: out.size].reshape(out.shape) for buffer in call.scratch[2:])
    for index, target in enumerate((rows, added)):
        weights = whole.rows[index][block.rows, None, None].astype(whole.dtype)
        steps.append(partial(np.take, image, axes[0][index][block.rows], 0, read, "clip"))
        steps.append(partial(np.multiply, read, weights, target))
    steps.append(partial(np.add, rows, added, rows))
    for index, target in enumerate((total, product)):
        weights = np.repeat((whole.columns[index] * whole.unit).astype(whole.dtype), channels)
        steps.append(partial(np.take, rows, axes[1][index], 1, target, "clip"))
        line = target.reshape(height, -1)
        steps.append(partial(np.multiply, line, weights, line))
    steps.append(partial(np.add, total, product, total))
    return total, product


def _four_pixels(call: Call, block: _Block, axes: Sequence[Axis], steps: List[Step]) -> Tuple[Array, Array]:
    """Adds steps that make a block in TensorFlow Lite's order; the sums and a buffer of their size."""
    out, (rows, columns) = call.outputs[0][block.image, block.rows], axes
    product, total = (buffer[: out.size].reshape(out.shape) for buffer in call.scratch[2:])
    for right in (False, True):
        for down in (False, True):
            target = product if right or down else total
            steps += _weighted(call, block, (rows[down], rows[2 + down]), (columns[right], columns[2 + right]), target)
            if target is product:
                steps.append(partial(np.add, total, product, total))
    return total, product


def _weighted(
    call: Call, block: _Block, rows: Tuple[Array, Array], columns: Tuple[Array, Array], target: Array
) -> List[Step]:
    """target = the pixels at these rows and columns times their weights. rows, columns: indices and weights."""
    image, height = call.inputs[0][block.image], block.rows.stop - block.rows.start
    met_rows = call.scratch[0][: height * image.shape[1] * image.shape[2]].reshape(height, *image.shape[1:])
    met = call.scratch[1][: target.size].reshape(target.shape)
    return [
        partial(np.take, image, rows[0][block.rows], 0, met_rows, "clip"),
        partial(np.take, met_rows, columns[0], 1, met, "clip"),
        partial(np.multiply, met, rows[1][block.rows, None, None], target),
        partial(np.multiply, target, columns[1][:, None], target),
    ]


def _rounded(total: Array, work: Array, dtype: Any) -> List[Step]:
    """Prepares the values so that a cast to integers rounds as the reference does."""
    if dtype == np.uint8:
        return [partial(np.add, total, np.float32(0.5), total)]
    return [partial(np.copysign, 0.5, total, work), partial(np.add, total, work, total)]
