"""Regions of interest sampled bilinearly: Caffe2's RoIAlign and RoIAlignRotated, ONNX's RoiAlign."""

from __future__ import annotations

import math
from typing import Any, Callable, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.casting import to_integers
from runtime_arm.operators.common.windows import channels_last, require_at_least
from runtime_arm.records import NamedTuple
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


class Grid(NamedTuple):
    """How regions are sampled: output pixels, samples per pixel and dimension (0: one per pixel it covers), scale.

    ``centred``: coordinates are shifted by half a pixel, so that they mean pixel centres; otherwise regions have at
    least size 1.
    """

    height: int
    width: int
    samples: int
    scale: float
    centred: bool


def grid_of(op: OperatorDef) -> Grid:
    """pooled_h, pooled_w (1), sampling_ratio (-1), spatial_scale (1.0), aligned (0)."""
    sizes = op.get_int("pooled_h", 1), op.get_int("pooled_w", 1)
    require_at_least(op, "pooled_h and pooled_w", sizes, 1)
    return Grid(*sizes, op.get_int("sampling_ratio", -1), op.get_float("spatial_scale", 1.0), op.get_bool("aligned"))


def _onnx_grid(op: OperatorDef) -> Grid:
    mode = op.get_str("coordinate_transformation_mode", "half_pixel")
    if mode not in ("half_pixel", "output_half_pixel"):
        raise ArgumentError(op, f"coordinate_transformation_mode must be half_pixel or output_half_pixel, got {mode!r}")
    sizes = op.get_int("output_height", 1), op.get_int("output_width", 1)
    require_at_least(op, "output_height and output_width", sizes, 1)
    return Grid(*sizes, op.get_int("sampling_ratio", 0), op.get_float("spatial_scale", 1.0), mode == "half_pixel")


def require_regions(op: OperatorDef, x: TensorSpec, rois: TensorSpec, columns: Sequence[int]) -> None:
    """ShapeError unless X is images and the regions are rows of one of these lengths; the longer has a batch index."""
    require(op, x.ndim == 4 and x.dtype.kind == "f", "X must be floats of four dimensions", x)
    fits = rois.ndim == 2 and rois.shape[1] in columns and rois.dtype == x.dtype
    require(op, fits, f"the regions must be rows of {' or '.join(map(str, columns))} numbers of X's type", x, rois)
    require(
        op,
        rois.ndim != 2 or rois.shape[1] == max(columns) or x.shape[0] == 1,
        "regions without a batch index need a batch of one",
        x,
        rois,
    )


def batch_and_corners(op: OperatorDef, x: Array, rois: Array, columns: int) -> Tuple[Array, Array]:
    """The batch indices and the rest of each row. ShapeError if an index is outside the batch."""
    if rois.shape[1] < columns:
        return np.zeros(len(rois), np.int64), rois
    indices = to_integers(rois[:, 0], np.int64)
    require(
        op,
        not len(rois) or (indices.min() >= 0 and indices.max() < len(x)),
        f"the regions' batch indices must be 0 to {len(x) - 1}",
    )
    return indices, rois[:, 1:]


def samples_of(grid: Grid, start: Array, extent: Array, axis: int) -> Array:
    """The sampling coordinates of one dimension of a region, (pixels, samples), computed in the regions' type."""
    pixels = (grid.height, grid.width)[axis]
    size = extent / start.dtype.type(pixels)
    count = grid.samples if grid.samples > 0 else max(math.ceil(size), 0)
    within = (np.arange(count, dtype=start.dtype) + start.dtype.type(0.5)) * size / start.dtype.type(max(count, 1))
    positions: Array = start + np.arange(pixels, dtype=start.dtype)[:, None] * size + within
    return positions


class Taps(NamedTuple):
    """Bilinear interpolation: the index and weight of each of four neighbours; the weight is 0 outside the image."""

    rows: Tuple[Array, ...]
    columns: Tuple[Array, ...]
    weights: Tuple[Array, ...]


def bilinear_taps(y: Array, x: Array, height: int, width: int) -> Taps:
    """The neighbours of points, which broadcast.

    A point more than a pixel outside the image has weight 0; others outside are moved to the border.
    """
    inside = (y >= -1) & (y <= height) & (x >= -1) & (x <= width)
    y, x = (np.clip(np.where(np.isfinite(v), v, 0), 0, n - 1).astype(np.float64) for v, n in ((y, height), (x, width)))
    top, left = np.floor(y).astype(np.int64), np.floor(x).astype(np.int64)
    bottom, right = np.minimum(top + 1, height - 1), np.minimum(left + 1, width - 1)
    down, across = y - top, x - left
    weights = (1 - down) * (1 - across), (1 - down) * across, down * (1 - across), down * across
    return Taps((top, top, bottom, bottom), (left, right, left, right), tuple(weight * inside for weight in weights))


def _neighbours(image: Array, taps: Taps) -> List[Array]:
    """The weighted neighbours of every sample, float64.

    Pixels without weight add nothing, even NaN or infinite ones.
    """
    tapped = zip(*taps)
    return [np.where(weights, image[:, rows, columns] * weights, 0) for rows, columns, weights in tapped]


def _average(image: Array, taps: Taps) -> Array:
    """The mean of the interpolated samples, float64. image: (C, H, W), taps: (height, samples, width, samples)."""
    mean: Array = np.sum(_neighbours(image, taps), 0).mean((2, 4))
    return mean


def _largest(image: Array, taps: Taps) -> Array:
    """The largest weighted neighbour of any sample: ONNX's mode max."""
    largest: Array = np.max(_neighbours(image, taps), 0).max((2, 4))
    return largest


def _edges(grid: Grid, corners: Array) -> Tuple[Tuple[Any, Any], Tuple[Any, Any]]:
    """Of a region (x1, y1, x2, y2): its top and left edge in the image, and its height and width."""
    left, top, right, bottom = corners * corners.dtype.type(grid.scale) - corners.dtype.type(0.5 if grid.centred else 0)
    extents = bottom - top, right - left
    if not grid.centred:
        extents = np.maximum(extents[0], corners.dtype.type(1)), np.maximum(extents[1], corners.dtype.type(1))
    return (top, left), extents


def taps_of(grid: Grid, corners: Array, image: Sequence[int]) -> Optional[Taps]:
    """The samples of a region (x1, y1, x2, y2) of an image (height, width), as (height, samples, width, samples); None
    if there are none."""
    starts, extents = _edges(grid, corners)
    rows, columns = (samples_of(grid, *given) for given in zip(starts, extents, (0, 1)))
    if not rows.size or not columns.size:
        return None
    return bilinear_taps(rows[:, :, None, None], columns, image[0], image[1])


def align(x: Array, batch: Array, corners: Array, grid: Grid, pool: Callable[[Array, Taps], Array] = _average) -> Array:
    """Pools the regions (x1, y1, x2, y2) of X (N, C, H, W): (regions, C, height, width) of X's type."""
    y = np.zeros((len(corners), x.shape[1], grid.height, grid.width), x.dtype)
    for region, one in enumerate(corners):
        taps = taps_of(grid, one, x.shape[2:])
        if taps is not None:
            y[region] = pool(x[batch[region]], taps)
    return y


@operator("RoIAlign", inputs=2)
def roi_align(op: OperatorDef, x: TensorSpec, rois: TensorSpec) -> List[TensorSpec]:
    """Y[r, c, h, w] = the mean of X[batch, c] sampled bilinearly over pixel (h, w) of region r.

    X: (N, C, H, W), with order NHWC (N, H, W, C) and Y likewise; regions (R, 5): batch, x1, y1, x2, y2, or (R, 4)
    without the batch. Arguments: see ``grid_of``. Source: caffe2/operators/roi_align_op.cc.
    """
    require_regions(op, x, rois, (4, 5))
    grid = grid_of(op)
    if channels_last(op):
        return [x.with_shape((rois.shape[0], grid.height, grid.width, x.shape[3]))]
    return [x.with_shape((rois.shape[0], x.shape[1], grid.height, grid.width))]


@roi_align.reference
def roi_align_reference(op: OperatorDef, x: Array, rois: Array) -> Sequence[Any]:
    last = channels_last(op)
    x = np.moveaxis(x, -1, 1) if last else x
    y = align(x, *batch_and_corners(op, x, rois, 5), grid_of(op))
    return [np.moveaxis(y, 1, -1) if last else y]


@operator("RoIAlignRotated", inputs=2)
def roi_align_rotated(op: OperatorDef, x: TensorSpec, rois: TensorSpec) -> List[TensorSpec]:
    """RoIAlign over rotated regions: (R, 6) batch, centre x and y, width, height, angle in degrees; or (R, 5).

    X: (N, C, H, W). Regions (R, 5) have no batch. Source: caffe2/operators/roi_align_rotated_op.cc.
    """
    require_regions(op, x, rois, (5, 6))
    require(op, not channels_last(op), "order must be NCHW")
    grid = grid_of(op)
    return [x.with_shape((rois.shape[0], x.shape[1], grid.height, grid.width))]


@roi_align_rotated.reference
def roi_align_rotated_reference(op: OperatorDef, x: Array, rois: Array) -> Sequence[Any]:
    grid = grid_of(op)
    batch, boxes = batch_and_corners(op, x, rois, 6)
    y = np.zeros((len(rois), x.shape[1], grid.height, grid.width), x.dtype)
    scaled = boxes[:, :4] * boxes.dtype.type(grid.scale)
    for region, (centre_x, centre_y, width, height) in enumerate(scaled):
        if not grid.centred:
            width, height = np.maximum(width, x.dtype.type(1)), np.maximum(height, x.dtype.type(1))
        angle = np.deg2rad(boxes[region, 4])
        rows = samples_of(grid, -height / 2, height, 0)[:, :, None, None]
        columns = samples_of(grid, -width / 2, width, 1)
        shift = 0.5 if grid.centred else 0
        across = columns * np.cos(angle) + rows * np.sin(angle) + centre_x - shift
        down = rows * np.cos(angle) - columns * np.sin(angle) + centre_y - shift
        if across.size:
            taps = bilinear_taps(down, across, x.shape[2], x.shape[3])
            y[region] = _average(x[batch[region]], taps)
    return [y]


@operator("RoiAlign", domain="onnx", inputs=3)
def onnx_roi_align(op: OperatorDef, x: TensorSpec, rois: TensorSpec, batch: TensorSpec) -> List[TensorSpec]:
    """RoIAlign over X (N, C, H, W), with regions (R, 4) and batch indices (R) as separate inputs.

    output_height, output_width, sampling_ratio (0: adaptive), spatial_scale, coordinate_transformation_mode
    (half_pixel, output_half_pixel), mode (avg, max: the largest of the weighted neighbours).
    """
    require_regions(op, x, rois, (4,))
    fits = batch.shape == rois.shape[:1] and batch.dtype.kind in "iu"
    require(op, fits, "there must be one integer batch index per region", rois, batch)
    if op.get_str("mode", "avg") not in ("avg", "max"):
        raise ArgumentError(op, f"mode must be avg or max, got {op.get_str('mode')!r}")
    grid = _onnx_grid(op)
    return [x.with_shape((rois.shape[0], x.shape[1], grid.height, grid.width))]


def _require_batch(op: OperatorDef, x: Array, rois: Array, batch: Array) -> None:
    require(
        op,
        not len(rois) or (batch.min() >= 0 and batch.max() < len(x)),
        f"the batch indices must be 0 to {len(x) - 1}",
    )


@onnx_roi_align.reference
def onnx_roi_align_reference(op: OperatorDef, x: Array, rois: Array, batch: Array) -> Sequence[Any]:
    _require_batch(op, x, rois, batch)
    return [align(x, batch, rois, _onnx_grid(op), _largest if op.get_str("mode", "avg") == "max" else _average)]


# The mean is separable: a matrix of weights for the rows of a region, and one for its columns


def _shares(positions: Array, length: int) -> Tuple[Array, Array]:
    """Which of ``length`` rows of an image the pixels of a region read, and how much of each: (pixels, those rows).

    positions: (pixels, samples). The rules of ``bilinear_taps``.
    """
    pixels, count = positions.shape
    inside = (positions >= -1) & (positions <= length)
    at = np.clip(np.where(np.isfinite(positions), positions, 0), 0, length - 1).astype(np.float64)
    low = np.floor(at).astype(np.intp)
    first = int(low.min())
    shares = np.zeros((pixels, int(min(low.max() + 2, length)) - first))
    own = np.arange(pixels)[:, None]
    np.add.at(shares, (own, low - first), (1 - (at - low)) * inside / count)
    np.add.at(shares, (own, np.minimum(low + 1, length - 1) - first), (at - low) * inside / count)
    read = np.flatnonzero(shares.any(0))
    return first + read, shares[:, read].astype(np.float32)


def _scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> List[TensorSpec]:
    """X with its channels last, what one region reads of it, that pooled along rows, and one result."""
    x = inputs[0]
    assert x is not None
    n, c, h, w = x.shape
    grid = grid_of(op) if not op.domain else _onnx_grid(op)
    if grid.samples > 0:  # a pixel reads two rows a sample
        h, w = min(h, 2 * grid.samples * grid.height), min(w, 2 * grid.samples * grid.width)
    shapes = (n, x.shape[2] * x.shape[3], c), (h * w, c), (grid.height, w * c), (grid.width, c)
    return [TensorSpec(shape, np.float32) for shape in shapes]


def _why_not(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    x = inputs[0]
    if x is None or x.dtype != np.float32 or not x.size:
        return "X must be float32 and hold something"
    if op.get_str("mode", "avg") != "avg" or channels_last(op):
        return "it pools means of channels first"
    return None


def _align_by_products(call: Call, grid: Grid, regions: Callable[[], Tuple[Array, Array]]) -> Run:
    """Two products a region. regions: gives the batch indices and the corners of all.

    In a product a pixel that is not finite spoils results that it has no share in; then samples are taken one by one.
    """
    x, y = call.inputs[0], call.outputs[0]
    last, read, pooled, result = call.scratch
    height, width = x.shape[2:]
    channels, turned = x.shape[1], (last.reshape(len(x), height, width, -1), x.transpose(0, 2, 3, 1))

    def pool(image: Array, target: Array, rows: Array, columns: Array, down: Array, across: Array) -> None:
        part = read[: rows.size * columns.size]
        np.take(image, (rows[:, None] * width + columns).reshape(-1), 0, out=part, mode="clip")
        lines = pooled.reshape(-1)[: len(down) * columns.size * channels].reshape(len(down), -1)
        np.matmul(down, part.reshape(rows.size, -1), out=lines)
        for at, line in enumerate(lines):
            np.matmul(across, line.reshape(columns.size, channels), out=result)
            target[:, at] = result.T

    def run() -> None:
        batch, corners = regions()
        require(call.op, grid.samples > 0 or bool(np.isfinite(corners).all()), "the regions must be finite")
        np.copyto(*turned)
        for region, one in enumerate(corners):
            starts, extents = _edges(grid, one)
            rows, columns = (samples_of(grid, *given) for given in zip(starts, extents, (0, 1)))
            if rows.size and columns.size:
                (ys, down), (xs, across) = _shares(rows, height), _shares(columns, width)
                if ys.size and xs.size:
                    pool(last[batch[region]], y[region], ys, xs, down, across)
                    if not math.isfinite(np.add.reduce(y[region], axis=None)):
                        taps = bilinear_taps(rows[:, :, None, None], columns, height, width)
                        y[region] = _average(x[batch[region]], taps)
                    continue
            y[region] = 0

    return run


@onnx_roi_align.kernel("PRODUCTS", supports=_why_not, scratch=_scratch)
def onnx_roi_align_products(call: Call) -> Run:
    def regions() -> Tuple[Array, Array]:
        x, rois, batch = call.inputs
        _require_batch(call.op, x, rois, batch)
        return batch, rois

    return _align_by_products(call, _onnx_grid(call.op), regions)


@roi_align.kernel("PRODUCTS", supports=_why_not, scratch=_scratch)
def roi_align_products(call: Call) -> Run:
    x, rois = call.inputs
    return _align_by_products(call, grid_of(call.op), lambda: batch_and_corners(call.op, x, rois, 5))
