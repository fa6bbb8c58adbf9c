"""TensorFlow Lite's RESIZE_BILINEAR of integers: in fixed point of 10 bits for int8 and int16, in float32 for uint8.

Source: LiteRT, tflite/kernels/internal/reference/resize_bilinear.h.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Iterator, List, Sequence, Tuple

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
BLOCK = 1 << 15  # elements in a block of output rows


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


def _blocks(shape: Sequence[int]) -> Iterator[_Block]:
    """The blocks of an output of this shape."""
    batch, height, width, channels = shape
    for image in range(batch):
        for begin, end in ranges(height, max(1, BLOCK // max(width * channels, 1))):
            yield _Block(image, slice(begin, end))


def _scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> List[TensorSpec]:
    """Pixels of the rows that are read, pixels that are read, their products, sums."""
    x, y = inputs[0], outputs[0]
    assert x is not None
    most = max((block.rows.stop - block.rows.start for block in _blocks(y.shape)), default=0)
    work = np.float64 if x.dtype != np.uint8 else np.float32
    sizes = (most * x.shape[2] * x.shape[3], x.dtype), (most * y.shape[2] * y.shape[3], x.dtype)
    return [*(TensorSpec((size,), dtype) for size, dtype in sizes), *[TensorSpec((sizes[1][0],), work)] * 2]


@quantized_resize_bilinear.kernel("NUMPY", scratch=_scratch)
def quantized_resize_bilinear_numpy(call: Call) -> Run:
    """Adds the four pixels around an output one by one; for fixed point in float64, where every sum is exact."""
    x, y = call.inputs[0], call.outputs[0]
    rows, columns = (axis_of_size(call.op, *sizes, x.dtype) for sizes in zip(x.shape[1:3], y.shape[1:3]))
    work = call.scratch[2].dtype.type
    steps: List[Step] = []
    for block in _blocks(y.shape):
        out = y[block.image, block.rows]
        product, total = (buffer[: out.size].reshape(out.shape) for buffer in call.scratch[2:])
        for right in (False, True):
            for down in (False, True):
                target = product if right or down else total
                steps += _weighted(
                    call,
                    block,
                    (rows[down], rows[2 + down].astype(work)),
                    (columns[right], columns[2 + right].astype(work)),
                    target,
                )
                if target is product:
                    steps.append(partial(np.add, total, product, total))
        steps += _rounded(total, product, x.dtype)
        steps.append(partial(np.copyto, out, total, casting="unsafe"))
    return in_turn(steps)


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
    return [
        partial(np.multiply, total, 2.0**-20, total),
        partial(np.copysign, 0.5, total, work),
        partial(np.add, total, work, total),
    ]
