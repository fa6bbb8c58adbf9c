"""Sums, means and maxima of slices of rows that begin and end anywhere: PyTorch's EmbeddingBag in ONNX."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.machine.caches import usual_block_nbytes
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.indices import absolute, check_range, require_indices
from runtime_arm.records import NamedTuple
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import integers_of, operator, require
from runtime_arm.registry.specs import TensorSpec


class _Reduction(NamedTuple):
    """A function of two rows, and what it gives for no rows."""

    function: Any
    nothing: float


REDUCTIONS = {
    "Sum": _Reduction(np.add, 0.0),
    "Mean": _Reduction(np.add, 0.0),
    "Max": _Reduction(np.maximum, -np.inf),
}


def _reduction(op: OperatorDef) -> _Reduction:
    name = op.get_str("reduction", "Sum")
    if name not in REDUCTIONS:
        raise ArgumentError(op, f"reduction must be one of {', '.join(REDUCTIONS)}, got {name!r}")
    return REDUCTIONS[name]


@operator("ReduceSlices", domain="armnet", inputs=(4, 6))
def reduce_slices(
    op: OperatorDef,
    x: TensorSpec,
    starts: TensorSpec,
    ends: TensorSpec,
    count: TensorSpec,
    indices: Optional[TensorSpec] = None,
    weights: Optional[TensorSpec] = None,
) -> List[TensorSpec]:
    """Y[i] is the ``reduction`` (Sum, Mean or Max) of R[starts[i]:ends[i]] over its rows, for i < count.

    R is X, float32, or X[indices], or that with each row multiplied by its weight. Slices are cut to what there is, and
    negative starts, ends and indices count from the end, as in ONNX. No rows give 0, but a maximum of -infinity.
    """
    _reduction(op)
    require(op, x.ndim > 0 and x.dtype == np.float32, "X must be float32 and must have a dimension", x)
    for integers in (starts, ends) if indices is None else (starts, ends, indices):
        require_indices(op, integers)
    number = integers_of(op, count, "count")
    fits = len(number) == 1 and starts.ndim == ends.ndim == 1 and number[0] <= min(starts.size, ends.size)
    require(op, fits, "count must be one number, at most that of starts and of ends", starts, ends)
    require(op, indices is None or indices.ndim == 1, "indices must be a vector", indices)
    rows = _rows(x, indices)
    fits = weights is None or (weights.shape == (rows,) and weights.dtype == np.float32)
    require(op, fits, f"there must be {rows} weights, float32", weights)
    return [x.with_shape((max(0, number[0]), *x.shape[1:]))]


def _rows(x: TensorSpec, indices: Optional[TensorSpec]) -> int:
    return x.shape[0] if indices is None else indices.size


def _limits(starts: Array, ends: Array, count: int, rows: int) -> Tuple[Array, Array]:
    """Where the first slices begin and end among the rows, int64; no end lies before its start."""
    first, last = (
        np.clip(np.where(limits < 0, limits + rows, limits), 0, rows)
        for limits in (starts[:count].astype(np.int64), ends[:count].astype(np.int64))
    )
    return first, np.maximum(first, last)


@reduce_slices.reference
def reduce_slices_reference(
    op: OperatorDef,
    x: Array,
    starts: Array,
    ends: Array,
    count: Array,
    indices: Optional[Array] = None,
    weights: Optional[Array] = None,
) -> List[Any]:
    function, nothing = _reduction(op)
    rows = x.shape[0] if indices is None else indices.size
    limits = _limits(starts, ends, max(0, int(count.reshape(-1)[0])), rows)
    y = np.full((limits[0].size, *x.shape[1:]), nothing)
    for place, (first, last) in enumerate(zip(*limits)):
        at = np.arange(first, last) if indices is None else absolute(op, indices[first:last], x.shape[0])
        if not at.size:
            continue
        picked = x[at].astype(np.float64)
        if weights is not None:
            picked *= weights[first:last].reshape((-1,) + (1,) * (x.ndim - 1))
        y[place] = function.reduce(picked, axis=0)
        if op.get_str("reduction", "Sum") == "Mean":
            y[place] /= at.size
    return [y.astype(x.dtype)]


def _supports(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    x = inputs[0]
    assert x is not None
    return None if x.size else "X is empty"


def _scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    """A block of rows and one more, twice: as they are picked, and reduced; where they are among X's; limits of slices
    among them. Of all slices: first row, end and length; two flags; the length as a divisor."""
    x = inputs[0]
    assert x is not None
    rows, row = _rows(x, inputs[4] if len(inputs) > 4 else None), x.with_shape((1, *x.shape[1:]))
    most = max(64, usual_block_nbytes() // (2 * row.nbytes))
    count = 1 + min(most, max(rows, 2 * outputs[0].shape[0]))
    blocks, places = x.with_shape((count, *x.shape[1:])), TensorSpec((count,), np.intp)
    slices = outputs[0].shape[0]
    of_slices = TensorSpec((3, slices), np.int64), TensorSpec((2, slices), np.bool_), TensorSpec((slices,), x.dtype)
    return (blocks, blocks, places, places, *of_slices)


class _Block:
    """The picked rows that lie in a block of scratch memory at a time."""

    def __init__(self, call: Call):
        self._op, self._x = call.op, call.inputs[0]
        self._indices, self._weights = (*call.inputs[4:], None, None)[:2]
        self._picked, self.reduced, self._places, self.limits = call.scratch[:4]
        self.most = len(self._picked) - 1

    def pick(self, first: int, last: int) -> Array:
        """The rows from ``first`` up to ``last``, and one more, of zeros."""
        count = last - first
        rows, places = self._picked[:count], self._places[:count]
        if self._indices is None:
            np.copyto(rows, self._x[first:last])
        else:
            np.copyto(places, self._indices[first:last], casting="same_kind")
            self._x.take(places, 0, rows, "wrap")
        if self._weights is not None:
            np.multiply(rows, self._weights[first:last].reshape((-1,) + (1,) * (rows.ndim - 1)), out=rows)
        self._picked[count] = 0
        return self._picked[: count + 1]

    def check(self, first: Array, last: Array) -> None:
        """ShapeError if an index that a slice reads is out of range."""
        indices, length = self._indices, len(self._x)
        if indices is not None and indices.size and not -length <= indices.min() <= indices.max() < length:
            for start, end in zip(first, last):
                check_range(self._op, indices[start:end], length)


@reduce_slices.kernel("BLOCKS", supports=_supports, scratch=_scratch)
def reduce_slices_blocks(call: Call) -> Run:
    """The slices within one block of rows at a time, by one ``reduceat`` over their starts and ends.

    Its result for each end, the rows up to the next start, is not used. A slice longer than a block is reduced in
    parts.
    """
    y = call.outputs[0]
    function, nothing = _reduction(call.op)
    block, slices, column = _Block(call), _Slices(call), (-1,) + (1,) * (y.ndim - 1)
    first, last, mean = slices.first, slices.last, call.op.get_str("reduction", "Sum") == "Mean"

    def run() -> None:
        slices.find()
        block.check(first, last)
        at = 0
        while at < len(y):
            many = slices.together(at, block.most)
            if many:
                _reduce_together(function, block, first[at : at + many], last[at : at + many], y[at : at + many])
            else:
                _reduce_long(function, block, int(first[at]), int(last[at]), y[at : at + 1])
            at += max(many, 1)
        if mean:
            np.divide(y, slices.divisors.reshape(column), out=y)
        np.copyto(y, nothing, where=slices.empty.reshape(column))

    return run


class _Slices:
    """Where the slices begin and end, in scratch memory.

    divisors: how many rows they have, but 1 for those without any, which ``empty`` marks.
    """

    def __init__(self, call: Call):
        (self.first, self.last, self._lengths), (self.empty, self._flags), self.divisors = call.scratch[4:]
        count = len(self.first)
        self._starts, self._ends = (limits[:count] for limits in call.inputs[1:3])
        x, indices = call.in_specs[0], call.in_specs[4] if len(call.in_specs) > 4 else None
        assert x is not None
        self._rows = _rows(x, indices)

    def find(self) -> None:
        """What ``_limits`` gives."""
        for limits, given in ((self.first, self._starts), (self.last, self._ends)):
            np.copyto(limits, given)
            np.add(limits, self._rows, out=limits, where=np.less(limits, 0, out=self._flags))
            np.clip(limits, 0, self._rows, out=limits)
        np.maximum(self.first, self.last, out=self.last)
        np.subtract(self.last, self.first, out=self._lengths)
        np.equal(self._lengths, 0, out=self.empty)
        np.copyto(self.divisors, self._lengths, casting="same_kind")
        np.copyto(self.divisors, 1, where=self.empty)

    def together(self, at: int, most: int) -> int:
        """How many of the slices, from this one on, lie within ``most`` rows from its start."""
        near = slice(at, at + most // 2)
        begin, fits = int(self.first[at]), self._flags[near]
        np.greater_equal(self.first[near], begin, out=fits)
        np.less_equal(self.last[near], begin + most, out=fits, where=fits)
        return int(fits.size if fits.all() else fits.argmin())


def _reduce_together(function: Any, block: _Block, first: Array, last: Array, y: Array) -> None:
    limits, reduced = block.limits[: 2 * len(y)], block.reduced[: 2 * len(y)]
    np.subtract(first, first[0], out=limits[::2], casting="same_kind")
    np.subtract(last, first[0], out=limits[1::2], casting="same_kind")
    function.reduceat(block.pick(int(first[0]), int(last.max())), limits, axis=0, out=reduced)
    np.copyto(y, reduced[::2])


def _reduce_long(function: Any, block: _Block, first: int, last: int, y: Array) -> None:
    part = block.reduced[:1]
    for start in range(first, last, block.most):
        rows = block.pick(start, min(start + block.most, last))[:-1]
        function.reduce(rows, axis=0, out=y if start == first else part, keepdims=True)
        if start != first:
            function(y, part, out=y)
