"""The activation of a convolution whose results stay in the cache, stored channel by channel."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any, Iterator, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.engines.conv.epilogue import activation_formula, gate_of, limits_of
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.formulas import CLIPS_FAST
from runtime_arm.operators.fused.fused import MAX, OPERANDS, activation_of, formula_of
from runtime_arm.registry.blocks import BLOCK
from runtime_arm.registry.steps import Step, clip, copy


def refusal(op: OperatorDef, keeps_zero: bool = False) -> bool:
    """Whether the activation of an operator cannot run so, since it takes a slope or has no formula for float32, or
    since it should keep zero and does not."""
    activation = activation_of(op)
    if activation is None:
        return False
    if activation.full_type == MAX:
        return keeps_zero
    formula = formula_of(activation)
    if activation.full_type in OPERANDS or formula is None or "float32" not in formula.dtypes:
        return True
    zero = np.zeros(1, np.float32)
    temporaries = [np.empty_like(zero) for _ in range(formula.scratch)]
    formula.bind(activation)(zero, zero, *temporaries)
    return keeps_zero and bool(zero[0] != 0)


class InnerActivation:
    """The activation of an operator.

    factor: weights and bias are multiplied with it beforehand. temporaries: as many blocks as the activation takes.
    floor: the operand of onnx.Max, one number for each channel.
    """

    def __init__(self, op: OperatorDef, temporaries: Sequence[Array], floor: Optional[Array] = None):
        self._limits: Sequence[Tuple[Any, Any]] = limits_of(op)
        if floor is not None:
            self._limits = [(np.maximum, floor[:, None])]
        self._clips = CLIPS_FAST and floor is None
        self._gate = None if self._limits or activation_of(op) is None else gate_of(op)
        self._formula = None if self._limits or self._gate is not None else activation_formula(op)
        self._temporaries = temporaries
        self.factor = np.float32(1 if self._gate is None else self._gate.factor)

    def steps(self, source: Array, target: Optional[Array] = None) -> Iterator[Step]:
        """Of the source, (planes, channels, numbers), whose channels follow each other, into the target, which has as
        many numbers or fewer of each channel; by default in place.

        Where channels do not follow each other NumPy takes longer for one pass into the target than for one in place
        and a copy.
        """
        seen = source if target is None else source[..., : target.shape[2]]
        to = seen if target is None else target
        if not (_follow(seen) and _follow(to)):
            yield from self.steps(source)
            yield copy(to, seen)
        elif self._limits:
            yield from self._limit(seen, to)
        elif self._formula is not None or self._gate is not None:
            channels, numbers = source.shape[1:]
            high = max(1, BLOCK // numbers)
            wide = range(0, numbers, BLOCK if high == 1 else numbers)
            for plane, begin, left in itertools.product(range(len(source)), range(0, channels, high), wide):
                part = plane, slice(begin, begin + high), slice(left, left + BLOCK)
                yield from self._block(seen[part].reshape(-1), to[part].reshape(-1))
        elif target is not None:
            yield copy(to, seen)

    def _limit(self, source: Array, out: Array) -> Iterator[Step]:
        if self._clips:  # also than one comparison with a number
            given = dict(self._limits)
            low, high = given.get(np.maximum, -np.inf), given.get(np.minimum, np.inf)
            lines = len(out), -1
            yield clip(source.reshape(lines), low, high, out.reshape(lines))
            return
        from runtime_arm.registry.in_place import updates

        for bound, value in self._limits:
            number = np.array(value, source.dtype)
            yield from updates(bound, out, number) if source is out else [partial(bound, source, number, out=out)]
            source = out

    def _block(self, x: Array, y: Array) -> Iterator[Step]:
        buffers = [buffer[: x.size] for buffer in self._temporaries]
        if self._gate is not None:
            yield from self._gate.steps(x, buffers[0])
            yield partial(np.multiply, x, buffers[0], out=y)
        else:
            assert self._formula is not None
            yield partial(self._formula, x, y, *buffers)


def _follow(channels: Array) -> bool:
    """Whether the channels of (planes, channels, numbers) follow each other in memory."""
    return bool(channels.strides[1] == channels.shape[2] * channels.itemsize)
