"""Vectors of lengths and the consecutive segments of rows they describe: offsets, weights, splits, padding, picks.

Source: caffe2/operators/utility_ops.h, lengths_*.cc.
"""

from __future__ import annotations

from typing import Any, List, Optional

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.indices import absolute, require_indices
from runtime_arm.registry.schema import integers_of, operator, require
from runtime_arm.registry.specs import TensorSpec


def _counts(op: OperatorDef, lengths: Optional[TensorSpec], total: Optional[int] = None) -> List[int]:
    """The content of a vector of int32 lengths. ShapeError if one is negative or they do not add up to ``total``."""
    require(
        op,
        lengths is not None and lengths.dtype == np.int32 and lengths.ndim == 1,
        "lengths must be a vector of int32",
        lengths,
    )
    counts = integers_of(op, lengths, "lengths")
    require(op, min(counts, default=0) >= 0, f"lengths {counts} must not be negative")
    require(op, total in (None, sum(counts)), f"lengths {counts} must add up to {total}")
    return counts


@operator("LengthsToOffsets")
def lengths_to_offsets(op: OperatorDef, lengths: TensorSpec) -> List[TensorSpec]:
    """The start of each segment, int32; with ``include_last_offset``, also the end of the last one."""
    require(op, lengths.ndim == 1 and lengths.dtype == np.int32, "lengths must be a vector of int32", lengths)
    return [lengths.with_shape((lengths.shape[0] + op.get_bool("include_last_offset"),))]


@lengths_to_offsets.reference
def lengths_to_offsets_reference(op: OperatorDef, lengths: Array) -> List[Any]:
    stops = np.cumsum(np.concatenate([[0], lengths]), dtype=np.int32)
    return [stops if op.get_bool("include_last_offset") else stops[:-1]]


@operator("LengthsToWeights")
def lengths_to_weights(op: OperatorDef, lengths: TensorSpec) -> List[TensorSpec]:
    """length ** -power (0.5) for each row of each segment, float32."""
    return [TensorSpec((sum(_counts(op, lengths)),), np.float32)]


def _weights(op: OperatorDef, counts: Array) -> Array:
    """The weights of LengthsToWeights for these lengths; 0 for an empty segment."""
    lengths = counts.astype(np.float64)
    power = np.power(np.where(lengths > 0, lengths, 1), -op.get_float("power", 0.5))
    return np.where(lengths > 0, power, 0).astype(np.float32)


@lengths_to_weights.reference
def lengths_to_weights_reference(op: OperatorDef, lengths: Array) -> List[Any]:
    return [np.repeat(_weights(op, lengths), lengths)]


@operator("SegmentIdsToLengthWeights", dtypes=("int32", "int64"))
def segment_ids_to_length_weights(op: OperatorDef, ids: TensorSpec) -> List[TensorSpec]:
    """(number of rows of the same segment) ** -power (0.5) for each row, float32. The ids ascend."""
    require(op, ids.ndim == 1, "the ids must be a vector", ids)
    return [TensorSpec(ids.shape, np.float32)]


@segment_ids_to_length_weights.reference
def segment_ids_to_length_weights_reference(op: OperatorDef, ids: Array) -> List[Any]:
    require(
        op, bool(np.all(ids[1:] >= ids[:-1]) and np.all(ids >= 0)), f"ids must ascend from 0 on, got {ids.tolist()}"
    )
    _, inverse, counts = np.unique(ids, return_inverse=True, return_counts=True)
    return [_weights(op, counts)[inverse.reshape(-1)]]


@operator("LengthsSplit", inputs=(1, 2), dtypes=("int32",))
def lengths_split(op: OperatorDef, lengths: TensorSpec, parts: Optional[TensorSpec] = None) -> List[TensorSpec]:
    """Each length as ``n_split`` lengths that add up to it and differ by at most 1, the larger ones first.

    n_split is an argument or the second input, which goes first.
    """
    require(op, lengths.ndim == 1, "lengths must be a vector", lengths)
    return [TensorSpec((lengths.shape[0] * _parts(op, parts),), np.int32)]


def _parts(op: OperatorDef, given: Optional[TensorSpec]) -> int:
    require(op, op.has("n_split") or given is not None, "give n_split as an argument or as an input")
    count = op.get_int("n_split") if given is None else [*integers_of(op, given, "n_split"), 0][0]
    if count < 1:
        raise ArgumentError(op, f"n_split must be positive, got {count}")
    return count


@lengths_split.reference
def lengths_split_reference(op: OperatorDef, lengths: Array, parts: Optional[Array] = None) -> List[Any]:
    count = _parts(op, None if parts is None else TensorSpec.known(parts))
    each, rest = np.divmod(lengths.reshape(-1, 1), count)
    return [(each + (np.arange(count) < rest)).reshape(-1).astype(np.int32)]


@operator("LengthsPad", inputs=2)
def lengths_pad(op: OperatorDef, x: TensorSpec, lengths: TensorSpec) -> List[TensorSpec]:
    """Every segment of rows, padded to ``target_length`` rows with ``padding_value`` (-1)."""
    require(
        op,
        x.ndim > 0 and lengths.ndim == 1 and lengths.dtype == np.int32,
        "lengths must be a vector of int32",
        x,
        lengths,
    )
    target = op.get_int("target_length")
    if target < 1:
        raise ArgumentError(op, f"target_length must be positive, got {target}")
    return [x.with_shape((lengths.shape[0] * target, *x.shape[1:]))]


@lengths_pad.reference
def lengths_pad_reference(op: OperatorDef, x: Array, lengths: Array) -> List[Any]:
    counts, target = _counts(op, TensorSpec.known(lengths), len(x)), op.get_int("target_length")
    require(op, max(counts, default=0) <= target, f"lengths {counts} must not exceed target_length {target}")
    y = np.full((len(counts), target, *x.shape[1:]), op.get_float("padding_value", -1.0)).astype(x.dtype)
    present = np.arange(target) < lengths[:, None]
    y[present] = x
    return [y.reshape(len(counts) * target, *x.shape[1:])]


@operator("LengthsGather", inputs=3)
def lengths_gather(op: OperatorDef, x: TensorSpec, lengths: TensorSpec, indices: TensorSpec) -> List[TensorSpec]:
    """The rows of the segments in the third input, one segment after the other."""
    require(op, x.ndim > 0, "X must have a dimension", x)
    require_indices(op, indices)
    counts = _counts(op, lengths, x.shape[0])
    picked = integers_of(op, indices, "indices")
    require(op, all(0 <= i < len(counts) for i in picked), f"indices must be 0 to {len(counts) - 1}, got {picked}")
    return [x.with_shape((sum(counts[i] for i in picked), *x.shape[1:]))]


@lengths_gather.reference
def lengths_gather_reference(op: OperatorDef, x: Array, lengths: Array, indices: Array) -> List[Any]:
    parts = np.split(x, np.cumsum(lengths)[:-1]) if lengths.size else []
    return [np.concatenate([x[:0], *(parts[i] for i in absolute(op, indices, len(parts), wraps=False))])]


@operator("LengthsTopK", inputs=2, outputs=2)
def lengths_top_k(op: OperatorDef, x: TensorSpec, lengths: TensorSpec) -> List[TensorSpec]:
    """The ``k`` largest elements of each segment, in descending order, and their positions in it, int32.

    A shorter segment is padded with 0, at position -1. X is a vector.
    """
    require(
        op,
        x.ndim == 1 and lengths.ndim == 1 and lengths.dtype == np.int32,
        "X must be a vector, lengths a vector of int32",
        x,
        lengths,
    )
    k = op.get_int("k")
    if k < 1:
        raise ArgumentError(op, f"k must be positive, got {k}")
    return [x.with_shape((lengths.shape[0], k)), TensorSpec((lengths.shape[0], k), np.int32)]


@lengths_top_k.reference
def lengths_top_k_reference(op: OperatorDef, x: Array, lengths: Array) -> List[Any]:
    _counts(op, TensorSpec.known(lengths), len(x))
    k, segments = op.get_int("k"), np.repeat(np.arange(lengths.size), lengths)
    starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
    order = np.lexsort((-x, segments))
    ranks = np.arange(len(x)) - starts
    kept = ranks < k
    values, places = np.zeros((lengths.size, k), x.dtype), np.full((lengths.size, k), -1, np.int32)
    values[segments[kept], ranks[kept]] = x[order][kept]
    places[segments[kept], ranks[kept]] = (order - starts)[kept]
    return [values, places]


@operator("LengthsTopKGradient", inputs=3)
def lengths_top_k_gradient(
    op: OperatorDef, lengths: TensorSpec, places: TensorSpec, dy: TensorSpec
) -> List[TensorSpec]:
    """dX, a vector: dY at the places that LengthsTopK gives, 0 elsewhere."""
    require(op, lengths.ndim == 1 and lengths.dtype == np.int32, "lengths must be a vector of int32", lengths)
    fits = places.ndim == 2 and places.shape == dy.shape and places.shape[:1] == lengths.shape
    require(op, fits and dy.dtype.kind == "f", "there must be a row of places and of floats per length", places, dy)
    return [dy.with_shape((sum(integers_of(op, lengths, "lengths")),))]


@lengths_top_k_gradient.reference
def lengths_top_k_gradient_reference(op: OperatorDef, lengths: Array, places: Array, dy: Array) -> List[Any]:
    starts = np.cumsum(lengths) - lengths
    inside = bool(((places >= -1) & (places < lengths[:, None])).all())
    require(op, inside, "places must lie in their segments")
    dx = np.zeros(int(lengths.sum()), dy.dtype)
    kept = places >= 0
    dx[(starts[:, None] + places)[kept]] = dy[kept]
    return [dx]


@operator("PackRNNSequence", inputs=2)
def pack_rnn_sequence(op: OperatorDef, x: TensorSpec, lengths: TensorSpec) -> List[TensorSpec]:
    """Consecutive segments of rows to (longest, segments, ...), padded with 0."""
    require(op, x.ndim > 0, "X must have a dimension", x)
    counts = _counts(op, lengths, x.shape[0])
    return [x.with_shape((max(counts, default=0), len(counts), *x.shape[1:]))]


@pack_rnn_sequence.reference
def pack_rnn_sequence_reference(op: OperatorDef, x: Array, lengths: Array) -> List[Any]:
    longest = int(lengths.max()) if lengths.size else 0
    y = np.zeros((lengths.size, longest, *x.shape[1:]), x.dtype)
    y[np.arange(longest) < lengths[:, None]] = x
    return [y.swapaxes(0, 1).copy()]


@operator("UnpackRNNSequence", inputs=2)
def unpack_rnn_sequence(op: OperatorDef, x: TensorSpec, lengths: TensorSpec) -> List[TensorSpec]:
    """(longest, segments, ...) to consecutive segments of rows: undoes PackRNNSequence."""
    counts = _counts(op, lengths)
    fits = x.ndim >= 2 and x.shape[1] == len(counts) and max(counts, default=0) <= x.shape[0]
    require(op, fits, f"X must be (longest, {len(counts)}, ...) for lengths {counts}", x)
    return [x.with_shape((sum(counts), *x.shape[2:]))]


@unpack_rnn_sequence.reference
def unpack_rnn_sequence_reference(op: OperatorDef, x: Array, lengths: Array) -> List[Any]:
    return [x.swapaxes(0, 1)[np.arange(len(x)) < lengths[:, None]]]


def _require_steps(op: OperatorDef, x: TensorSpec, lengths: TensorSpec, of: str) -> None:
    """ShapeError unless X is (longest, N, D) and there is one length, int32 or int64, for each of the N."""
    fits = x.ndim == 3 and lengths.shape == x.shape[1:2] and lengths.dtype.name in ("int32", "int64")
    require(op, fits, f"X must be (longest, {of}s, D), with one length per {of}, int32 or int64", x, lengths)


@operator("VariableLengthSequencePadding", inputs=2, dtypes=("float32",), inplace={0: 0})
def variable_length_sequence_padding(op: OperatorDef, x: TensorSpec, lengths: TensorSpec) -> List[TensorSpec]:
    """X (longest, sequences, D), with 0 after the first lengths[s] steps of each sequence s."""
    _require_steps(op, x, lengths, "sequence")
    return [x]


@variable_length_sequence_padding.reference
def variable_length_sequence_padding_reference(op: OperatorDef, x: Array, lengths: Array) -> List[Any]:
    goes_on = np.arange(len(x))[:, None] < lengths
    return [np.where(goes_on[:, :, None], x, x.dtype.type(0))]


@operator("ReversePackedSegs", inputs=2)
def reverse_packed_segs(op: OperatorDef, x: TensorSpec, lengths: TensorSpec) -> List[TensorSpec]:
    """X (longest, segments, D), with the first lengths[s] rows of each segment s in reverse order."""
    _require_steps(op, x, lengths, "segment")
    return [x]


@reverse_packed_segs.reference
def reverse_packed_segs_reference(op: OperatorDef, x: Array, lengths: Array) -> List[Any]:
    require(op, all(0 <= n <= len(x) for n in lengths), f"lengths must be 0 to {len(x)}, got {lengths.tolist()}")
    steps = np.arange(len(x))[:, None]
    source = np.where(steps < lengths, lengths - 1 - steps, steps)
    return [np.take_along_axis(x, source[:, :, None], axis=0)]
