"""Reshaping, reordering, joining and cutting blobs."""

from __future__ import annotations

from typing import List, Optional

import numpy as np

from exporter.common.open_shapes import Dims
from exporter.onnx.node import Node, Operators
from exporter.onnx.rules import rule
from exporter.onnx.rules.reduction import from_the_front
from runtime_arm.errors import ExportError


@rule("Constant")
def constant(node: Node) -> Operators:
    kinds = {
        "value": None,
        "sparse_value": None,
        "value_float": np.float32,
        "value_floats": np.float32,
        "value_int": np.int64,
        "value_ints": np.int64,
    }
    for name, dtype in kinds.items():
        if name in node.attributes:
            return node.define(np.asarray(node.attributes[name], dtype))
    raise ExportError(f"a constant given by {', '.join(node.attributes) or 'no attribute'} is not supported")


@rule("Reshape")
def reshape(node: Node) -> Operators:
    """Caffe2's Reshape has two outputs; a constant shape is an argument."""
    shape = node.constant_ints(1)
    if shape is None or 0 in shape:
        zeros_stay = node.get_int("allowzero", 0)
        if zeros_stay or not (node.caffe2_compatible or _copies_alike(node.dims(0), shape)):
            return [node.as_onnx()]
    outputs = [node.outputs[0], node.fresh("old_shape")]
    if shape is None:
        return [node.to("Reshape", outputs=outputs)]
    return [node.to("Reshape", [node.input(0)], outputs, shape=shape)]


def _copies_alike(dims: Optional[Dims], shape: Optional[List[int]]) -> bool:
    """Whether zeros in the shape mean the same in Caffe2 as in ONNX: for an empty blob Caffe2 copies nothing."""
    if dims is None:
        return False
    open_dims = [axis for axis, n in enumerate(dims) if not n]
    copied = None if shape is None else [axis for axis, n in enumerate(shape) if n == 0]
    return not open_dims or (len(open_dims) == 1 and copied == open_dims)


@rule("Flatten")
def flatten(node: Node) -> Operators:
    axis, rank = node.get_int("axis", 1), node.rank(0)
    if axis < 0 and rank is not None:
        axis += rank
    return [node.as_onnx() if axis < 0 else node.to("Flatten", axis=axis)]


@rule("Transpose")
def transpose(node: Node) -> Operators:
    """Both reverse the dimensions by default."""
    return [node.to("Transpose", axes=node.get_ints("perm") if "perm" in node.attributes else None)]


@rule("Squeeze")
def squeeze(node: Node) -> Operators:
    dims = node.dims(0)
    if node.has(1):
        axes = from_the_front(node.constant_ints(1), node.rank(0))
    else:
        axes = None if dims is None or None in dims else [axis for axis, n in enumerate(dims) if n == 1]
    if axes is None:
        return [node.as_onnx()]
    return [node.to("Squeeze", [node.input(0)], dims=sorted(axes))] if axes else node.alias(0, node.input(0))


@rule("Unsqueeze")
def unsqueeze(node: Node) -> Operators:
    axes, rank = node.constant_ints(1), node.rank(0)
    dims = from_the_front(axes, None if rank is None or axes is None else rank + len(axes))
    if dims is None or len(set(dims)) < len(dims):
        return [node.as_onnx()]
    return [node.to("ExpandDims", [node.input(0)], dims=sorted(dims))] if dims else node.alias(0, node.input(0))


@rule("Shape")
def shape(node: Node) -> Operators:
    return [node.to("Shape") if node.get_int("start", 0) == 0 and "end" not in node.attributes else node.as_onnx()]


@rule("Size")
def size(node: Node) -> Operators:
    return [node.to("Size")]


@rule("Concat")
def concat(node: Node) -> Operators:
    """Caffe2's Concat has a second output."""
    axis, rank = node.get_int("axis"), node.rank(0)
    inputs = [name for name in node.inputs if name]
    outputs = [node.outputs[0], node.fresh("split_info")]
    return [node.to("Concat", inputs, outputs, axis=axis + rank if rank is not None and axis < 0 else axis)]


@rule("Split")
def split(node: Node) -> Operators:
    """Caffe2's Split makes parts of given sizes or of equal sizes."""
    axis, dims = node.get_int("axis", 0), node.dims(0)
    if dims is not None and -len(dims) <= axis < 0:
        axis += len(dims)
    sizes = node.constant_ints(1) if node.has(1) else _equal_parts(node, axis)
    return [node.as_onnx() if sizes is None else node.to("Split", [node.input(0)], axis=axis, split=sizes)]


def _equal_parts(node: Node, axis: int) -> Optional[List[int]]:
    dims, count = node.dims(0), len(node.outputs)
    length = dims[axis] if dims is not None and -len(dims) <= axis < len(dims) else None
    if length is None or node.get_int("num_outputs", count) != count:
        return None
    each = -(-length // count)
    return [min(each, max(length - index * each, 0)) for index in range(count)]


@rule("Slice")
def slice_(node: Node) -> Operators:
    """Caffe2's Slice cuts one dimension with step 1; it has bounds for every dimension, -1 for the end."""
    dims, starts, ends = node.dims(0), node.constant_ints(1), node.constant_ints(2)
    if dims is None or starts is None or ends is None or set(_given(node, 4, [1] * len(starts)) or [0]) != {1}:
        return [node.as_onnx()]
    axes = from_the_front(_given(node, 3, list(range(len(starts)))), len(dims))
    if axes is None or not len(axes) == len(starts) == len(ends) or len(set(axes)) < len(axes):
        return [node.as_onnx()]
    heads, tails = [0] * len(dims), [-1] * len(dims)
    for axis, start, end in zip(axes, starts, ends):
        heads[axis], tails[axis] = _bounds(start, end, dims[axis])
    cut = [axis for axis in axes if (heads[axis], tails[axis]) != (0, -1)]
    if any(tails[axis] < -1 for axis in axes) or len(cut) > 1:
        return [node.as_onnx()]
    return [node.to("Slice", [node.input(0)], starts=heads, ends=tails)] if cut else node.alias(0, node.input(0))


def _given(node: Node, index: int, default: List[int]) -> Optional[List[int]]:
    return node.constant_ints(index) if node.has(index) else default


def _bounds(start: int, end: int, length: Optional[int]) -> List[int]:
    """Start and end in Caffe2's form; an end of -2 if it cannot express them."""
    if length is None:
        return [start, -1] if start >= 0 and end >= np.iinfo(np.int32).max else [0, -2]
    first, last = (min(max(n + length if n < 0 else n, 0), length) for n in (start, end))
    return [first, -1 if last == length else max(first, last)]


@rule("Tile")
def tile(node: Node) -> Operators:
    """Caffe2's Tile repeats along one dimension."""
    repeats = node.constant_ints(1)
    axes = [axis for axis, times in enumerate(repeats or []) if times != 1]
    if repeats is None or len(axes) > 1:
        return [node.as_onnx()]
    if not axes:
        return node.alias(0, node.input(0))
    return [node.to("Tile", [node.input(0)], tiles=repeats[axes[0]], axis=axes[0])]


@rule("Expand")
def expand(node: Node) -> Operators:
    """Caffe2's Expand does not handle empty dimensions."""
    shape = node.constant_ints(1)
    return [node.as_onnx() if shape is None or min(shape, default=1) < 1 else node.to("Expand")]


@rule("Pad")
def pad(node: Node) -> Operators:
    """Caffe2's PadImage pads (N, C, H, W) pictures."""
    pads = node.constant_ints(1)
    value = node.constant_scalar(2) if node.has(2) else 0.0
    mode = node.get_str("mode", "constant")
    if pads is None or len(pads) != 8 or min(pads) < 0 or any(pads[i] for i in (0, 1, 4, 5)) or node.has(3):
        return [node.as_onnx()]
    if value is None or mode not in ("constant", "reflect", "edge"):
        return [node.as_onnx()]
    top, left, bottom, right = (pads[i] for i in (2, 3, 6, 7))
    return [
        node.to(
            "PadImage",
            [node.input(0)],
            pad_t=top,
            pad_l=left,
            pad_b=bottom,
            pad_r=right,
            mode=mode,
            value=float(value) if mode == "constant" else None,
        )
    ]
