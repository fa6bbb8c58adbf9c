"""Scaled dot-product attention, which all attention operators share: exact, and fast in blocks.

    Y = softmax(softcap(Q K^T scale) + bias) V

B batches, H = N G heads of queries that share N heads of keys and values, S queries, T keys, D and E numbers a head. A
query i stands at the position i + offset and sees the keys from position - left to position + right; -1 means no limit
on that side.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.operators.common.statistics import powers_into
from runtime_arm.records import NamedTuple
from runtime_arm.registry.kernel import Call, Run
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import Step, in_turn

SCORES = 1 << 16  # elements of a block of scores: 256 KB of float32, which stay in the cache
FEWEST_ROWS = 64  # of a block: for fewer, a product spends most of its time on bringing keys into order
FEW = 1 << 14  # elements of all scores that are not worth sharing
KEPT = 64  # blocks whose calls stay bound: small problems have no more, and in others binding takes little of the time
OPEN = (-1, -1)
Heads = Tuple[int, slice]  # a batch and heads of keys: what one worker does at a time
Prepare = Callable[[Heads], Run]


class Biases(NamedTuple):
    """What is added to the scores (B, H, S, T), to which both broadcast.

    window: -inf for a key that a query does not see, else 0. mask: any numbers.
    """

    window: Array
    mask: Any = 0.0


class Stages(NamedTuple):
    """The scores (B, H, S, T) on their way: scaled products, then with softcap, then with bias, then probabilities."""

    products: Array
    capped: Array
    biased: Array
    probabilities: Array


def attend64(
    q: Array, k: Array, v: Array, scale: float, biases: Biases, softcap: float = 0.0, sink: Optional[Array] = None
) -> Tuple[Array, Stages]:
    """Y (B, H, S, E) in float64 for q (B, H, S, D), k (B, N, T, D), v (B, N, T, E), and the scores on the way.

    A key that the window hides has the probability 0, NaN or not, as have all keys of a row whose biases are -inf
    throughout. sink (H): a logit in addition to those of the keys, which takes its share of the probability.
    """
    groups = q.shape[1] // max(k.shape[1], 1)
    keys, values = (np.repeat(x.astype(np.float64), groups, axis=1) for x in (k, v))
    products = np.matmul(q.astype(np.float64), np.swapaxes(keys, 2, 3)) * scale
    capped = softcap * np.tanh(products / softcap) if softcap > 0 else products
    bias = biases.window + biases.mask
    biased = capped + bias
    hidden = np.isneginf(biases.window) | np.isneginf(bias).all(axis=3, keepdims=True)
    scores = np.where(hidden, -np.inf, biased)
    least = np.finfo(np.float64).min
    extra = np.full((1, 1, 1, 1), -np.inf) if sink is None else sink.astype(np.float64).reshape(1, -1, 1, 1)
    top = np.maximum(np.maximum(scores.max(axis=3, keepdims=True, initial=-np.inf), extra), least)
    with np.errstate(invalid="ignore"):
        powers = np.exp(scores - top)
    total = powers.sum(axis=3, keepdims=True) + np.exp(extra - top)
    probabilities = powers / np.where(total == 0, 1, total)
    return np.matmul(probabilities, values), Stages(products, capped, biased, probabilities)


def band64(queries: int, keys: int, offsets: Any, sides: Tuple[int, int], lengths: Any = None) -> Array:
    """The ``window`` of ``Biases``, (B, 1, S, T), or B = 1. Keys from ``lengths`` on are seen by none."""
    offsets = np.asarray(offsets, np.int64).reshape(-1, 1, 1, 1)
    ahead = np.arange(keys) - np.arange(queries)[:, np.newaxis] - offsets
    seen = np.ones(ahead.shape, bool)
    left, right = sides
    if left >= 0:
        seen &= ahead >= -left
    if right >= 0:
        seen &= ahead <= right
    if lengths is not None:
        seen = seen & (np.arange(keys) < np.asarray(lengths, np.int64).reshape(-1, 1, 1, 1))
    return np.where(seen, 0.0, -np.inf)


class Problem(NamedTuple):
    """What the fast kernel computes, as views of its buffers.

    q: (B, N, G, S, D). k: (B, N, T, D). v: (B, N, T, E). y: (B, N, G, S, E). biases broadcast to (B, N, G, S, T).
    offset, length: of a batch, the position of its first query and the number of its keys. sink: (N, G). prepare: a
    run that fills these heads of q, k and v, before they are read.
    """

    q: Array
    k: Array
    v: Array
    y: Array
    scale: float
    biases: Sequence[Array] = ()
    softcap: float = 0.0
    sides: Tuple[int, int] = OPEN
    offset: Callable[[int], int] = lambda batch: 0
    length: Optional[Callable[[int], int]] = None
    sink: Optional[Array] = None
    prepare: Optional[Prepare] = None


def block_of(groups: int, heads: int, queries: int, keys: int) -> Tuple[int, int]:
    """How many heads of keys and how many queries a block has."""
    rows = min(queries, max(SCORES // max(groups * keys, 1), FEWEST_ROWS // max(groups, 1)))
    fitting = SCORES // max(groups * rows * keys, 1)
    fewest = 1 if heads * groups * queries * keys <= FEW else 4  # blocks, so that workers can share them
    return max(min(fitting, -(-heads // fewest)), 1), max(rows, 1)


def score_scratch(dtype: Any, groups: int, heads: int, queries: int, keys: int) -> List[TensorSpec]:
    """The scratch of a ``Problem``: a block of scores, and a column for maxima and sums."""
    some, rows = block_of(groups, heads, queries, keys)
    return [TensorSpec((some * groups * rows * max(keys, 1),), dtype), TensorSpec((2, some * groups * rows), dtype)]


def blocked(call: Call, problem: Problem, scratch: Sequence[Array]) -> Run:
    """The run that solves this worker's part of the problem; ``scratch`` is as ``score_scratch`` says."""
    batches, heads, groups, queries = problem.q.shape[:4]
    some, rows = block_of(groups, heads, queries, problem.k.shape[2])
    parts = [(b, slice(n, min(n + some, heads))) for b in range(batches) for n in range(0, heads, some)]
    mine = call.mine(parts)
    prepared = [problem.prepare(part) if problem.prepare else None for part in mine]
    solver = _Solver(problem, scratch)

    def run() -> None:
        for part, prepare in zip(mine, prepared):
            if prepare is not None:
                prepare()
            for first in range(0, queries, rows):
                solver.solve(part, slice(first, min(first + rows, queries)))

    return run


class _Solver:
    """Computes one block after the other in the same scratch memory."""

    def __init__(self, problem: Problem, scratch: Sequence[Array]):
        self._problem = problem
        self._scores, self._columns = scratch
        dtype = problem.y.dtype
        self._scale, self._softcap = (np.array(number, dtype) for number in (problem.scale, problem.softcap))
        self._least, self._tiny = np.finfo(dtype).min, np.finfo(dtype).tiny
        self._middle = problem.q.shape[3] + problem.k.shape[2]  # where in the band a key at the query's position is
        self._band = self._outside(dtype) if problem.sides != OPEN else None
        self._ones = np.ones((problem.k.shape[2], 1), dtype)
        self._kept: Dict[Tuple[int, int, int], Tuple[Tuple[int, int, int], Run]] = {}  # by block: keys seen, and run

    def _outside(self, dtype: Any) -> Array:
        """-inf for the distances from query to key that are outside the window, else 0."""
        left, right = self._problem.sides
        distance = np.arange(2 * self._middle + 1) - self._middle
        outside = (distance < -left) & (left >= 0) | (distance > right) & (right >= 0)
        band: Array = np.where(outside, -np.inf, 0).astype(dtype)
        return band

    def solve(self, part: Heads, rows: slice) -> None:
        """Write the results of some heads of a batch for some queries."""
        (batch, heads), offset = part, self._problem.offset(part[0])
        first, last = self._seen(batch, rows)
        if last <= first:
            self._problem.y[batch, heads, :, rows].fill(0)
            return
        place, window = (batch, heads.start, rows.start), (first, last, offset)
        kept = self._kept.get(place)
        if kept is None or kept[0] != window:
            kept = window, self._bound(part, rows, slice(first, last))
            if place in self._kept or len(self._kept) < KEPT:
                self._kept[place] = kept
        kept[1]()

    def _bound(self, part: Heads, rows: slice, keys: slice) -> Run:
        """The run for a block, as long as these are the keys that its queries see."""
        problem, (batch, heads) = self._problem, part
        y, v = problem.y[batch, heads, :, rows], problem.v[batch, heads, np.newaxis, keys]
        shape = (*y.shape[:3], keys.stop - keys.start)
        lines = shape[0] * shape[1] * shape[2]
        flat = self._scores[: lines * shape[3]].reshape(lines, shape[3])
        top, total = (column[:lines].reshape(lines, 1) for column in self._columns)
        tops, sums, scores = top.reshape(*shape[:3], 1), total.reshape(*shape[:3], 1), flat.reshape(shape)
        score, ones = in_turn(self._scoring(scores, part, rows, keys)), self._ones[: shape[3]]
        hide = partial(self._hide, scores, part, rows, keys)
        sink = None if problem.sink is None else problem.sink[heads]

        def run() -> None:
            score()
            if sink is None:
                if powers_into(flat, flat, ones, total):
                    np.matmul(scores, v, y)
                    np.divide(y, sums, y)
                    return
                score()
            self._normalise(scores, tops, sums, sink, hide)
            np.matmul(scores, v, y)

        return run

    def _scoring(self, scores: Array, part: Heads, rows: slice, keys: slice) -> List[Step]:
        """The steps that write the scores of these queries and keys, with bias and window."""
        problem, (batch, heads) = self._problem, part
        q, k = problem.q[batch, heads, :, rows], problem.k[batch, heads, np.newaxis, keys]
        steps: List[Step] = [
            partial(np.matmul, q, k.swapaxes(-1, -2), scores),
            partial(np.multiply, scores, self._scale, scores),
        ]
        if self._softcap > 0:
            steps += [
                partial(np.divide, scores, self._softcap, scores),
                partial(np.tanh, scores, scores),
                partial(np.multiply, scores, self._softcap, scores),
            ]
        for bias in problem.biases:
            steps.append(partial(np.add, scores, _cut(bias, batch, heads, rows, keys), scores))
        if self._band is not None:
            windows = self._windows(self._band, batch, rows, keys.start, keys.stop)
            steps.append(partial(np.add, scores, windows, scores))
        return steps

    def _seen(self, batch: int, rows: slice) -> Tuple[int, int]:
        """The keys that any of these queries may see."""
        problem, (left, right) = self._problem, self._problem.sides
        offset, last = problem.offset(batch), problem.k.shape[2]
        if problem.length is not None:
            last = min(last, problem.length(batch))
        if right >= 0:
            last = min(last, rows.stop + offset + right)
        return max(rows.start + offset - left, 0) if left >= 0 else 0, last

    def _windows(self, band: Array, batch: int, rows: slice, first: int, last: int) -> Array:
        """The band's elements for these queries and keys: (S, T), constant along diagonals."""
        at = first - rows.start - self._problem.offset(batch) + self._middle
        step = band.itemsize
        shape, steps = (rows.stop - rows.start, last - first), (-step, step)
        windows: Array = np.ndarray(shape, band.dtype, band, at * step, steps)
        return windows

    def _hide(self, scores: Array, part: Heads, rows: slice, keys: slice) -> None:
        """Scores of -inf, instead of NaN, for keys outside the window and in rows whose biases are -inf throughout."""
        batch, heads = part
        bias: Any = np.zeros(())
        if self._band is not None:
            bias = self._windows(self._band, batch, rows, keys.start, keys.stop)
            np.copyto(scores, -np.inf, where=np.isneginf(bias))
        for one in self._problem.biases:
            bias = bias + _cut(one, batch, heads, rows, keys)
        if bias.ndim:
            np.copyto(scores, -np.inf, where=np.isneginf(bias).all(axis=-1, keepdims=True))

    def _normalise(self, scores: Array, top: Array, total: Array, sink: Optional[Array], hide: Run) -> None:
        """Softmax in place; rows of -inf become 0."""
        np.maximum.reduce(scores, axis=3, keepdims=True, out=top)
        if np.isnan(np.maximum.reduce(top.reshape(-1))):
            hide()
            np.maximum.reduce(scores, axis=3, keepdims=True, out=top)
        np.maximum(top, self._least, out=top)
        if sink is not None:
            np.maximum(top, sink[:, :, np.newaxis, np.newaxis], out=top)
        np.subtract(scores, top, out=scores)
        np.exp(scores, out=scores)
        np.add.reduce(scores, axis=3, keepdims=True, out=total)
        if sink is not None:
            np.subtract(sink[:, :, np.newaxis, np.newaxis], top, out=top)
            np.exp(top, out=top)
            np.add(total, top, out=total)
        np.maximum(total, self._tiny, out=total)
        np.divide(scores, total, out=scores)


def _cut(bias: Array, batch: int, heads: slice, rows: slice, keys: slice) -> Array:
    """The part of a bias, which broadcasts to (B, N, G, S, T), that belongs to a block."""
    one = slice(0, 1)
    index = (
        batch if bias.shape[0] > 1 else 0,
        heads if bias.shape[1] > 1 else one,
        slice(None),
        rows if bias.shape[3] > 1 else one,
        keys if bias.shape[4] > 1 else one,
    )
    part: Array = bias[index]
    return part


def grouped(x: Array, heads: int) -> Array:
    """(B, H, S, T) as (B, N, G, S, T), a view; a single head stays single."""
    if x.shape[1] == 1 and heads > 1:
        heads = 1
    apart: Array = x.reshape(x.shape[0], heads, x.shape[1] // heads, *x.shape[2:])
    return apart


def split_heads(x: Array, heads: int) -> Array:
    """(B, S, heads D) as (B, heads, S, D), a view."""
    apart: Array = x.reshape(*x.shape[:2], heads, x.shape[2] // heads).swapaxes(1, 2)
    return apart


def join_heads(x: Array) -> Array:
    """(B, H, S, E) as (B, S, H E)."""
    joined: Array = x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], x.shape[1] * x.shape[3])
    return joined
