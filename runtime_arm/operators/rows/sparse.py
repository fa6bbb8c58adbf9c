"""Conversions between dense rows and sparse ones, given by indices or ranges. Source: caffe2/operators."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.indices import absolute, require_indices
from runtime_arm.registry.schema import integers_of, operator, require
from runtime_arm.registry.specs import TensorSpec


def _require_pairs(op: OperatorDef, indices: TensorSpec, values: TensorSpec) -> None:
    require_indices(op, indices)
    fits = indices.ndim == 1 and values.shape[:1] == indices.shape
    require(op, fits, "the indices must be a vector, with one row of values each", indices, values)


@operator("SparseToDense", inputs=(2, 3))
def sparse_to_dense(
    op: OperatorDef, indices: TensorSpec, values: TensorSpec, like: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """Row i of Y is the sum of the values whose index is i.

    Y has as many rows as the third input; without it, one more than the largest index.
    """
    _require_pairs(op, indices, values)
    if like is not None:
        require(op, like.ndim > 0, "the third input must have a dimension", like)
        return [values.with_shape((like.shape[0], *values.shape[1:]))]
    return [values.with_shape((max(integers_of(op, indices, "indices"), default=-1) + 1, *values.shape[1:]))]


@sparse_to_dense.reference
def sparse_to_dense_reference(
    op: OperatorDef, indices: Array, values: Array, like: Optional[Array] = None
) -> List[Any]:
    rows = len(like) if like is not None else int(indices.max()) + 1 if indices.size else 0
    y = np.zeros((rows, *values.shape[1:]), values.dtype)
    np.add.at(y, absolute(op, indices, rows, wraps=False), values)
    return [y]


@operator("SparseToDenseMask", inputs=(3, 4), outputs=(1, 2))
def sparse_to_dense_mask(
    op: OperatorDef, indices: TensorSpec, values: TensorSpec, default: TensorSpec, lengths: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """Row m of Y is the last value whose index is ``mask[m]``, or the third input if there is none.

    With lengths, Y has such rows for each segment: (segments, masks, ...). With ``return_presence_mask`` the second
    output, bool, tells which rows have a value. Indices that are not in the mask are left out.
    """
    _require_pairs(op, indices, values)
    mask = op.get_ints("mask")
    require(op, len(set(mask)) == len(mask) > 0, f"mask must list indices, each once, got {list(mask)}")
    fits = default.size == values.with_shape(values.shape[1:]).size and default.dtype == values.dtype
    require(op, fits, "the default must have the shape and dtype of a row of values", default, values)
    require(
        op, op.get_bool("return_presence_mask") or len(op.output) == 1, "the second output needs return_presence_mask"
    )
    shape: Sequence[int] = (len(mask),)
    if lengths is not None:
        require(op, lengths.ndim == 1 and lengths.dtype == np.int32, "lengths must be a vector of int32", lengths)
        shape = (lengths.shape[0], len(mask))
    return [values.with_shape((*shape, *values.shape[1:])), TensorSpec(shape, np.bool_)]


@sparse_to_dense_mask.reference
def sparse_to_dense_mask_reference(
    op: OperatorDef, indices: Array, values: Array, default: Array, lengths: Optional[Array] = None
) -> List[Any]:
    taken, segments, columns = masked_places(op, indices, lengths)
    count, masks = 1 if lengths is None else lengths.size, len(op.get_ints("mask"))
    y = np.empty((count, masks, *values.shape[1:]), values.dtype)
    y[...] = default.reshape(values.shape[1:])
    y[segments, columns] = values[taken]
    present = np.zeros(y.shape[:2], np.bool_)
    present[segments, columns] = True
    return [y, present] if lengths is not None else [y[0], present[0]]


def masked_places(op: OperatorDef, indices: Array, lengths: Optional[Array]) -> Tuple[Array, Array, Array]:
    """The values of a SparseToDenseMask that are in the mask, in their order, and the segment and column of each."""
    counts = np.array([len(indices)]) if lengths is None else lengths
    require(
        op,
        int(counts.min(initial=0)) >= 0 and int(counts.sum(dtype=np.int64)) == len(indices),
        f"lengths {counts.tolist()} must add up to {len(indices)}",
    )
    mask = np.array(op.get_ints("mask"), np.int64)
    order = np.argsort(mask)
    place = order[np.minimum(np.searchsorted(mask[order], indices), mask.size - 1)]
    taken = np.flatnonzero(mask[place] == indices)
    return taken, np.repeat(np.arange(counts.size), counts)[taken], place[taken]


@operator("BatchPermutation", inputs=2)
def batch_permutation(op: OperatorDef, x: TensorSpec, indices: TensorSpec) -> List[TensorSpec]:
    """Row i of Y is row indices[i] of X. There are as many indices as rows, int32."""
    fits = x.ndim > 0 and indices.shape == x.shape[:1] and indices.dtype == np.int32
    require(op, fits, "there must be one int32 index per row", x, indices)
    return [x]


@batch_permutation.reference
def batch_permutation_reference(op: OperatorDef, x: Array, indices: Array) -> List[Any]:
    return [x[absolute(op, indices, len(x), wraps=False)]]


@operator("BooleanUnmask", inputs=(2, None))
def boolean_unmask(op: OperatorDef, *inputs: TensorSpec) -> List[TensorSpec]:
    """Puts values back where masks took them from. Inputs: masks, each followed by the values that it selected.

    If several masks are true at a place, the first one gives its value. At every place, one mask must be true.
    """
    masks, values = inputs[::2], inputs[1::2]
    require(op, len(masks) == len(values), "each mask must be followed by its values", *inputs)
    fits = all(m.ndim == 1 and m.dtype == np.bool_ and m.shape == masks[0].shape for m in masks)
    require(op, fits, "masks must be vectors of bool, of one length", *masks)
    require(
        op,
        all(v.ndim == 1 and v.dtype == values[0].dtype for v in values),
        "values must be vectors of one dtype",
        *values,
    )
    return [values[0].with_shape(masks[0].shape)]


@boolean_unmask.reference
def boolean_unmask_reference(op: OperatorDef, *inputs: Array) -> List[Any]:
    masks, values = inputs[::2], inputs[1::2]
    stacked = np.stack(masks)
    require(op, bool(stacked.any(0).all()), "at every place, one mask must be true")
    chosen = stacked.argmax(0)
    y = np.empty(masks[0].shape, values[0].dtype)
    for number, given in enumerate(values):
        count = int((chosen == number).sum())
        require(op, count == given.size, f"mask {number} selects {count} values, but {given.size} are given")
        y[chosen == number] = given
    return [y]


@operator("GatherRanges", inputs=2, outputs=2)
def gather_ranges(op: OperatorDef, x: TensorSpec, ranges: TensorSpec) -> List[TensorSpec]:
    """The elements of the vector X in ``ranges`` (N, M, 2: start, length), and each row's number of elements, int32."""
    require(
        op,
        x.ndim == 1 and ranges.ndim == 3 and ranges.shape[2] == 2,
        "X must be a vector, and the ranges (N, M, 2)",
        x,
        ranges,
    )
    require_indices(op, ranges)
    flat = None if ranges.value is None else TensorSpec.known(ranges.value.reshape(-1))
    numbers = integers_of(op, flat or ranges, "ranges")
    pairs = list(zip(numbers[::2], numbers[1::2]))
    require(
        op,
        all(start >= 0 and n >= 0 and start + n <= x.shape[0] for start, n in pairs),
        f"the ranges must lie within X, got {pairs}",
        x,
    )
    return [x.with_shape((sum(n for _, n in pairs),)), TensorSpec(ranges.shape[:1], np.int32)]


@gather_ranges.reference
def gather_ranges_reference(op: OperatorDef, x: Array, ranges: Array) -> List[Any]:
    parts = [x[start : start + n] for start, n in ranges.reshape(-1, 2)]
    return [np.concatenate([x[:0], *parts]), ranges[:, :, 1].sum(1).astype(np.int32)]


@operator("PadEmptySamples", inputs=(1, None), outputs=(1, None))
def pad_empty_samples(op: OperatorDef, lengths: TensorSpec, *features: TensorSpec) -> List[TensorSpec]:
    """Gives every empty segment one row of 0.

    Outputs: the new lengths, and each further input with these rows inserted.
    """
    require(op, lengths.ndim == 1 and lengths.dtype == np.int32, "lengths must be a vector of int32", lengths)
    counts = integers_of(op, lengths, "lengths")
    fits = all(x.ndim > 0 and x.shape[0] == sum(counts) for x in features) and min(counts, default=0) >= 0
    require(op, fits, f"lengths {counts} must add up to the rows of every input", *features)
    rows = sum(max(n, 1) for n in counts)
    return [TensorSpec(lengths.shape, np.int32), *(x.with_shape((rows, *x.shape[1:])) for x in features)]


@pad_empty_samples.reference
def pad_empty_samples_reference(op: OperatorDef, lengths: Array, *features: Array) -> List[Any]:
    padded = np.maximum(lengths, 1)
    given = np.repeat(lengths > 0, padded)
    results = []
    for x in features:
        y = np.zeros((len(given), *x.shape[1:]), x.dtype)
        y[given] = x
        results.append(y)
    return [padded, *results]


@operator("ScatterWeightedSum", inputs=(5, None), inplace={0: 0}, dtypes=("float32",))
def scatter_weighted_sum(op: OperatorDef, x: TensorSpec, *others: TensorSpec) -> List[TensorSpec]:
    """Y = X, but row i = indices[k] is  weight0 X[i] + the sum of weight_j X_j[k].

    Inputs: X, weight0, indices, then pairs of rows and their weight. Each weight is one float32.
    """
    weight, indices, *pairs = others
    require(op, len(pairs) % 2 == 0, "rows and weights must come in pairs", *pairs)
    require_indices(op, indices)
    fits = x.ndim > 0 and x.size > 0 and indices.ndim == 1
    require(op, fits, "X must have a dimension and elements, and the indices must be a vector", x, indices)
    single = all(w.size == 1 and w.dtype == np.float32 for w in (weight, *pairs[1::2]))
    require(op, single, "each weight must be one float32", weight, *pairs[1::2])
    shape = (indices.shape[0], *x.shape[1:])
    fits = all(rows.shape == shape and rows.dtype == x.dtype for rows in pairs[::2])
    require(op, fits, f"rows must have the shape {shape}", *pairs[::2])
    return [x]


@scatter_weighted_sum.reference
def scatter_weighted_sum_reference(
    op: OperatorDef, x: Array, weight: Array, indices: Array, *pairs: Array
) -> List[Any]:
    y = x.astype(np.float64)
    places = absolute(op, indices, len(x), wraps=False)
    for place in places:
        y[place] *= weight.reshape(())
    for rows, factor in zip(pairs[::2], pairs[1::2]):
        np.add.at(y, places, rows.astype(np.float64) * factor.reshape(()))
    return [y.astype(x.dtype)]


@operator("CopyRowsToTensor", inputs=3, inplace={0: 0})
def copy_rows_to_tensor(op: OperatorDef, x: TensorSpec, indices: TensorSpec, row: TensorSpec) -> List[TensorSpec]:
    """The matrix X, with the third input, a vector, written into the rows at the indices, int64."""
    fits = x.ndim == 2 and row.shape == x.shape[1:] and row.dtype == x.dtype
    require(
        op,
        fits and indices.ndim == 1 and indices.dtype == np.int64,
        "X must be a matrix, the indices a vector of int64, the row one that fits X",
        x,
        indices,
        row,
    )
    return [x]


@copy_rows_to_tensor.reference
def copy_rows_to_tensor_reference(op: OperatorDef, x: Array, indices: Array, row: Array) -> List[Any]:
    y = x.copy()
    y[absolute(op, indices, len(x), wraps=False)] = row
    return [y]


@operator("SparseMatrixReshape", inputs=2, outputs=2)
def sparse_matrix_reshape(op: OperatorDef, columns: TensorSpec, rows: TensorSpec) -> List[TensorSpec]:
    """Columns (int64) and rows (int32) of a sparse matrix of ``old_shape`` after it is reshaped to ``new_shape``.

    The first dimension of either may be -1: it follows from the numbers of columns.
    """
    fits = columns.ndim == rows.ndim == 1 and columns.shape == rows.shape
    require(
        op,
        fits and columns.dtype == np.int64 and rows.dtype == np.int32,
        "there must be one int64 column and int32 row per element",
        columns,
        rows,
    )
    widths = [op.get_ints(name)[-1:] for name in ("old_shape", "new_shape")]
    known = all(len(op.get_ints(name)) == 2 for name in ("old_shape", "new_shape")) and min(widths) > (0,)
    require(op, known, "old_shape and new_shape must be those of matrices with columns")
    return [columns, rows]


@sparse_matrix_reshape.reference
def sparse_matrix_reshape_reference(op: OperatorDef, columns: Array, rows: Array) -> List[Any]:
    places = rows.astype(np.int64) * op.get_ints("old_shape")[1] + columns
    new_rows, new_columns = np.divmod(places, op.get_ints("new_shape")[1])
    return [new_columns, new_rows.astype(np.int32)]


def _require_ragged(op: OperatorDef, lengths: TensorSpec, indices: TensorSpec) -> None:
    fits = all(spec.ndim == 1 and spec.dtype.name in ("int32", "int64") for spec in (lengths, indices))
    require(op, fits, "lengths and indices must be vectors of int32 or int64", lengths, indices)


def _coordinates(op: OperatorDef, lengths: Array, indices: Array, width: int) -> Any:
    """Rows and columns of the elements. Row i has the next lengths[i] of the indices."""
    counts = [int(n) for n in lengths]
    require(
        op,
        min(counts, default=0) >= 0 and sum(counts) == indices.size,
        f"lengths {counts} must add up to {indices.size}",
    )
    return np.repeat(np.arange(len(counts)), counts), absolute(op, indices, width, wraps=False)


@operator("BatchDenseToSparse", inputs=3)
def batch_dense_to_sparse(
    op: OperatorDef, lengths: TensorSpec, indices: TensorSpec, dense: TensorSpec
) -> List[TensorSpec]:
    """The elements of each row of the matrix ``dense`` at its indices, one row after the other."""
    _require_ragged(op, lengths, indices)
    require(
        op,
        dense.ndim == 2 and dense.shape[0] == lengths.shape[0],
        "there must be one length per row",
        dense,
        lengths,
    )
    return [dense.with_shape(indices.shape)]


@batch_dense_to_sparse.reference
def batch_dense_to_sparse_reference(op: OperatorDef, lengths: Array, indices: Array, dense: Array) -> List[Any]:
    return [dense[_coordinates(op, lengths, indices, dense.shape[1])]]


@operator("BatchSparseToDense", inputs=(3, 4))
def batch_sparse_to_dense(
    op: OperatorDef, lengths: TensorSpec, indices: TensorSpec, values: TensorSpec, like: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """A matrix with the values at the places that lengths and indices give, ``default_value`` (0) elsewhere.

    Its width is ``dense_last_dim``, or that of the fourth input.
    """
    _require_ragged(op, lengths, indices)
    require(op, values.shape == indices.shape, "there must be one value per index", values, indices)
    require(op, op.has("dense_last_dim") != (like is not None), "give either dense_last_dim or a fourth input")
    require(op, like is None or like.ndim == 2, "the fourth input must be a matrix", like)
    return [values.with_shape((lengths.shape[0], op.get_int("dense_last_dim") if like is None else like.shape[1]))]


@batch_sparse_to_dense.reference
def batch_sparse_to_dense_reference(
    op: OperatorDef, lengths: Array, indices: Array, values: Array, like: Optional[Array] = None
) -> List[Any]:
    width = op.get_int("dense_last_dim") if like is None else like.shape[1]
    dense = np.full((lengths.size, width), op.get_float("default_value", 0.0)).astype(values.dtype)
    dense[_coordinates(op, lengths, indices, width)] = values
    return [dense]
