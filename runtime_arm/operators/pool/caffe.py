"""Caffe's pools that Caffe2's and ONNX's operators cannot express: masks, spatial pyramids, interpolation."""

from __future__ import annotations

from typing import Any, Iterator, List, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.multiply_adds import of_terms
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


@operator("MaskOfMaxPool", domain="caffe", inputs=2)
def mask_of_max_pool(op: OperatorDef, indices: TensorSpec, x: TensorSpec) -> List[TensorSpec]:
    """The positions of maxima within their image, as floats, computed from ``indices``, positions within the whole X.

    The indices are the second output of ONNX's MaxPool. X: (N, C, H, W).
    """
    require(op, x.ndim == 4, "X must be (N, C, H, W)", x)
    return [indices.with_dtype(x.dtype)]


@mask_of_max_pool.reference
def mask_of_max_pool_reference(op: OperatorDef, indices: Array, x: Array) -> List[Any]:
    return [(indices % (x.shape[2] * x.shape[3])).astype(x.dtype)]


def _bins(image: int, count: int) -> List[Tuple[int, int, int]]:
    """Begin and end within the image, and the padded size, of each bin that Caffe divides a dimension into."""
    kernel = -(-image // count)
    pad = (kernel * count - image + 1) // 2
    bins = []
    for index in range(count):
        begin = index * kernel - pad
        end = min(begin + kernel, image + pad)
        bins.append((max(begin, 0), min(end, image), end - begin))
    return bins


def _pyramid(op: OperatorDef, shape: Sequence[int]) -> Iterator[Array]:
    """For each level the bins of rows and columns: int64 (bins, bins, 6)."""
    for level in range(op.get_int("pyramid_height")):
        rows, columns = (_bins(n, 2**level) for n in shape[2:])
        yield np.array([[(*row, *column) for column in columns] for row in rows])


@operator("SPP", domain="caffe")
def spp(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """The MAX or AVE of X in 1, 4, 16, ... bins per channel, for ``pyramid_height`` levels; Y: (N, all bins).

    A single level is not flattened: Y is (N, C, 1, 1).

    X: (N, C, H, W). An average counts the padding that fills up the bins at the edge. Source: Caffe's spp_layer.cpp; He
    et al., Spatial Pyramid Pooling (2014).
    """
    require(op, x.ndim == 4 and min(x.shape[2:]) > 0, "X must be (N, C, H, W)", x)
    height = op.get_int("pyramid_height")
    if not 1 <= height <= 10:
        raise ArgumentError(op, f"pyramid_height must be 1 to 10, got {height}")
    if op.get_str("pool", "MAX") not in ("MAX", "AVE"):
        raise ArgumentError(op, f"pool must be MAX or AVE, got {op.get_str('pool')!r}")
    smallest = 2 ** (height - 1)
    for n in x.shape[2:]:
        if any(end <= begin for begin, end, _ in _bins(n, smallest)):
            raise ArgumentError(op, f"{n} pixels cannot be divided into {smallest} bins")
    flat = (x.shape[0], x.shape[1] * sum(4**level for level in range(height)))
    return [x.with_shape((*x.shape[:2], 1, 1) if height == 1 else flat)]


@spp.reference
def spp_reference(op: OperatorDef, x: Array) -> List[Any]:
    average, levels = op.get_str("pool", "MAX") == "AVE", []
    for bins in _pyramid(op, x.shape):
        level = np.empty((*x.shape[:2], *bins.shape[:2]), x.dtype)
        for row, column in np.ndindex(*bins.shape[:2]):
            top, bottom, height, left, right, width = bins[row, column]
            part = x[:, :, top:bottom, left:right]
            sums = part.sum((2, 3), dtype=np.float64)
            level[:, :, row, column] = sums / (height * width) if average else part.max((2, 3))
        levels.append(level)
    return [levels[0] if len(levels) == 1 else np.concatenate([level.reshape(len(x), -1) for level in levels], 1)]


def _interpolated(op: OperatorDef, image: int, size: str) -> int:
    """The output size of one dimension. ``size``: the name of the argument that states it."""
    inner = image + op.get_int("pad_beg", 0) + op.get_int("pad_end", 0)
    shrink, zoom = op.get_int("shrink_factor", 1), op.get_int("zoom_factor", 1)
    if op.get_int(size, 0):
        return op.get_int(size)
    inner = (inner - 1) // shrink + 1
    return inner + (inner - 1) * (zoom - 1)


@operator("Interp", domain="caffe", multiply_adds=of_terms(4))
def interp(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """X (N, C, H, W), resized bilinearly with its corners aligned, to height by width or by the factors.

    shrink_factor k keeps every k-th pixel; zoom_factor k divides the distance between pixels by k. pad_beg and pad_end
    (0 or negative) crop the borders first. Source: interp_layer.cpp of DeepLab's Caffe.
    """
    require(op, x.ndim == 4 and x.size > 0, "X must be (N, C, H, W) and not empty", x)
    for name, low, high in (
        ("pad_beg", None, 0),
        ("pad_end", None, 0),
        ("shrink_factor", 1, None),
        ("zoom_factor", 1, None),
        ("height", 0, None),
        ("width", 0, None),
    ):
        value = op.get_int(name, 1 if name.endswith("factor") else 0)
        if (low is not None and value < low) or (high is not None and value > high):
            raise ArgumentError(op, f"{name} is out of range: {value}")
    inner = [n + op.get_int("pad_beg", 0) + op.get_int("pad_end", 0) for n in x.shape[2:]]
    require(op, min(inner) > 0, "pad_beg and pad_end remove all of X", x)
    return [x.with_shape((*x.shape[:2], *(_interpolated(op, n, s) for n, s in zip(x.shape[2:], ("height", "width")))))]


def _weights(image: int, size: int) -> Array:
    """Bilinear weights, float64 (size, image)."""
    step = (image - 1) / (size - 1) if size > 1 else 0.0
    at = np.arange(size) * step
    low = np.minimum(at.astype(np.int64), image - 1)
    high = np.minimum(low + 1, image - 1)
    weights = np.zeros((size, image))
    np.add.at(weights, (np.arange(size), low), 1 - (at - low))
    np.add.at(weights, (np.arange(size), high), at - low)
    return weights


@interp.reference
def interp_reference(op: OperatorDef, x: Array) -> List[Any]:
    begin, end = -op.get_int("pad_beg", 0), op.get_int("pad_end", 0)
    sizes = [_interpolated(op, n, s) for n, s in zip(x.shape[2:], ("height", "width"))]
    inner = x[:, :, begin : x.shape[2] + end, begin : x.shape[3] + end].astype(np.float64)
    rows, columns = _weights(inner.shape[2], sizes[0]), _weights(inner.shape[3], sizes[1])
    return [np.matmul(np.matmul(rows, inner), columns.T).astype(x.dtype)]
