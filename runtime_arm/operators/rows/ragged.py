"""Consecutive lists of different lengths: masked, merged, cut into dense rows, split among partitions.

Source: caffe2/operators/boolean_mask_ops.cc, merge_id_lists_op.h, dense_vector_to_id_list_op.h,
gather_ranges_to_dense_op.h, flexible_top_k.cc, partition_ops.h.
"""

from __future__ import annotations

from math import prod
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dtypes import FLOAT32
from runtime_arm.operators.common.indices import require_indices
from runtime_arm.registry.schema import DataDependent, integers_of, operator, require
from runtime_arm.registry.specs import TensorSpec


def _stops(op: OperatorDef, lengths: Array, total: int) -> Array:
    """The end of each list, with a 0 in front. ShapeError unless the lengths add up to ``total``."""
    fits = (lengths.size == 0 or int(lengths.min()) >= 0) and int(lengths.sum()) == total
    require(op, fits, f"lengths {lengths.tolist()} must add up to {total}")
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _require_lists(op: OperatorDef, lengths: TensorSpec, values: TensorSpec) -> None:
    fits = lengths.ndim == values.ndim == 1 and lengths.dtype == np.int32
    require(op, fits, "lists must be a vector of int32 lengths and a vector of values", lengths, values)


@operator("BooleanMaskLengths", inputs=2, dtypes=("int32", "int64"))
def boolean_mask_lengths(op: OperatorDef, lengths: TensorSpec, mask: TensorSpec) -> List[TensorSpec]:
    """The length of each list after BooleanMask with this mask over all elements of the lists."""
    require(
        op,
        lengths.ndim == mask.ndim == 1 and mask.dtype == np.bool_,
        "lengths must be a vector, and the mask a vector of bool",
        lengths,
        mask,
    )
    return [lengths]


@boolean_mask_lengths.reference
def boolean_mask_lengths_reference(op: OperatorDef, lengths: Array, mask: Array) -> List[Any]:
    stops = _stops(op, lengths, mask.size)
    passed = np.concatenate([[0], np.cumsum(mask)])
    return [np.diff(passed[stops]).astype(lengths.dtype)]


@operator("MergeIdLists", inputs=(2, None), outputs=2)
def merge_id_lists(op: OperatorDef, *inputs: TensorSpec) -> List[TensorSpec]:
    """Lengths (int32) and values of the union of each example's lists: ascending, each value once.

    Inputs: pairs of lengths and values; an example has one list in each pair.
    """
    require(op, len(inputs) % 2 == 0, "lengths and values must come in pairs", *inputs)
    for lengths, values in zip(inputs[::2], inputs[1::2]):
        _require_lists(op, lengths, values)
        same = lengths.shape == inputs[0].shape and values.dtype == inputs[1].dtype
        require(
            op,
            same and values.dtype.name in ("int32", "int64"),
            "all pairs must have the same number of lists and one integer dtype",
            *inputs,
        )
    raise DataDependent("the values that are in several lists")


@merge_id_lists.reference
def merge_id_lists_reference(op: OperatorDef, *inputs: Array) -> List[Any]:
    pairs = list(zip(inputs[::2], inputs[1::2]))
    for lengths, values in pairs:
        _stops(op, lengths, values.size)
    examples = np.concatenate([np.repeat(np.arange(lengths.size), lengths) for lengths, _ in pairs])
    values = np.concatenate([values for _, values in pairs])
    order = np.lexsort((values, examples))
    examples, values = examples[order], values[order]
    first = np.ones(values.size, np.bool_)
    first[1:] = (values[1:] != values[:-1]) | (examples[1:] != examples[:-1])
    counts = np.bincount(examples[first], minlength=inputs[0].size).astype(np.int32)
    return [counts, values[first]]


@operator("DenseVectorToIdList", outputs=2, dtypes=FLOAT32)
def dense_vector_to_id_list(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Lengths and values (int32): for each row of the matrix X, the columns whose element is not 0.

    0.5 is added to the element, and the fraction is dropped before the test.
    """
    require(op, x.ndim == 2, "X must be a matrix", x)
    raise DataDependent("the columns that are not 0")


@dense_vector_to_id_list.reference
def dense_vector_to_id_list_reference(op: OperatorDef, x: Array) -> List[Any]:
    there = ~(np.abs(x + 0.5) < 1)
    return [there.sum(1).astype(np.int32), np.nonzero(there)[1].astype(np.int32)]


@operator("GatherRangesToDense", inputs=(2, 3), outputs=(1, None))
def gather_ranges_to_dense(
    op: OperatorDef, x: TensorSpec, ranges: TensorSpec, keys: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """One output per feature: row i holds the elements of the vector X in range i, sorted by key if there are keys.

    ranges: (N, features, 2) start and length. ``lengths`` says how long each feature's ranges must be; ranges of
    another length become 0. keys: a vector of int64 as long as X. If there are at least ``min_observation`` (10,000)
    ranges, the share ``max_mismatched_ratio`` (0.01) of them may have another length, and the share ``max_empty_ratio``
    (1) may be empty.
    """
    lengths = op.get_ints("lengths")
    require_indices(op, ranges)
    require(
        op,
        x.ndim == 1 and ranges.ndim == 3 and ranges.shape[1:] == (len(lengths), 2),
        f"X must be a vector, and the ranges (N, {len(lengths)}, 2)",
        x,
        ranges,
    )
    fits = keys is None or (keys.shape == x.shape and keys.dtype == np.int64)
    require(op, fits, "there must be one int64 key per element", x, keys)
    if len(op.output) != len(lengths) or min(lengths) < 1:
        raise ArgumentError(op, f"lengths must be positive, one for each output, got {list(lengths)}")
    return [x.with_shape((ranges.shape[0], n)) for n in lengths]


@gather_ranges_to_dense.reference
def gather_ranges_to_dense_reference(
    op: OperatorDef, x: Array, ranges: Array, keys: Optional[Array] = None
) -> List[Any]:
    starts, counts = ranges[:, :, 0].astype(np.int64), ranges[:, :, 1]
    used = counts == np.array(op.get_ints("lengths"))
    inside = np.all((starts >= 0) & (starts + counts <= x.size) | ~used)
    require(op, bool(inside), f"ranges must lie within the {x.size} elements, got {ranges.tolist()}")
    _check_ratio(op, "max_mismatched_ratio", 0.01, ~used & (counts != 0))
    _check_ratio(op, "max_empty_ratio", 1.0, counts == 0)
    outputs = []
    for feature, length in enumerate(op.get_ints("lengths")):
        y = np.zeros((len(ranges), length), x.dtype)
        places = starts[used[:, feature], feature, None] + np.arange(length)
        if keys is not None:
            places = np.take_along_axis(places, np.argsort(keys[places], axis=1, kind="stable"), 1)
        y[used[:, feature]] = x[places]
        outputs.append(y)
    return outputs


def _check_ratio(op: OperatorDef, argument: str, default: float, faults: Array) -> None:
    allowed, observed = op.get_float(argument, default), max(len(faults), op.get_int("min_observation", 10000))
    most = int(faults.sum(0).max(initial=0))
    require(op, allowed >= 1 or most <= observed * allowed, f"{most} ranges of a feature exceed {argument} {allowed:g}")


@operator("FlexibleTopK", inputs=2, outputs=2, dtypes=FLOAT32)
def flexible_top_k(op: OperatorDef, x: TensorSpec, k: TensorSpec) -> List[TensorSpec]:
    """The k[i] largest elements of each row i of X, in descending order, and their positions in the row, int64.

    Rows lie along the last dimension. Of equal elements the first comes first. k: one int64 per row.
    """
    fits = x.ndim > 0 and k.size == prod(x.shape[:-1]) and k.dtype == np.int64
    require(op, fits, "there must be one int64 per row", x, k)
    flat = k if k.value is None else TensorSpec.known(k.value.reshape(-1))
    counts = integers_of(op, flat, "k")
    require(op, all(1 <= n <= x.shape[-1] for n in counts), f"k must be 1 to {x.shape[-1]}, got {counts}")
    return [x.with_shape((sum(counts),)), TensorSpec((sum(counts),), np.int64)]


@flexible_top_k.reference
def flexible_top_k_reference(op: OperatorDef, x: Array, k: Array) -> List[Any]:
    rows = x.reshape(k.size, x.shape[-1])
    order = np.argsort(-rows, axis=1, kind="stable")
    places = order[np.arange(x.shape[-1]) < k.reshape(-1, 1)]
    return [rows[np.repeat(np.arange(k.size), k.reshape(-1)), places], places.astype(np.int64)]


def _shards(op: OperatorDef, keys: TensorSpec) -> Tuple[int, Optional[Array]]:
    """The number of partitions, and the partition of each key if the keys are known."""
    require(op, len(op.output) % len(op.input) == 0, "the number of outputs must be a multiple of the number of inputs")
    count = len(op.output) // len(op.input)
    return count, None if keys.value is None else np.mod(keys.value.reshape(-1).astype(np.int64), count)


@operator("Partition", inputs=(1, None), outputs=(1, None), dtypes=("int32", "int64"))
def partition(op: OperatorDef, keys: TensorSpec, *others: TensorSpec) -> List[TensorSpec]:
    """An element goes to partition p if its key has remainder p. Each partition has one output per input, in order.

    The first input holds the keys; the shapes of the others start with its shape. With ``pack_first_input`` the keys
    are divided by the number of partitions.
    """
    for other in others:
        require(
            op,
            keys.ndim > 0 and other.shape[: keys.ndim] == keys.shape,
            "every input's shape must start with that of the keys",
            keys,
            other,
        )
    count, shards = _shards(op, keys)
    if shards is None:
        raise DataDependent("keys")
    sizes = np.bincount(shards, minlength=count)
    return [x.with_shape((int(n), *x.shape[keys.ndim :])) for n in sizes for x in (keys, *others)]


@partition.reference
def partition_reference(op: OperatorDef, keys: Array, *others: Array) -> List[Any]:
    count, shards = _shards(op, TensorSpec.known(keys))
    assert shards is not None
    packed = ((keys.reshape(-1) - shards) // count).astype(keys.dtype) if op.get_bool("pack_first_input") else keys
    flat = [x.reshape(keys.size, *x.shape[keys.ndim :]) for x in (packed.reshape(keys.shape), *others)]
    return [x[shards == p] for p in range(count) for x in flat]


@operator("LengthsPartition", inputs=(2, None), outputs=(1, None), dtypes=("int32",))
def lengths_partition(op: OperatorDef, lengths: TensorSpec, keys: TensorSpec, *others: TensorSpec) -> List[TensorSpec]:
    """Partition of lists: the first input holds the lengths of the lists, the second the keys of their elements.

    The lengths, too, have an output in each partition: how many elements of each list went there.
    """
    require(op, lengths.ndim == 1 and keys.ndim == 1, "lengths and keys must be vectors", lengths, keys)
    require(op, keys.dtype.name in ("int32", "int64"), "keys must be int32 or int64", keys)
    require(op, all(x.shape[:1] == keys.shape for x in others), "there must be one row per key", keys, *others)
    count, shards = _shards(op, keys)
    if shards is None:
        raise DataDependent("keys")
    sizes = np.bincount(shards, minlength=count)
    return [part for n in sizes for part in (lengths, *(x.with_shape((int(n), *x.shape[1:])) for x in (keys, *others)))]


@lengths_partition.reference
def lengths_partition_reference(op: OperatorDef, lengths: Array, keys: Array, *others: Array) -> List[Any]:
    count, shards = _shards(op, TensorSpec.known(keys))
    assert shards is not None
    stops = _stops(op, lengths, keys.size)
    packed = ((keys - shards) // count).astype(keys.dtype) if op.get_bool("pack_first_input") else keys
    passed = [np.concatenate([[0], np.cumsum(shards == p)]) for p in range(count)]
    counts = [np.diff(sums[stops]).astype(np.int32) for sums in passed]
    return [part for p in range(count) for part in (counts[p], *(x[shards == p] for x in (packed, *others)))]


@operator("GatherByKey", inputs=(2, None), dtypes=("int32", "int64"))
def gather_by_key(op: OperatorDef, keys: TensorSpec, *parts: TensorSpec) -> List[TensorSpec]:
    """Undoes Partition: each key's row is taken, in order, from the partition that its remainder selects."""
    like = all(x.ndim > 0 and x.dtype == parts[0].dtype and x.shape[1:] == parts[0].shape[1:] for x in parts)
    require(op, like, "the partitions must have rows of one shape and dtype", *parts)
    rows = sum(x.shape[0] for x in parts)
    require(op, rows == keys.size, "the partitions must have one row per key", keys, *parts)
    return [parts[0].with_shape((*keys.shape, *parts[0].shape[1:]))]


@gather_by_key.reference
def gather_by_key_reference(op: OperatorDef, keys: Array, *parts: Array) -> List[Any]:
    shards = np.mod(keys.reshape(-1).astype(np.int64), len(parts))
    y = np.empty((keys.size, *parts[0].shape[1:]), parts[0].dtype)
    for number, part in enumerate(parts):
        mine: Sequence[bool] = shards == number
        require(
            op,
            int(np.sum(mine)) == len(part),
            f"{int(np.sum(mine))} keys select partition {number}, but it has {len(part)} rows",
        )
        y[mine] = part
    return [y.reshape(*keys.shape, *parts[0].shape[1:])]
