"""Feature preparation for recommenders: piecewise functions, buckets, percentiles, hashes. Source: caffe2/operators."""

from __future__ import annotations

from math import prod
from typing import Any, List, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dtypes import FLOATS, require_same_dtype
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec

PIECES = ("bounds", "slopes", "intercepts")


def _rows(x: Array) -> Array:
    """X as a matrix: everything after the first dimension is one row."""
    return x.reshape(x.shape[0], prod(x.shape[1:]))


def _groups(op: OperatorDef, bounds: int, slopes: int, intercepts: int) -> int:
    """The number of functions. Each has one more bound than it has pieces."""
    groups = bounds - slopes
    fits = slopes == intercepts and groups > 0 and slopes >= groups and slopes % groups == 0
    require(
        op,
        fits,
        "each function needs equally many slopes and intercepts and one bound more; there are "
        f"{bounds} bounds, {slopes} slopes, {intercepts} intercepts",
    )
    return groups


@operator("PiecewiseLinearTransform", inputs=(1, 4), dtypes=("float32",))
def piecewise_linear(op: OperatorDef, x: TensorSpec, *tables: TensorSpec) -> List[TensorSpec]:
    """Y = slope x + intercept of the piece whose bounds enclose x; constant beyond the outermost bounds.

    Each column of the matrix X has its own function. With ``binary`` there is one, and X is (N), (N, 1) or (N, 2), of
    which column 1 is transformed and column 0 becomes 1 minus it. bounds (ascending), slopes and intercepts are
    arguments or inputs, one function after the other.
    """
    given = [op.get_floats(name) for name in PIECES]
    require(
        op, len(tables) == (0 if any(given) else 3), "bounds, slopes and intercepts must be all arguments or all inputs"
    )
    require(op, all(t.dtype == np.float32 for t in tables), "the functions must be float32", *tables)
    counts = [t.size for t in tables] if tables else [len(values) for values in given]
    groups = _groups(op, counts[0], counts[1], counts[2])
    if op.get_bool("binary"):
        fits = groups == 1 and (x.ndim == 1 or (x.ndim == 2 and x.shape[1] in (1, 2)))
        require(op, fits, "binary takes one function and X of one or two columns", x)
    else:
        require(
            op, x.ndim == 2 and x.shape[1] == groups, f"X must have one column for each of the {groups} functions", x
        )
    bounds = np.asarray(given[0], np.float32).reshape(groups, -1)
    require(op, bool(np.all(bounds[:, 1:] >= bounds[:, :-1])), "bounds must ascend")
    return [x]


def _pieces(op: OperatorDef, tables: Sequence[Array]) -> List[Array]:
    """Bounds, slopes and intercepts, one row per function."""
    flat = [t.reshape(-1) for t in tables] or [np.asarray(op.get_floats(name), np.float32) for name in PIECES]
    return [values.reshape(flat[0].size - flat[1].size, -1) for values in flat]


@piecewise_linear.reference
def piecewise_linear_reference(op: OperatorDef, x: Array, *tables: Array) -> List[Any]:
    bounds, slopes, intercepts = _pieces(op, tables)
    y = _rows(x.copy())
    transformed = range(y.shape[1] - 1, y.shape[1]) if op.get_bool("binary") else range(y.shape[1])
    for group, column in enumerate(transformed):
        value = np.clip(y[:, column], bounds[group, 0], bounds[group, -1])
        piece = np.clip(np.searchsorted(bounds[group], value) - 1, 0, slopes.shape[1] - 1)
        y[:, column] = slopes[group][piece] * value + intercepts[group][piece]
    if op.get_bool("binary") and y.shape[1] == 2:
        y[:, 0] = 1 - y[:, 1]
    return [y.reshape(x.shape)]


@operator("BatchBoxCox", inputs=3, inplace={0: 0}, dtypes=FLOATS)
def batch_box_cox(op: OperatorDef, x: TensorSpec, power: TensorSpec, shift: TensorSpec) -> List[TensorSpec]:
    """log z, or (z^power - 1) / power where power is not 0, with z = max(X + shift, 1e-6).

    power and shift have one number per column. Source: Box and Cox, An Analysis of Transformations, J. R. Stat. Soc. B
    26(2), 1964, eq. 2.
    """
    require_same_dtype(op, x, power, shift)
    columns = TensorSpec(x.shape[1:], x.dtype).size
    fits = x.ndim > 0 and (x.size == 0 or power.size == shift.size == columns)
    require(op, fits, f"power and shift must have {columns} elements", x, power, shift)
    return [x]


@batch_box_cox.reference
def batch_box_cox_reference(op: OperatorDef, x: Array, power: Array, shift: Array) -> List[Any]:
    if x.size == 0:
        return [x.copy()]
    exponent = power.astype(np.float64).reshape(-1)
    z = np.maximum(_rows(x) + shift.reshape(-1).astype(np.float64), 1e-6)
    divisor = np.where(exponent == 0, 1, exponent)
    return [np.where(exponent == 0, np.log(z), (z**divisor - 1) / divisor).astype(x.dtype).reshape(x.shape)]


@operator("BatchBucketize", inputs=4, dtypes=("float32",))
def batch_bucketize(
    op: OperatorDef, x: TensorSpec, columns: TensorSpec, boundaries: TensorSpec, lengths: TensorSpec
) -> List[TensorSpec]:
    """(rows, picks) int32: the number of boundaries that an element exceeds, for the columns of X in the second input.

    Each of these columns has the next ``lengths``, the last input, of the boundaries, which ascend.
    """
    vectors = all(spec.ndim == 1 and spec.dtype == np.int32 for spec in (columns, lengths))
    require(
        op,
        x.ndim == 2 and vectors and columns.shape == lengths.shape,
        "X must be a matrix, columns and lengths int32 vectors of equal length",
        x,
        columns,
        lengths,
    )
    require(
        op,
        boundaries.ndim == 1 and boundaries.dtype == np.float32,
        "boundaries must be a vector of float32",
        boundaries,
    )
    return [TensorSpec((x.shape[0], columns.shape[0]), np.int32)]


def _cut(op: OperatorDef, lengths: Sequence[int], total: int) -> List[Tuple[int, int]]:
    """Start and stop of consecutive pieces that add up to ``total``."""
    counts = [int(n) for n in lengths]
    require(op, min(counts, default=0) >= 0 and sum(counts) == total, f"lengths {counts} must add up to {total}")
    stops = np.cumsum([0, *counts]).tolist()
    return list(zip(stops, stops[1:]))


@batch_bucketize.reference
def batch_bucketize_reference(
    op: OperatorDef, x: Array, columns: Array, boundaries: Array, lengths: Array
) -> List[Any]:
    inside = bool(np.all((columns >= 0) & (columns < x.shape[1])))
    require(op, inside, f"columns must be 0 to {x.shape[1] - 1}, got {columns.tolist()}")
    y = np.zeros((x.shape[0], columns.size), np.int32)
    for place, (start, stop) in enumerate(_cut(op, lengths.tolist(), boundaries.size)):
        y[:, place] = np.searchsorted(boundaries[start:stop], x[:, columns[place]])
    return [y]


@operator("Percentile", inputs=3, dtypes=("float32",))
def percentile(op: OperatorDef, x: TensorSpec, pairs: TensorSpec, lengths: TensorSpec) -> List[TensorSpec]:
    """The percentile of each element of the matrix X, interpolated between (value, percentile) pairs, which ascend.

    Each column has the next ``lengths`` of the pairs; 0 below the first of them, 1 above the last.
    """
    fits = pairs.ndim == 2 and pairs.shape[1] == 2 and pairs.dtype == np.float32
    require(op, x.ndim == 2 and fits, "X must be a matrix, and the pairs (M, 2) float32", x, pairs)
    require(
        op,
        lengths.size == x.shape[1] and lengths.dtype == np.int32,
        "there must be one int32 length per column",
        x,
        lengths,
    )
    return [x]


@percentile.reference
def percentile_reference(op: OperatorDef, x: Array, pairs: Array, lengths: Array) -> List[Any]:
    y = np.empty_like(x)
    for column, (start, stop) in enumerate(_cut(op, lengths.reshape(-1).tolist(), len(pairs))):
        values, shares = pairs[start:stop].T
        y[:, column] = np.interp(x[:, column], values, shares, left=0, right=1) if stop > start else 1
        first = np.minimum(np.searchsorted(values, x[:, column]), max(stop - start - 1, 0))
        if stop > start:  # of several pairs with the same value, the first counts
            y[:, column] = np.where(values[first] == x[:, column], shares[first], y[:, column])
    return [y]


@operator("BisectPercentile", dtypes=("float32",))
def bisect_percentile(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """The percentile of each element of the matrix X, from a table of values ``percentile_raw`` per column.

    At a value it is ``percentile_mapping``; between two values it is interpolated from ``percentile_upper`` of the
    lower one to ``percentile_lower`` of the higher one. Each column has the next ``lengths`` of the values; 0 below the
    first of them, 1 above the last.
    """
    lengths = op.get_ints("lengths")
    require(op, x.ndim == 2 and x.shape[1] == len(lengths), "X must be a matrix with one column per length", x)
    tables = [len(op.get_floats(f"percentile_{name}")) for name in ("raw", "mapping", "lower", "upper")]
    fits = len(set(tables)) == 1 and sum(lengths) == tables[0] and min(lengths, default=1) >= 1
    require(op, fits, f"lengths {list(lengths)} must be positive and add up to each table, {tables}")
    return [x]


@bisect_percentile.reference
def bisect_percentile_reference(op: OperatorDef, x: Array) -> List[Any]:
    raw, mapping, lower, upper = (
        np.asarray(op.get_floats(f"percentile_{name}"), np.float32) for name in ("raw", "mapping", "lower", "upper")
    )
    y = np.empty_like(x)
    for column, (start, stop) in enumerate(_cut(op, op.get_ints("lengths"), raw.size)):
        own, value = raw[start:stop], x[:, column]
        below = np.clip(np.searchsorted(own, value, side="right") - 1, 0, len(own) - 1)
        above = np.minimum(below + 1, len(own) - 1)
        share = (value - own[below]) / (own[above] - own[below] + np.float32(1e-10))
        between = (1 - share) * upper[start:stop][below] + share * lower[start:stop][above]
        inside = np.where(own[below] == value, mapping[start:stop][below], between)
        y[:, column] = np.where(value < own[0], 0, np.where(value > own[-1], 1, inside))
    return [y]


@operator("Quantile", inputs=(1, None), dtypes=FLOATS)
def quantile(op: OperatorDef, *inputs: TensorSpec) -> List[TensorSpec]:
    """One number (1,) such that the share ``quantile`` of all elements does not exceed it.

    Magnitudes count unless ``abs`` (1) is 0. Found by bisection, to within ``tol`` (1e-3) of its magnitude.
    """
    require_same_dtype(op, *inputs)
    share, tolerance = op.get_float("quantile", -1.0), op.get_float("tol", 1e-3)
    if not 0 <= share <= 1 or not tolerance > 0:
        raise ArgumentError(op, f"quantile must be 0 to 1 and tol positive, got {share} and {tolerance}")
    require(op, sum(x.size for x in inputs) > 0, "the inputs must not be empty", *inputs)
    return [TensorSpec((1,), inputs[0].dtype)]


@quantile.reference
def quantile_reference(op: OperatorDef, *inputs: Array) -> List[Any]:
    x = np.sort(np.concatenate([x.reshape(-1) for x in inputs]))
    x = np.sort(np.abs(x)) if op.get_bool("abs", True) else x
    wanted = int(np.ceil(np.float32(x.size) * np.float32(op.get_float("quantile"))))
    return [np.array([_bisected(x, wanted, np.float32(op.get_float("tol", 1e-3)))], x.dtype)]


def _bisected(x: Array, wanted: int, tolerance: Any) -> Any:
    """A number that ``wanted`` of the sorted elements do not exceed; if there is none, the upper end of the range."""
    low, high = x[0], x[-1]
    if wanted == 0 or wanted == x.size:
        return high if wanted else low
    if np.searchsorted(x, low, side="right") >= wanted:
        return low
    while abs(high - low) > tolerance * (abs(high) + abs(low)):
        middle = x.dtype.type(low + (high - low) / 2)
        count = int(np.searchsorted(x, middle, side="right"))
        if count == wanted:
            return middle
        if middle in (low, high):
            break
        low, high = (low, middle) if count > wanted else (middle, high)
    return high


@operator("IndexHash", dtypes=("int32", "int64"), inplace={0: 0})
def index_hash(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """A hash of each element's bytes and ``seed`` (0), from 0 to ``modulo`` - 1: h = 65537 h + byte, for each byte.

    h starts as 0xDEADBEEF times the seed and wraps around as the dtype does. Bytes are -128 to 127.
    """
    modulo = op.get_int("modulo", 0)
    if not 0 < modulo <= np.iinfo(x.dtype).max:
        raise ArgumentError(op, f"modulo must be positive and fit into {x.dtype.name}, got {modulo}")
    return [x]


@index_hash.reference
def index_hash_reference(op: OperatorDef, x: Array) -> List[Any]:
    unsigned = np.dtype(f"u{x.dtype.itemsize}").type
    seed = op.get_int("seed", 0) * 0xDEADBEEF
    hashed = np.full(x.shape, seed % 2 ** (8 * x.dtype.itemsize), unsigned)
    signed_bytes = np.ascontiguousarray(x).astype(x.dtype.newbyteorder("<")).reshape(-1).view(np.int8)
    for place in range(x.dtype.itemsize):
        byte = signed_bytes[place :: x.dtype.itemsize].reshape(x.shape)
        hashed = hashed * unsigned(65537) + byte.astype(x.dtype).view(unsigned)
    return [np.mod(hashed.view(x.dtype).astype(np.int64), op.get_int("modulo")).astype(x.dtype)]


@operator("NGramFromCategorical", dtypes=("float32",))
def n_gram(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """One int64 per row: the positions of its columns ``col_ids`` among their ``vals``, as digits, lowest first.

    Each column has the next ``categorical_limits`` of the values. An element that is not among them counts as the
    first.
    """
    columns, limits = op.get_ints("col_ids"), op.get_ints("categorical_limits")
    width = TensorSpec(x.shape[1:], x.dtype).size
    require(
        op,
        x.ndim > 0 and bool(columns) and min(columns) >= 0 and max(columns) < width,
        f"col_ids {list(columns)} must name columns of X",
        x,
    )
    fits = len(limits) == len(columns) and min(limits) > 0 and sum(limits) == len(op.get_ints("vals"))
    require(op, fits, f"categorical_limits {list(limits)} must be one for each column and add up to the vals")
    return [TensorSpec(x.shape[:1], np.int64)]


@n_gram.reference
def n_gram_reference(op: OperatorDef, x: Array) -> List[Any]:
    rows, limits, vals = _rows(x), op.get_ints("categorical_limits"), op.get_ints("vals")
    y, base = np.zeros(x.shape[0], np.int64), 1
    for column, (start, stop) in zip(op.get_ints("col_ids"), _cut(op, limits, len(vals))):
        number = np.trunc(rows[:, column] + np.copysign(np.float32(0.5), rows[:, column]))
        hits = number[:, None] == np.asarray(vals[start:stop])
        last = stop - start - 1 - hits[:, ::-1].argmax(1)  # of equal values the last counts
        y += np.where(hits.any(1), last, 0) * base
        base *= stop - start
    return [y]


@operator("SinusoidPositionEncoding", dtypes=("int32", "int64"))
def sinusoid_position_encoding(op: OperatorDef, positions: TensorSpec) -> List[TensorSpec]:
    """(M, K, embedding_size) float32: ``amplitude`` (1) times sin, for odd k cos, of p / alpha^(k / embedding_size).

    positions: (M, K); p is the one in the row's first column. embedding_size (100), alpha (10000). Source: Vaswani et
    al., Attention Is All You Need, 2017, section 3.5, with another order and spacing.
    """
    require(op, positions.ndim == 2 and positions.shape[1] > 0, "positions must be a matrix", positions)
    size = op.get_int("embedding_size", 100)
    if size < 1:
        raise ArgumentError(op, f"embedding_size must be positive, got {size}")
    return [TensorSpec((*positions.shape, size), np.float32)]


@sinusoid_position_encoding.reference
def sinusoid_position_encoding_reference(op: OperatorDef, positions: Array) -> List[Any]:
    size = op.get_int("embedding_size", 100)
    places = np.arange(size)
    angles = positions[:, :1] / op.get_float("alpha", 10000.0) ** (places / size) + np.where(places % 2, np.pi / 2, 0)
    waves = (op.get_float("amplitude", 1.0) * np.sin(angles)).astype(np.float32)
    return [np.repeat(waves[:, None], positions.shape[1], axis=1)]


@operator("QuantDecode", inputs=(2, None), outputs=(1, None), dtypes=("float32",))
def quant_decode(op: OperatorDef, codebook: TensorSpec, *codes: TensorSpec) -> List[TensorSpec]:
    """Replaces each code (uint8, uint16 or int32) of the further inputs by the codebook's value at its position."""
    require(op, codebook.ndim == 1, "the codebook must be a vector", codebook)
    allowed = all(c.dtype.name in ("uint8", "uint16", "int32") for c in codes)
    require(
        op,
        allowed and len(codes) == len(op.output),
        "there must be one input of codes (uint8, uint16 or int32) per output",
        *codes,
    )
    return [TensorSpec(c.shape, np.float32) for c in codes]


@quant_decode.reference
def quant_decode_reference(op: OperatorDef, codebook: Array, *codes: Array) -> List[Any]:
    for number, code in enumerate(codes):
        inside = code.size == 0 or (int(code.min()) >= 0 and int(code.max()) < codebook.size)
        require(op, inside, f"codes of output {number} must be 0 to {codebook.size - 1}")
    return [codebook[code] for code in codes]


@operator("SelfBinningHistogram", inputs=(1, None), outputs=2, dtypes=FLOATS)
def self_binning_histogram(op: OperatorDef, *inputs: TensorSpec) -> List[TensorSpec]:
    """Edges and counts (int64) of ``num_bins`` bins, from the minimum to 1.0001 times the range above it.

    Both have num_bins + 1 elements; the last count is 0. ``bin_spacing``: linear, or logarithmic from
    ``logspace_start`` (1e-24) on; smaller elements count in the first bin. With ``abs``, magnitudes count.
    """
    require_same_dtype(op, *inputs)
    spacing, bins, start = _binning(op)
    if spacing not in ("linear", "logarithmic") or bins < 1 or not start > 0:
        raise ArgumentError(
            op,
            "bin_spacing must be linear or logarithmic, num_bins and logspace_start positive; got "
            f"{spacing!r}, {bins}, {start}",
        )
    return [TensorSpec((bins + 1,), inputs[0].dtype), TensorSpec((bins + 1,), np.int64)]


def _binning(op: OperatorDef) -> Tuple[str, int, float]:
    return op.get_str("bin_spacing", "linear"), op.get_int("num_bins", 0), op.get_float("logspace_start", 1e-24)


@self_binning_histogram.reference
def self_binning_histogram_reference(op: OperatorDef, *inputs: Array) -> List[Any]:
    x = np.concatenate([x.reshape(-1) for x in inputs])
    x = np.abs(x) if op.get_bool("abs") else x
    spacing, bins, start = _binning(op)
    edges, counts = np.zeros(bins + 1, x.dtype), np.zeros(bins + 1, np.int64)
    if x.size == 0:
        return [edges, counts]
    low, high = float(x.min()), float(x.max())
    if spacing == "logarithmic":
        low, high = max(low, start), max(high, start)
    top, steps = low + (high - low) * 1.0001, np.arange(bins + 1) / bins
    edges[:] = low + steps * (top - low) if spacing == "linear" else low * (top / low) ** steps
    places = np.searchsorted(edges, x, side="right")
    if edges[-1] <= high:  # the elements are too close together to be told apart
        edges[-1], places = top, np.zeros(x.shape, np.int64)
    np.add.at(counts, np.clip(places - 1, 0, bins - 1), 1)
    return [edges, counts]
