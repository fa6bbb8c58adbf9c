"""Caffe2's operators on segments: blobs whose first dimension is cut into consecutive pieces of given lengths."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.registry.schema import integers_of, operator, require
from runtime_arm.registry.specs import TensorSpec


def _lengths(op: OperatorDef, lengths: TensorSpec, dtypes: Sequence[str] = ("int32", "int64")) -> None:
    require(
        op,
        lengths.ndim == 1 and lengths.dtype.name in dtypes,
        f"lengths must be a vector of {' or '.join(dtypes)}",
        lengths,
    )


def _check_lengths(op: OperatorDef, lengths: Sequence[int], total: int) -> None:
    require(
        op, min(lengths, default=0) >= 0 and sum(lengths) == total, f"lengths {list(lengths)} must add up to {total}"
    )


@operator("PackSegments", inputs=2, outputs=(1, 2))
def pack_segments(op: OperatorDef, lengths: TensorSpec, x: TensorSpec) -> List[TensorSpec]:
    """(sum of lengths, ...) to (segments, longest, ...), padded with 0 or "", or with ``pad_minf`` with -infinity.

    ``max_length`` (-1: the longest) cuts longer segments. With ``return_presence_mask`` the second output, bool, tells
    which elements are not padding.
    """
    _lengths(op, lengths)
    require(op, x.ndim > 0, "the data must have a dimension", x)
    masked = op.get_bool("return_presence_mask")
    require(op, len(op.output) == 1 + masked, "return_presence_mask and the second output need each other")
    longest = _longest(op, lengths)
    return [x.with_shape((lengths.shape[0], longest, *x.shape[1:])), TensorSpec((lengths.shape[0], longest), np.bool_)]


def _longest(op: OperatorDef, lengths: TensorSpec) -> int:
    cut = op.get_int("max_length", -1)
    if cut < -1:
        raise ArgumentError(op, f"max_length must be -1 or more, got {cut}")
    return cut if cut >= 0 else max(integers_of(op, lengths, "lengths"), default=0)


@pack_segments.reference
def pack_segments_reference(op: OperatorDef, lengths: Array, x: Array) -> List[Any]:
    _check_lengths(op, lengths.tolist(), x.shape[0])
    longest = _longest(op, TensorSpec.known(lengths))
    fill: Any = -np.inf if op.get_bool("pad_minf") and x.dtype.kind == "f" else b"" if x.dtype == object else 0
    packed = np.full((lengths.size, longest, *x.shape[1:]), fill, x.dtype)
    present = np.arange(longest) < lengths[:, None]
    packed[present] = x[_places(lengths) < longest]
    return [packed, present]


def _places(lengths: Array) -> Array:
    """The position of each row in its segment."""
    return np.asarray(np.arange(lengths.sum(dtype=np.int64)) - np.repeat(np.cumsum(lengths) - lengths, lengths))


@operator("UnpackSegments", inputs=2)
def unpack_segments(op: OperatorDef, lengths: TensorSpec, x: TensorSpec) -> List[TensorSpec]:
    """(segments, longest, ...) to (sum of lengths, ...): the inverse of PackSegments; ``max_length`` as there."""
    _lengths(op, lengths)
    require(op, x.ndim >= 2 and x.shape[0] == lengths.shape[0], "the data must have one row per length", lengths, x)
    cut = op.get_int("max_length", -1)
    require(op, cut in (-1, x.shape[1]), f"max_length must equal the second dimension, got {cut}", x)
    return [x.with_shape((sum(_kept(op, integers_of(op, lengths, "lengths"), x.shape[1])), *x.shape[2:]))]


def _kept(op: OperatorDef, lengths: Sequence[int], longest: int) -> List[int]:
    cut = op.get_int("max_length", -1) >= 0
    require(
        op,
        min(lengths, default=0) >= 0 and (cut or max(lengths, default=0) <= longest),
        f"lengths must be 0 to {longest}, got {list(lengths)}",
    )
    return [min(length, longest) for length in lengths]


@unpack_segments.reference
def unpack_segments_reference(op: OperatorDef, lengths: Array, x: Array) -> List[Any]:
    kept = _kept(op, [int(n) for n in lengths], x.shape[1])
    rows = [x[row, :count] for row, count in enumerate(kept)]
    return [np.concatenate(rows) if rows else x.reshape((0, *x.shape[2:])).copy()]


def _widths(op: OperatorDef) -> Tuple[int, int]:
    start = op.get_int("padding_width", 1)
    end = op.get_int("end_padding_width", -1)
    if start < 0 or end < -1:
        raise ArgumentError(op, f"padding_width and end_padding_width must not be negative, got {start} and {end}")
    return start, start if end == -1 else end


def _padded_lengths(op: OperatorDef, x: TensorSpec, lengths: Optional[TensorSpec], more: int) -> List[TensorSpec]:
    require(op, x.ndim > 0, "the data must have a dimension", x)
    count = 1
    if lengths is not None:
        _lengths(op, lengths, ("int32",))
        count = lengths.shape[0]
    return [x.with_shape((x.shape[0] + more * count, *x.shape[1:])), TensorSpec((count,), np.int32)]


@operator("AddPadding", inputs=(1, 4), outputs=(1, 2))
def add_padding(
    op: OperatorDef,
    x: TensorSpec,
    lengths: Optional[TensorSpec] = None,
    start: Optional[TensorSpec] = None,
    end: Optional[TensorSpec] = None,
) -> List[TensorSpec]:
    """Every segment (without lengths: X) gets ``padding_width`` (1) rows before it and ``end_padding_width`` after it.

    The third and fourth input are the rows to insert (0; the fourth defaults to the third). The second output holds the
    new lengths.
    """
    for row in (start, end):
        require(
            op,
            row is None or (row.shape == x.shape[1:] and row.dtype == x.dtype),
            "paddings must have the shape and dtype of a row of the data",
            x,
            row,
        )
    return _padded_lengths(op, x, lengths, sum(_widths(op)))


@add_padding.reference
def add_padding_reference(
    op: OperatorDef,
    x: Array,
    lengths: Optional[Array] = None,
    start: Optional[Array] = None,
    end: Optional[Array] = None,
) -> List[Any]:
    counts = [x.shape[0]] if lengths is None else [int(n) for n in lengths]
    _check_lengths(op, counts, x.shape[0])
    zero = np.zeros(x.shape[1:], x.dtype)
    first = zero if start is None else start
    head, tail = _widths(op)
    padded_counts = np.array(counts, np.int32) + np.int32(head + tail)
    places = _places(padded_counts)
    behind = np.repeat(padded_counts, padded_counts) - tail <= places
    padded = np.empty((places.size, *x.shape[1:]), x.dtype)
    padded[places < head] = first
    padded[behind] = first if end is None else end
    padded[(places >= head) & ~behind] = x
    return [padded, padded_counts]


@operator("RemovePadding", inputs=(1, 2), outputs=(1, 2))
def remove_padding(op: OperatorDef, x: TensorSpec, lengths: Optional[TensorSpec] = None) -> List[TensorSpec]:
    """Every segment loses its first ``padding_width`` (1) and last ``end_padding_width`` rows: undoes AddPadding."""
    return _padded_lengths(op, x, lengths, -sum(_widths(op)))


@remove_padding.reference
def remove_padding_reference(op: OperatorDef, x: Array, lengths: Optional[Array] = None) -> List[Any]:
    counts = [x.shape[0]] if lengths is None else [int(n) for n in lengths]
    _check_lengths(op, counts, x.shape[0])
    head, tail = _widths(op)
    require(op, min(counts, default=head + tail) >= head + tail, f"lengths must be {head + tail} or more, got {counts}")
    whole = np.array(counts, np.int32)
    places = _places(whole)
    kept = (places >= head) & (places < np.repeat(whole, whole) - tail)
    return [x[kept], whole - np.int32(head + tail)]


@operator("GatherPadding", inputs=(1, 2), outputs=(1, 2))
def gather_padding(op: OperatorDef, x: TensorSpec, lengths: Optional[TensorSpec] = None) -> List[TensorSpec]:
    """The sum of the rows that RemovePadding drops at the start of the segments, and of those at their ends.

    With one output, it is the sum of both. X: float32 or float64.
    """
    require(op, x.dtype.kind == "f", "the data must be floats", x)
    _padded_lengths(op, x, lengths, 0)
    return [x.with_shape(x.shape[1:])] * 2


@gather_padding.reference
def gather_padding_reference(op: OperatorDef, x: Array, lengths: Optional[Array] = None) -> List[Any]:
    counts = [x.shape[0]] if lengths is None else [int(n) for n in lengths]
    _check_lengths(op, counts, x.shape[0])
    head, tail = _widths(op)
    require(op, min(counts, default=head + tail) >= head + tail, f"lengths must be {head + tail} or more, got {counts}")
    places = _places(np.array(counts, np.int64))
    left = np.repeat(np.array(counts, np.int64), counts) - places
    sums = [x[rows].sum(axis=0, dtype=np.float64) for rows in (places < head, left <= tail)]
    return [total.astype(x.dtype) for total in (sums if len(op.output) == 2 else [sums[0] + sums[1]])]


@operator("LengthsTile", inputs=2)
def lengths_tile(op: OperatorDef, x: TensorSpec, lengths: TensorSpec) -> List[TensorSpec]:
    """Each row i of X, repeated lengths[i] times."""
    _lengths(op, lengths, ("int32",))
    require(op, x.ndim > 0 and x.shape[0] == lengths.shape[0], "there must be one length per row", x, lengths)
    counts = integers_of(op, lengths, "lengths")
    require(op, min(counts, default=0) >= 0, f"lengths {counts} must not be negative")
    return [x.with_shape((sum(counts), *x.shape[1:]))]


@lengths_tile.reference
def lengths_tile_reference(op: OperatorDef, x: Array, lengths: Array) -> List[Any]:
    return [np.repeat(x, lengths, axis=0)]


@operator("LengthsToRanges")
def lengths_to_ranges(op: OperatorDef, lengths: TensorSpec) -> List[TensorSpec]:
    """(start, length) of each segment, int32."""
    _lengths(op, lengths, ("int32",))
    return [lengths.with_shape((lengths.shape[0], 2))]


@lengths_to_ranges.reference
def lengths_to_ranges_reference(op: OperatorDef, lengths: Array) -> List[Any]:
    return [np.stack([np.cumsum(lengths, dtype=np.int32) - lengths, lengths], axis=1)]


@operator("LengthsToSegmentIds")
def lengths_to_segment_ids(op: OperatorDef, lengths: TensorSpec) -> List[TensorSpec]:
    """The index of the segment that each row belongs to, int32."""
    _lengths(op, lengths, ("int32",))
    counts = integers_of(op, lengths, "lengths")
    require(op, min(counts, default=0) >= 0, f"lengths {counts} must not be negative")
    return [lengths.with_shape((sum(counts),))]


@lengths_to_segment_ids.reference
def lengths_to_segment_ids_reference(op: OperatorDef, lengths: Array) -> List[Any]:
    return [np.repeat(np.arange(lengths.size, dtype=np.int32), lengths)]


@operator("SegmentIdsToLengths", inputs=(1, 2))
def segment_ids_to_lengths(op: OperatorDef, ids: TensorSpec, rows: Optional[TensorSpec] = None) -> List[TensorSpec]:
    """The number of rows of each segment, int32. The ids ascend.

    The second input, if given, has as many rows as there are segments.
    """
    return [TensorSpec((_segment_count(op, ids, rows),), np.int32)]


@operator("SegmentIdsToRanges", inputs=(1, 2))
def segment_ids_to_ranges(op: OperatorDef, ids: TensorSpec, rows: Optional[TensorSpec] = None) -> List[TensorSpec]:
    """(start, length) of each segment, int32; inputs as for SegmentIdsToLengths."""
    return [TensorSpec((_segment_count(op, ids, rows), 2), np.int32)]


def _segment_count(op: OperatorDef, ids: TensorSpec, rows: Optional[TensorSpec]) -> int:
    vector = ids.ndim == 1 or (ids.ndim == 2 and 1 in ids.shape)
    require(op, vector and ids.dtype.name in ("int32", "int64"), "ids must be a vector of int32 or int64", ids)
    require(op, rows is None or rows.ndim > 0, "the second input must have a dimension", rows)
    known = integers_of(op, ids if ids.value is None else TensorSpec.known(ids.value.reshape(-1)), "ids")
    require(op, known == sorted(known) and min(known, default=0) >= 0, f"ids must ascend from 0 on, got {known}")
    count = known[-1] + 1 if known else 0
    require(
        op,
        rows is None or count <= rows.shape[0],
        f"there are {count} segments, but the second input has fewer rows",
        rows,
    )
    return count if rows is None else rows.shape[0]


def _counts(op: OperatorDef, ids: Array, rows: Optional[Array]) -> Array:
    known_rows = None if rows is None else TensorSpec.known(rows)
    counts = np.zeros(_segment_count(op, TensorSpec.known(ids), known_rows), np.int32)
    np.add.at(counts, ids.reshape(-1), 1)
    return counts


@segment_ids_to_lengths.reference
def segment_ids_to_lengths_reference(op: OperatorDef, ids: Array, rows: Optional[Array] = None) -> List[Any]:
    return [_counts(op, ids, rows)]


@segment_ids_to_ranges.reference
def segment_ids_to_ranges_reference(op: OperatorDef, ids: Array, rows: Optional[Array] = None) -> List[Any]:
    counts = _counts(op, ids, rows)
    starts = np.cumsum(counts, dtype=np.int32) - counts
    return [np.stack([np.where(counts > 0, starts, 0).astype(np.int32), counts], axis=1)]
