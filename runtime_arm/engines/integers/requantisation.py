"""The end of a block of integer sums: offset, requantisation, saturation, in place and in as few passes as possible.

Sums (pixels, M) in float32 are rounded by a formula that ``float32_rounding.py`` has proven; the few filters without a
proven formula are gathered first, a row for each, since long loops are fast, rounded by the rule itself and put in
their places last. If there is no formula, all are rounded by the rule.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, List, NamedTuple, Optional, Sequence

import numpy as np

from runtime_arm.engines.integers.arithmetic import EXACT
from runtime_arm.engines.integers.float32_rounding import Float32Rounding, Rule, Sums, prove
from runtime_arm.netdef import Array
from runtime_arm.operators.common.formulas import CLIPS_FAST
from runtime_arm.operators.quantised.rounding import requantizer
from runtime_arm.registry.steps import Step, clip, copy, shaped

_MANY = 3  # blocks for which operands are spread
_SIGN = np.array(1 << 31, np.uint32)  # of a float32


Operand = Callable[[Array], Array]  # a block of sums -> what they are added to or multiplied by


class Ending(NamedTuple):
    """How sums become integers, found once a layer. sums: what they can be. formula: None if there is none."""

    rule: Rule
    sums: Sums
    formula: Optional[Float32Rounding]

    @classmethod
    def of(cls, rule: Rule, sums: Sums, count: int) -> Ending:
        """count: the sums of each filter in a run, 0 if they are not float32."""
        return cls(rule, sums, prove(rule, sums, count) if count else None)


class _ByRule:
    """The steps that round sums by the rule itself. spread: how numbers, one for each filter, meet the sums."""

    def __init__(self, rule: Rule, sums: Sums, spread: Operand):
        multiplier = rule.multiplier
        if multiplier.size > 1:
            multiplier = spread(multiplier)
        self._offset = spread(sums.offset).astype(np.float64)
        self._reach = int(sums.with_offset.reach.max(initial=0))
        self._requantize = requantizer(rule.name, multiplier, rule.zero_point, rule.low, rule.high, self._reach)

    def steps(self, sums: Array, out: Array, work: Sequence[Array]) -> List[Step]:
        """work: two buffers of float64, at least as large as the sums."""
        if sums.dtype == np.float32 and self._reach >= EXACT:
            wide = shaped(work[1], *sums.shape)
            adding, sums = partial(np.add, sums, self._offset, wide), wide
        else:
            adding = partial(np.add, sums, self._offset.astype(sums.dtype), sums)
        buffers = [shaped(of.view(dtype), *sums.shape) for of, dtype in zip(work, self._requantize.work_dtypes)]
        return [adding, partial(self._requantize, sums, out, buffers)]


class Requantisation:
    """The steps that end blocks of sums, as rows of ``run`` pixels times M filters.

    work: two buffers of float64, each for a block of the largest size, ``most`` sums. blocks: their number; if there
    are several, operands are spread over a block once: NumPy takes half the time for operands of one shape.
    """

    def __init__(self, ending: Ending, run: int, work: Sequence[Array], most: int, blocks: int):
        self._rule, sums, formula = ending
        self._run, self._work, self._formula = run, work, formula
        self._filters = len(sums.offset)
        self._spread: List[Step] = []
        if formula is None:
            self._by_rule = _ByRule(self._rule, sums, lambda values: np.tile(values, run))
            return
        one, other = (buffer.view(np.float32) for buffer in work)
        many = blocks >= _MANY
        self._add = self._operand(formula.add, one[:most] if many else None)
        self._scale = self._operand(formula.scale, other[:most] if many else None)
        self._signs, self._spare = one[most:], work[1][-(-most // 2) : most].view(np.uint8)
        if len(formula.rest):
            self._by_rule = _ByRule(self._rule, sums, self._of_rest)
        if formula.away is not None:
            self._away = self._operand(formula.away.view(np.uint32))

    def _operand(self, values: Any, buffer: Optional[Array] = None) -> Operand:
        """A number, or one for each filter, as an operand of blocks of sums; spread in the buffer, if there is one."""
        if values.ndim == 0:
            return lambda sums: np.asarray(values)
        row = np.tile(values, self._run)
        if buffer is None:
            return lambda sums: row
        spread = buffer
        self._spread.append(copy(spread.reshape(-1, row.size), row))
        return lambda sums: shaped(spread, *sums.shape)

    def first(self) -> List[Step]:
        """The steps before the first block of a run."""
        return self._spread

    def steps(self, sums: Array, out: Array) -> List[Step]:
        """The steps for a block: sums, float32 if there is a formula, and its integers, of one shape (..., run * M)."""
        if self._formula is None:
            return self._by_rule.steps(sums, out, self._work)
        rest = self._formula.rest
        if not len(rest):
            return self._by_formula(self._formula, sums, out)
        sums_, out_ = sums.reshape(-1, self._filters), out.reshape(-1, self._filters)
        size = len(sums_) * len(rest)
        work = self._spare[: 16 * size].view(np.float64)
        few, found = self._spare[16 * size : 20 * size].view(np.float32), self._spare[20 * size : 21 * size]
        rows = [slice(begin, begin + len(sums_)) for begin in range(0, size, len(sums_))]
        shape = (size,) if len(rest) == 1 else (len(rest), -1)
        found = found.view(out.dtype)
        return [
            *[copy(few[row], sums_[:, place]) for row, place in zip(rows, rest)],
            *self._by_rule.steps(few.reshape(shape), found.reshape(shape), [work[:size], work[size:]]),
            *self._by_formula(self._formula, sums, out),
            *[copy(out_[:, place], found[row]) for row, place in zip(rows, rest)],
        ]

    def _of_rest(self, values: Array) -> Array:
        """Numbers, one for each filter, as they meet rows of sums; NumPy takes less time for one than for a column."""
        assert self._formula is not None
        chosen: Array = values[self._formula.rest]
        return chosen[:, None] if len(chosen) > 1 else chosen.reshape(())

    def _by_formula(self, formula: Float32Rounding, sums: Array, out: Array) -> List[Step]:
        steps: List[Step] = [partial(np.add, sums, self._add(sums), sums)]
        _, _, zero_point, low, high = self._rule
        if formula.away is not None:
            away = shaped(self._signs, *sums.shape)
            bits = away.view(np.uint32)
            steps += [
                partial(np.bitwise_and, sums.view(np.uint32), _SIGN, bits),
                partial(np.bitwise_or, bits, self._away(sums), bits),
                partial(np.add, sums, away, sums),
            ]
        steps.append(partial(np.multiply, sums, self._scale(sums), sums))
        if formula.away is not None:
            steps += [
                partial(np.trunc, sums, sums),
                partial(np.add, sums, np.array(zero_point - low, np.float32), sums),
            ]
        counted = out.view(np.uint8)  # from the lowest output on
        steps += [*_clip(sums, 0, high - low), partial(np.copyto, counted, sums, casting="unsafe")]
        return steps if low == 0 else [*steps, partial(np.add, counted, np.array(low % 256, np.uint8), counted)]


def _clip(x: Array, low: int, high: int) -> List[Step]:
    """Limits an array in place."""
    if CLIPS_FAST:
        return [clip(x, low, high, x)]
    least, most = np.array(low, x.dtype), np.array(high, x.dtype)
    return [partial(np.maximum, x, least, x), partial(np.minimum, x, most, x)]
