"""Slices of a tensor by position."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from exporter.tflite.node import Node
from exporter.tflite.rules import rule
from exporter.tflite.rules.layout import integers, only_integer
from runtime_arm.errors import ExportError
from runtime_arm.netdef import Array

_END = int(np.iinfo(np.int64).max)
_FRONT = int(np.iinfo(np.int64).min)


@rule("SLICE", any_type=True, complex=True)
def slice_(node: Node) -> None:
    """``size`` elements of each dimension from ``begin`` on; -1 means all that are left."""
    begin, size = node.constant_integers(1), node.constant_integers(2)
    if begin is not None and size is not None:
        if len(begin) != len(size) or min(begin, default=0) < 0 or min(size, default=0) < -1:
            raise ExportError(f"begin {begin} and size {size} are not a valid slice")
        cuts = {axis: (start, _END if n == -1 else start + n, 1) for axis, (start, n) in enumerate(zip(begin, size))}
        return _cut(node, {axis: cut for axis, cut in cuts.items() if cut != (0, _END, 1)})
    starts, sizes = integers(node, 1), integers(node, 2)
    ends, bounded, rest = node.between("ends"), node.between("bounded"), node.between("rest")
    node.add("Add", [starts, sizes], [bounded])
    node.add("LT", [sizes, node.constant("zero", np.zeros((), np.int64))], [rest])
    node.add("Where", [rest, node.constant("end", np.array(_END)), bounded], [ends], domain="onnx")
    node.add("Slice", [node.input(0), starts, ends], [node.output()], domain="onnx")


class _Cut(NamedTuple):
    """The effect of a strided slice on one dimension of the input."""

    axis: int
    place: int  # its place in begin, end and strides
    begin_masked: bool
    end_masked: bool
    shrinks: bool


@rule("STRIDED_SLICE", any_type=True, complex=True)
def strided_slice(node: Node) -> None:
    """NumPy's x[begin:end:strides]; bits of masks say that a bound is ignored or that a single index is meant."""
    strides = node.constant_integers(3)
    if strides is None:
        raise ExportError("the strides must be constant")
    if 0 in strides:
        raise ExportError("a stride is 0")
    cuts, added = _cuts(node, len(strides))
    begin, end = node.constant_integers(1), node.constant_integers(2)
    shrunk = [cut.axis for cut in cuts if cut.shrinks]
    whole = not shrunk and not added
    target = None if whole else node.between("cut")
    if begin is not None and end is not None:
        if not len(begin) == len(end) == len(strides):
            raise ExportError(f"begin {begin}, end {end} and strides {strides} are not equally long")
        bounds = {cut.axis: _bounds(node, cut, begin, end, strides) for cut in cuts}
        _cut(node, {axis: bound for axis, bound in bounds.items() if bound != (0, _END, 1)}, target)
    else:
        _cut_computed(node, cuts, strides, target or node.output())
    if target is not None:
        _reshaped(node, target, shrunk, added)
    node.ranked(node.known_rank(0) - len(shrunk) + len(added))


def _cuts(node: Node, count: int) -> Tuple[List[_Cut], List[int]]:
    """The dimensions that are cut, and the places of new dimensions in the output."""
    masks = {name: int(node.option(f"{name}_mask")) for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    rank = node.known_rank(0)
    kept = sum(1 for i in range(count) if not (masks["new_axis"] | masks["ellipsis"]) >> i & 1)
    cuts: List[_Cut] = []
    added: List[int] = []
    axis = position = 0
    for place in range(count):
        bits = {name: bool(mask >> place & 1) for name, mask in masks.items()}
        if bits["ellipsis"]:
            axis += rank - kept
            position += rank - kept
        elif bits["new_axis"]:
            added.append(position)
            position += 1
        else:
            cuts.append(_Cut(axis, place, bits["begin"], bits["end"], bits["shrink_axis"]))
            axis += 1
            position += not bits["shrink_axis"]
    if axis > rank:
        raise ExportError(f"{axis} dimensions are cut, the input has {rank}")
    return cuts, added


def _bounds(node: Node, cut: _Cut, begin: List[int], end: List[int], strides: List[int]) -> Tuple[int, int, int]:
    """Start, end and step of a dimension in ONNX's sense; with ``offset`` the end counts from the start."""
    start, stop, step = begin[cut.place], end[cut.place], 1 if cut.shrinks else strides[cut.place]
    if cut.begin_masked:
        start = 0 if step > 0 else _END
    if cut.shrinks:
        return start, start + 1 if start != -1 else _END, 1
    if cut.end_masked:
        stop = _END if step > 0 else _FRONT
    elif node.option("offset", False):
        start = _from_front(node, cut.axis, start)
        stop += start
    if step < 0 and _lies_before(node, cut.axis, start):
        return 0, 0, 1
    return start, stop, step


def _lies_before(node: Node, axis: int, start: int) -> bool:
    """Whether a start that counts from the end lies before the first element; ONNX would start at the first."""
    dims = node.dims(0)
    size = dims[axis] if dims is not None else None
    return size is not None and start < -size


def _from_front(node: Node, axis: int, start: int) -> int:
    """The position of a start that may count from the end of its dimension or lie beyond it."""
    if start == 0:
        return 0
    size = node.known_dims(0)[axis]
    return min(max(start + size if start < 0 else start, 0), size)


def _cut(node: Node, cuts: Dict[int, Tuple[int, int, int]], target: Optional[str] = None) -> None:
    """Write input 0's part to ``target``, by default the output, in whatever layout the input has."""
    rank = node.rank(0)
    first = node.is_channels_first(0) and target is None and rank is not None
    source = node.input(0, first)
    if not cuts and target is None:
        return node.alias(0, source, first)
    axes = [node.axis(axis, first, rank) if first and rank else axis for axis in cuts]
    columns = [list(column) for column in zip(*cuts.values())] or [[], [], []]
    names = [
        node.constant(stem, np.array(values, np.int64))
        for stem, values in (("starts", columns[0]), ("ends", columns[1]), ("axes", axes), ("steps", columns[2]))
    ]
    node.add("Slice", [source, *names], [target or node.output(0, first)], domain="onnx")


def _cut_computed(node: Node, cuts: List[_Cut], strides: List[int], target: str) -> None:
    """The bounds are computed when the net runs; those that masks ignore are constants."""
    places = node.constant("places", np.array([cut.place for cut in cuts], np.int64))
    steps = np.array([1 if cut.shrinks else strides[cut.place] for cut in cuts], np.int64)
    starts = _picked(node, 1, places, [cut.begin_masked for cut in cuts], np.where(steps > 0, 0, _END))
    ends = _picked(
        node, 2, places, [cut.end_masked and not cut.shrinks for cut in cuts], np.where(steps > 0, _END, _FRONT)
    )
    if node.option("offset", False):
        raise ExportError("ends that count from computed starts are not supported")
    if any(cut.shrinks for cut in cuts):
        ends = _next_of(node, starts, ends, np.array([cut.shrinks for cut in cuts]))
    axes = node.constant("axes", np.array([cut.axis for cut in cuts], np.int64))
    node.add("Slice", [node.input(0), starts, ends, axes, node.constant("steps", steps)], [target], domain="onnx")


def _picked(node: Node, index: int, places: str, masked: List[bool], instead: Array) -> str:
    picked = node.between("bound")
    node.add("Gather", [integers(node, index), places], [picked])
    if not any(masked):
        return picked
    chosen = node.between("bound")
    names = [node.constant("masked", np.array(masked)), node.constant("instead", instead.astype(np.int64)), picked]
    node.add("Where", names, [chosen], domain="onnx")
    return chosen


def _next_of(node: Node, starts: str, ends: str, shrinks: Array) -> str:
    """The ends; for a single index, the position after the start."""
    after, last, behind, chosen = (node.between(stem) for stem in ("after", "last", "behind", "ends"))
    node.add("Add", [starts, node.constant("one", np.ones((), np.int64))], [after])
    node.add("EQ", [after, node.constant("zero", np.zeros((), np.int64))], [last])
    node.add("Where", [last, node.constant("end", np.array(_END)), after], [behind], domain="onnx")
    node.add("Where", [node.constant("shrinks", shrinks), behind, ends], [chosen], domain="onnx")
    return chosen


def _reshaped(node: Node, blob: str, shrunk: List[int], added: List[int]) -> None:
    """Drop the dimensions of which a single index was taken, and insert the new ones."""
    if shrunk:
        target = node.between("shrunk") if added else node.output()
        node.add("Squeeze", [blob], [target], dims=shrunk)
        blob = target
    if added:
        node.add("ExpandDims", [blob], [node.output()], dims=added)


@rule("SPLIT", any_type=True)
def split(node: Node) -> None:
    """Equal parts; the axis is the first input."""
    axis = only_integer(node.constant_integers(0), "the axis")
    _split(node, 1, axis, None)


@rule("SPLIT_V", any_type=True)
def split_v(node: Node) -> None:
    """Parts of the sizes in the second input; one size may be -1, which means the rest."""
    sizes = node.constant_integers(1)
    if sizes is None:
        raise ExportError("the sizes must be constant")
    axis = only_integer(node.constant_integers(2), "the axis")
    dims = node.dims(0)
    length = None if dims is None else dims[node.axis(axis, False, len(dims))]
    if sizes.count(-1) == 1 and length is not None:
        sizes[sizes.index(-1)] = length - sum(sizes) - 1
    if min(sizes, default=0) < (-1 if sizes.count(-1) == 1 and length is None else 0):
        raise ExportError(f"parts of sizes {sizes} are not possible")
    _split(node, 0, axis, sizes)


def _split(node: Node, index: int, axis: int, sizes: Optional[List[int]]) -> None:
    first = node.is_channels_first(index)
    at = node.axis(axis, first, node.known_rank(index))
    outputs = [node.output(i, first) for i in range(node.output_count)]
    if sizes is not None and -1 in sizes:
        inputs = [node.input(index, first), _with_rest(node, node.input(index, first), at, sizes)]
        return node.add("Split", inputs, outputs, domain="onnx", axis=at)
    node.add("Split", [node.input(index, first)], outputs, axis=at, split=sizes)


def _with_rest(node: Node, blob: str, axis: int, sizes: List[int]) -> str:
    """The sizes as a blob, with what they leave of the blob's open dimension in the place of -1."""
    shape, length, rest, whole = (node.between(stem) for stem in ("shape", "length", "rest", "sizes"))
    at = sizes.index(-1)
    node.add("Shape", [blob], [shape])
    node.add("Gather", [shape, node.constant("axis", np.array([axis], np.int64))], [length])
    node.add("Sub", [length, node.constant("known", np.array([sum(sizes) + 1], np.int64))], [rest])
    ends = [node.constant("known", np.array(part, np.int64)) for part in (sizes[:at], sizes[at + 1 :])]
    node.add("Concat", [ends[0], rest, ends[1]], [whole, node.between("lengths")], axis=0)
    return whole
