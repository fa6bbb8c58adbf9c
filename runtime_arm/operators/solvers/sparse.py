"""Updates of single rows: a sparse gradient is a vector of row indices and a row for each (Caffe2).

An index that occurs several times is updated several times, one occurrence after the other.
"""

from __future__ import annotations

from typing import Any, Callable, Iterator, List, Optional, Tuple

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.indices import absolute, require_indices
from runtime_arm.operators.solvers.adaptive import adadelta_step, adam_step, check_adam
from runtime_arm.operators.solvers.blocks import number, require_alike, require_number
from runtime_arm.operators.solvers.momentum import momentum_step
from runtime_arm.operators.solvers.scaling import ftrl_step, require_ftrl, storm_rates
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec

Rounds = Iterator[Tuple[Array, Array]]


def _check(op: OperatorDef, tables: List[TensorSpec], indices: TensorSpec, g: TensorSpec, *rates: TensorSpec) -> None:
    require_alike(op, *tables)
    require_number(op, *rates)
    require_indices(op, indices)
    fits = tables[0].ndim > 0 and g.dtype == np.float32 and g.size * tables[0].shape[0] == tables[0].size * indices.size
    require(op, fits, "there must be one row of the gradient for each index", tables[0], indices, g)


def _check_rowwise(op: OperatorDef, p: TensorSpec, h: TensorSpec) -> None:
    require(op, p.ndim > 0 and h.size == p.shape[0], "there must be one number of state for each row", p, h)


def _rounds(op: OperatorDef, indices: Array, rows: int) -> Rounds:
    """Pairs (rows of the table, rows of the gradient); within a pair no row of the table occurs twice.

    The first pair has the first occurrence of every index, the second has the second, and so on.
    """
    places = absolute(op, indices.reshape(-1), rows, wraps=False)
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(ordered) else ordered
    lengths = np.diff(np.r_[starts, len(ordered)])
    occurrence = np.arange(len(ordered)) - np.repeat(starts, lengths)
    for turn in range(int(lengths.max(initial=0))):
        chosen = order[occurrence == turn]
        yield places[chosen], chosen


def _table(array: Array, rows: int) -> Array:
    return array.astype(np.float64).reshape(rows, array.size // max(rows, 1))


def _updated(
    op: OperatorDef, originals: List[Array], indices: Array, g: Array, update: Callable[..., List[Array]]
) -> List[Any]:
    """The tables after ``update(rows of the gradient, *rows of the tables)`` has replaced the rows, round by round."""
    rows = len(originals[0])
    tables = [_table(array, rows) for array in originals]
    gradient = _table(g, indices.size)
    for places, chosen in _rounds(op, indices, rows):
        for table, new in zip(tables, update(gradient[chosen], *(table[places] for table in tables))):
            table[places] = new
    return [table.reshape(old.shape).astype(np.float32) for table, old in zip(tables, originals)]


@operator("SparseMomentumSGDUpdate", inputs=5, outputs=3, inplace={0: 0, 1: 1, 2: 3})
def sparse_momentum(
    op: OperatorDef, g: TensorSpec, m: TensorSpec, rate: TensorSpec, p: TensorSpec, indices: TensorSpec
) -> List[TensorSpec]:
    """MomentumSGDUpdate of the rows ``indices``. Inputs: g, m, rate, p, indices; outputs: step, m', p'."""
    _check(op, [p, m], indices, g, rate)
    return [g, m, p]


@sparse_momentum.reference
def sparse_momentum_reference(op: OperatorDef, g: Array, m: Array, rate: Array, p: Array, indices: Array) -> List[Any]:
    rows = len(p)
    steps, (table, moments) = _table(g, indices.size), (_table(p, rows), _table(m, rows))
    for places, chosen in _rounds(op, indices, rows):
        steps[chosen], moments[places] = momentum_step(op, steps[chosen], moments[places], rate)
        table[places] -= steps[chosen]
    return [result.reshape(old.shape).astype(np.float32) for result, old in ((steps, g), (moments, m), (table, p))]


@operator("SparseAdagrad", inputs=5, outputs=2, inplace={0: 0, 1: 1})
def sparse_adagrad(
    op: OperatorDef, p: TensorSpec, h: TensorSpec, indices: TensorSpec, g: TensorSpec, rate: TensorSpec
) -> List[TensorSpec]:
    """Adagrad without decay, of the rows ``indices``. Inputs: p, h, indices, g, rate; outputs: p', h'."""
    _check(op, [p, h], indices, g, rate)
    return [p, h]


@operator("RowWiseSparseAdagrad", inputs=5, outputs=2, inplace={0: 0, 1: 1})
def rowwise_sparse_adagrad(
    op: OperatorDef, p: TensorSpec, h: TensorSpec, indices: TensorSpec, g: TensorSpec, rate: TensorSpec
) -> List[TensorSpec]:
    """SparseAdagrad with one h for each row, which grows by the mean of g^2."""
    _check(op, [p], indices, g, rate)
    _check_rowwise(op, p, h)
    return [p, h]


@sparse_adagrad.reference
@rowwise_sparse_adagrad.reference
def sparse_adagrad_reference(op: OperatorDef, p: Array, h: Array, indices: Array, g: Array, rate: Array) -> List[Any]:
    epsilon, decay = op.get_float("epsilon", 1e-5), op.get_float("weight_decay", 0.0)

    def update(g: Array, p: Array, h: Array) -> List[Array]:
        g = g + decay * p
        h = h + (g * g if h.shape == g.shape else (g * g).mean(axis=1, keepdims=True))
        return [p + np.float64(number(rate)) * g / (np.sqrt(h) + epsilon), h]

    return _updated(op, [p, h], indices, g, update)


@operator("SparseAdam", inputs=7, outputs=(3, 4), inplace={0: 0, 1: 1, 2: 2})
def sparse_adam(
    op: OperatorDef,
    p: TensorSpec,
    m: TensorSpec,
    v: TensorSpec,
    indices: TensorSpec,
    g: TensorSpec,
    rate: TensorSpec,
    iteration: TensorSpec,
) -> List[TensorSpec]:
    """Adam of the rows ``indices``, or with ``enableRAdam`` RAdam.

    Inputs: p, m, v, indices, g, rate, iteration; outputs: p', m', v', s.
    """
    _check(op, [p, m, v], indices, g, rate)
    check_adam(op, iteration)
    return [p, m, v, g]


@operator("RowWiseSparseAdam", inputs=7, outputs=(3, 4), inplace={0: 0, 1: 1, 2: 2})
def rowwise_sparse_adam(
    op: OperatorDef,
    p: TensorSpec,
    m: TensorSpec,
    v: TensorSpec,
    indices: TensorSpec,
    g: TensorSpec,
    rate: TensorSpec,
    iteration: TensorSpec,
) -> List[TensorSpec]:
    """SparseAdam with one v for each row, made of the mean of g^2."""
    _check(op, [p, m], indices, g, rate)
    _check_rowwise(op, p, v)
    check_adam(op, iteration)
    return [p, m, v, g]


@sparse_adam.reference
@rowwise_sparse_adam.reference
def sparse_adam_reference(
    op: OperatorDef, p: Array, m: Array, v: Array, indices: Array, g: Array, rate: Array, iteration: Array
) -> List[Any]:
    rows = len(p)
    tables, steps = [_table(array, rows) for array in (p, m, v)], _table(g, indices.size)
    for places, chosen in _rounds(op, indices, rows):
        steps[chosen], *moments = adam_step(op, tables[1][places], tables[2][places], steps[chosen], iteration)
        tables[0][places] += np.float64(number(rate)) * steps[chosen]
        tables[1][places], tables[2][places] = moments
    return [result.reshape(old.shape).astype(np.float32) for result, old in zip((*tables, steps), (p, m, v, g))]


@operator("SparseAdadelta", inputs=6, outputs=3, inplace={0: 0, 1: 1, 2: 2})
def sparse_adadelta(
    op: OperatorDef,
    p: TensorSpec,
    h: TensorSpec,
    d: TensorSpec,
    indices: TensorSpec,
    g: TensorSpec,
    rate: TensorSpec,
) -> List[TensorSpec]:
    """Adadelta of the rows ``indices``. Inputs: p, h, d, indices, g, rate; outputs: p', h', d'."""
    _check(op, [p, h, d], indices, g, rate)
    return [p, h, d]


@sparse_adadelta.reference
def sparse_adadelta_reference(
    op: OperatorDef, p: Array, h: Array, d: Array, indices: Array, g: Array, rate: Array
) -> List[Any]:
    def update(g: Array, p: Array, h: Array, d: Array) -> List[Array]:
        step, h, d = adadelta_step(op, h, d, g)
        return [p + np.float64(number(rate)) * step, h, d]

    return _updated(op, [p, h, d], indices, g, update)


@operator("SparseStorm", inputs=6, outputs=3, inplace={0: 0, 1: 1, 2: 2})
def sparse_storm(
    op: OperatorDef,
    p: TensorSpec,
    m: TensorSpec,
    s: TensorSpec,
    g: TensorSpec,
    indices: TensorSpec,
    rate: TensorSpec,
) -> List[TensorSpec]:
    """Storm of the rows ``indices``. Inputs: p, m, s, g, indices, rate; outputs: p', m', s'."""
    _check(op, [p, m], indices, g, rate)
    require_number(op, s)
    return [p, m, s]


@sparse_storm.reference
def sparse_storm_reference(
    op: OperatorDef, p: Array, m: Array, s: Array, g: Array, indices: Array, rate: Array
) -> List[Any]:
    total, effective, share = storm_rates(op, s, g, rate)

    def update(g: Array, p: Array, m: Array) -> List[Array]:
        m = g + (1 - share) * (m - g)
        return [p + effective * m, m]

    return [*_updated(op, [p, m], indices, g, update), total.astype(np.float32)]


@operator("SparseWngrad", inputs=5, outputs=2, inplace={0: 0, 1: 1})
def sparse_wngrad(
    op: OperatorDef, p: TensorSpec, b: TensorSpec, indices: TensorSpec, g: TensorSpec, rate: TensorSpec
) -> List[TensorSpec]:
    """p' = p + rate g / (b + epsilon) in the rows ``indices``;  b' = b + |g|^2 / b, unlike Wngrad's.

    Inputs: p, b, indices, g, rate; outputs: p', b'. ``epsilon`` is 1e-5.
    """
    _check(op, [p], indices, g, rate)
    require_number(op, b)
    return [p, b]


@sparse_wngrad.reference
def sparse_wngrad_reference(op: OperatorDef, p: Array, b: Array, indices: Array, g: Array, rate: Array) -> List[Any]:
    effective = np.float64(number(rate)) / (np.float64(number(b)) + op.get_float("epsilon", 1e-5))
    (new,) = _updated(op, [p], indices, g, lambda g, p: [p + effective * g])
    with np.errstate(divide="ignore", invalid="ignore"):
        return [new, (b + np.square(g.astype(np.float64)).sum() / b.astype(np.float64)).astype(np.float32)]


@operator("SparseFtrl", inputs=(4, 5), outputs=2, inplace={0: 0, 1: 1})
def sparse_ftrl(
    op: OperatorDef,
    p: TensorSpec,
    state: TensorSpec,
    indices: TensorSpec,
    g: TensorSpec,
    alpha: Optional[TensorSpec] = None,
) -> List[TensorSpec]:
    """Ftrl of the rows ``indices``. Inputs: p, state, indices, g, and alpha instead of the argument."""
    _check(op, [p], indices, g)
    require_ftrl(op, p, state, alpha)
    return [p, state]


@sparse_ftrl.reference
def sparse_ftrl_reference(
    op: OperatorDef, p: Array, state: Array, indices: Array, g: Array, alpha: Optional[Array] = None
) -> List[Any]:
    def update(g: Array, p: Array, state: Array) -> List[Array]:
        new, pairs = ftrl_step(op, p, state.reshape(*p.shape, 2), g, alpha)
        return [new, pairs.reshape(state.shape)]

    return _updated(op, [p, state], indices, g, update)


@operator("SparseNormalize", inputs=(2, 3), dtypes=("float32",), inplace={0: 0})
def sparse_normalize(
    op: OperatorDef, p: TensorSpec, indices: TensorSpec, g: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """Scale the rows ``indices`` to the length ``norm``, with ``use_max_norm`` only those that are longer.

    Inputs: p, indices, and a gradient that is not read. ``norm`` is 1, ``use_max_norm`` 1. A row of zeros stays.
    """
    require(op, p.ndim > 0, "there must be rows", p)
    require_indices(op, indices)
    return [p]


@operator("Float16SparseNormalize", inputs=(2, 3), dtypes=("float16",), inplace={0: 0})
def float16_sparse_normalize(
    op: OperatorDef, p: TensorSpec, indices: TensorSpec, g: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """SparseNormalize of float16, where a row of zeros that is scaled becomes NaN, as in Caffe2."""
    require(op, p.ndim > 0, "there must be rows", p)
    require_indices(op, indices)
    return [p]


@sparse_normalize.reference
@float16_sparse_normalize.reference
def sparse_normalize_reference(op: OperatorDef, p: Array, indices: Array, g: Optional[Array] = None) -> List[Any]:
    limit, least = op.get_float("norm", 1.0), 0.0 if p.dtype == np.float16 else 1e-12
    table = _table(p, len(p))
    for places, _ in _rounds(op, indices, len(p)):
        rows = table[places]
        lengths = np.sqrt(np.square(rows).sum(axis=1, keepdims=True))
        chosen = lengths > limit if op.get_bool("use_max_norm", True) else np.ones_like(lengths, bool)
        with np.errstate(divide="ignore", invalid="ignore"):
            table[places] = np.where(chosen, rows * (limit / (lengths + least)), rows)
    return [table.reshape(p.shape).astype(p.dtype)]
