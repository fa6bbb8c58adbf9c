"""Sampling an image at given places: ONNX's GridSample and AffineGrid."""

from __future__ import annotations

from itertools import product
from typing import Any, Callable, Dict, List, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.casting import cast
from runtime_arm.operators.common.dtypes import FLOATS, NUMBERS
from runtime_arm.operators.common.multiply_adds import matrix_product
from runtime_arm.operators.common.resampling import cubic, triangle
from runtime_arm.registry.schema import integers_of, operator, require
from runtime_arm.registry.specs import TensorSpec

Tap = Tuple[Array, Array]  # indices and weights, one per output
FAR = 2.0**30  # pixels; coordinates are clipped to this, beyond it they make no difference


def _zeros(x: Array, low: float, high: float, size: int) -> Array:
    return x


def _border(x: Array, low: float, high: float, size: int) -> Any:
    return np.clip(x, 0, size - 1)


def _reflected(x: Array, low: float, high: float, size: int) -> Any:
    """X, reflected at ``low`` and ``high`` until it lies between them."""
    span = high - low
    if span == 0:
        return np.full_like(x, low)
    folded = np.mod(x - low, 2 * span)
    return low + np.where(folded > span, 2 * span - folded, folded)


_PADDING: Dict[str, Callable[[Array, float, float, int], Any]] = {
    "zeros": _zeros,
    "border": _border,
    "reflection": _reflected,
}
_RADIUS = {"nearest": 0, "linear": 1, "cubic": 2}
_KERNEL = {"linear": triangle, "cubic": cubic(-0.75)}


def _option(op: OperatorDef, name: str, choices: Any, default: str) -> str:
    chosen = op.get_str(name, default)
    if chosen not in choices:
        raise ArgumentError(op, f"{name} must be one of {', '.join(choices)}, got {chosen!r}")
    return chosen


@operator("GridSample", domain="onnx", inputs=2, dtypes=NUMBERS)
def grid_sample(op: OperatorDef, x: TensorSpec, grid: TensorSpec) -> List[TensorSpec]:
    """Y (N, C, out...) is X (N, C, d1, ..., dr) at the places in grid (N, out..., r), which run from -1 to 1.

    The last dimension of X comes first in a place. mode: linear, nearest (ties to even), cubic. padding_mode: zeros,
    border, reflection. align_corners: -1 and 1 are the centres of the outermost pixels instead of their edges.
    """
    _option(op, "mode", _RADIUS, "linear")
    _option(op, "padding_mode", _PADDING, "zeros")
    require(
        op,
        x.ndim >= 3 and grid.ndim == x.ndim and grid.dtype.kind == "f",
        "X must be (N, C, d1, ..., dr), and the grid must hold floats in as many dimensions",
        x,
        grid,
    )
    require(op, grid.shape[0] == x.shape[0] and grid.shape[-1] == x.ndim - 2, "the grid must be (N, ..., r)", x, grid)
    require(op, all(x.shape[2:]), "X has no pixels", x)
    return [x.with_shape((*x.shape[:2], *grid.shape[1:-1]))]


@grid_sample.reference
def grid_sample_reference(op: OperatorDef, x: Array, grid: Array) -> List[Any]:
    places = np.moveaxis(grid[..., ::-1].astype(np.float64), -1, 0)
    taps = [_taps(op, place, size) for place, size in zip(places, x.shape[2:])]
    flat = x.reshape(*x.shape[:2], -1)
    exact = flat.astype(np.float64) if x.dtype.kind == "f" else flat
    begin = exact.shape[2] * np.arange(exact.shape[0] * exact.shape[1]).reshape(*exact.shape[:2], *[1] * (x.ndim - 2))
    y: Any = 0.0
    for tap in product(*taps):
        index, weight = np.zeros(grid.shape[:-1], np.intp), np.ones(grid.shape[:-1])
        for (indices, weights), size in zip(tap, x.shape[2:]):
            index, weight = index * size + indices, weight * weights
        y = y + np.take(exact, begin + index[:, None]) * weight[:, None]
    shape = (*x.shape[:2], *grid.shape[1:-1])
    return [cast(np.asarray(y).reshape(shape), x.dtype)]


def _taps(op: OperatorDef, place: Array, size: int) -> List[Tap]:
    """The pixels of one dimension that outputs at these places read, and their weights."""
    mode = op.get_str("mode", "linear")
    corners = op.get_bool("align_corners")
    low, high = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)
    at = (place + 1) / 2 * (size - 1) if corners else ((place + 1) * size - 1) / 2
    at = np.clip(np.where(at == at, at, -FAR), -FAR, FAR)
    if mode == "nearest":
        at = np.rint(at)
    inside = _PADDING[op.get_str("padding_mode", "zeros")]
    if mode != "cubic":  # for cubic, only the pixels that are read are padded, as in PyTorch
        at = np.where((at < low) | (at > high), inside(at, low, high, size), at)
    first = np.floor(at)
    if mode == "nearest":
        return [_tap(op, first, np.ones_like(at), low, high, size)]
    radius = _RADIUS[mode]
    return [
        _tap(op, pixel, _KERNEL[mode](np.abs(pixel - at)), low, high, size)
        for pixel in (first + k for k in range(1 - radius, 1 + radius))
    ]


def _tap(op: OperatorDef, index: Array, weight: Array, low: float, high: float, size: int) -> Tap:
    index = _PADDING[op.get_str("padding_mode", "zeros")](index, low, high, size)
    seen = (index >= 0) & (index <= size - 1)
    return np.where(seen, index, 0).astype(np.intp), np.where(seen, weight, 0)


@operator("AffineGrid", domain="onnx", inputs=2, dtypes=FLOATS, multiply_adds=matrix_product)
def affine_grid(op: OperatorDef, theta: TensorSpec, size: TensorSpec) -> List[TensorSpec]:
    """The grid (N, H, W, 2) or (N, D, H, W, 3) for GridSample: theta (N, 2, 3) or (N, 3, 4) applied to all places.

    size: (N, C, H, W) or (N, C, D, H, W). align_corners: -1 and 1 are the centres of the outermost pixels, else their
    edges.
    """
    sizes = integers_of(op, size, "size")
    rank = len(sizes) - 2
    require(
        op,
        rank in (2, 3) and theta.shape == (sizes[0], rank, rank + 1),
        "theta must be (N, 2, 3) or (N, 3, 4)",
        theta,
        size,
    )
    return [theta.with_shape((sizes[0], *sizes[2:], rank))]


def _centres(op: OperatorDef, size: int) -> Any:
    """The places of the pixels of one dimension, from -1 to 1."""
    if not op.get_bool("align_corners"):
        return (2 * np.arange(size) + 1) / size - 1
    return np.linspace(-1, 1, size) if size > 1 else np.zeros(size)


@affine_grid.reference
def affine_grid_reference(op: OperatorDef, theta: Array, size: Array) -> List[Any]:
    places = np.meshgrid(*(_centres(op, int(n)) for n in size[2:]), indexing="ij")
    homogeneous = np.stack([*places[::-1], np.ones_like(places[0])], axis=-1)
    grid = np.tensordot(theta.astype(np.float64), homogeneous, axes=(2, homogeneous.ndim - 1))
    return [np.moveaxis(grid, 1, -1).astype(theta.dtype)]
