"""Patterns: what a rule looks for, as a small graph of operators.

    multiply = commutative({"Mul", "onnx.Mul"}, "product")
    sigmoid = operator({"Sigmoid", "onnx.Sigmoid"}, "gate")
    PASS = Pass("compose_swish", (rule(multiply("x", sigmoid("x")), to=_swish),))

finds every product of a blob with its own sigmoid and calls ``_swish(program, x=..., gate=..., product=...)``, which
returns a ``Rewrite`` or raises ``Refusal``. Blobs are captured as names, operators as ``OperatorDef``. The operands are
listed in parentheses, from the first on:

    "x"            any blob, captured as ``x``; the same name is the same blob in all of the pattern
    ANY            any blob, or none
    weight("w")    a weight, captured as ``w``; weight() is not captured
    6, 1 / 6       a weight of one element, which is this number
    sigmoid("x")   the first output of such an operator
    (one, other)   whatever one of these operands matches

Further inputs, such as biases, may be anything. The outermost operator is the root of the pattern; the others are inner
operators, which vanish with their outputs. The driver checks that nothing else needs those (see ``rewrite.py``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any, Callable, Container, Iterator, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from optimize.rewriting.program import Match, Program, Rewrite
from optimize.rewriting.rewrite import Rule
from runtime_arm.netdef import OperatorDef

Test = Callable[[Program, OperatorDef], bool]


@dataclass(frozen=True)
class Weight:
    """An operand that is a weight. Made by ``weight``."""

    name: str


@dataclass(frozen=True)
class Operator:
    """An operator of a pattern: of one of these types, and with these operands. Made by the functions below."""

    types: Container[str]
    name: str
    where: Optional[Test]
    commutes: bool = False
    stays: bool = False
    operands: Tuple[Operand, ...] = ()

    def __call__(self, *operands: Operand) -> Operator:
        """The same operator with these operands."""
        return replace(self, operands=operands)


Operand = Union[str, float, Weight, Operator, Tuple[Operator, ...]]
ANY: Operand = ""


def operator(types: Container[str], name: str = "", where: Optional[Test] = None, stays: bool = False) -> Operator:
    """An operator of one of these types (``full_type``: with its domain unless that is Caffe2's).

    name: what it is captured as. where: what else must hold. stays: the operator is not replaced; others may read it.
    """
    return Operator(types, name, where, stays=stays)


def commutative(types: Container[str], name: str = "", where: Optional[Test] = None) -> Operator:
    """An operator of exactly the operands that are listed, in any order.

    If several orders match, the one that starts with the operand written last comes first.
    """
    return Operator(types, name, where, commutes=True)


def weight(name: str = "") -> Weight:
    """A weight. name: what it is captured as."""
    return Weight(name)


def rule(*patterns: Operator, to: Callable[..., Rewrite]) -> Rule:
    """The rule that replaces what matches one of the patterns by what ``to(program, **captured)`` returns."""

    def find(program: Program, start: int) -> Iterator[Match]:
        for place in range(start, len(program.net.op)):
            for pattern in patterns:
                for found in _operator(program, pattern, place, _Found()):
                    match = found.match(program, place)
                    if match is not None:
                        yield match

    return Rule(find, lambda program, match: to(program, **match.captured))


class _Found(NamedTuple):
    """What a part of a pattern matched: the places of the operators to replace, and what is captured."""

    places: Tuple[int, ...] = ()
    captured: Mapping[str, Any] = {}

    def capture(self, name: str, what: Any) -> _Found:
        return self._replace(captured={**self.captured, name: what}) if name else self

    def match(self, program: Program, root: int) -> Optional[Match]:
        """The match of the whole pattern; None if a matched operator reads an inner blob where the pattern has none."""
        places = tuple(sorted(self.places))
        inner = [program.net.op[place].output for place in places if place != root]
        reads = [name for place in places for name in program.net.op[place].input]
        for first, *others in inner:
            if reads.count(first) > 1 or any(name in reads for name in others if name):
                return None
        return Match(places, tuple(name for names in inner for name in names if name), self.captured)


def _operator(program: Program, pattern: Operator, place: int, found: _Found) -> Iterator[_Found]:
    op = program.net.op[place]
    if op.full_type not in pattern.types or (pattern.where is not None and not pattern.where(program, op)):
        return
    if not pattern.stays:
        found = found._replace(places=(*found.places, place))
    for inputs in _orders(program, pattern, op):
        yield from _operands(program, pattern.operands, inputs, place, found.capture(pattern.name, op))


def _orders(program: Program, pattern: Operator, op: OperatorDef) -> Iterator[Sequence[str]]:
    """The inputs of the operator, in every order in which they may match the operands."""
    count = len(pattern.operands)
    if not pattern.commutes:
        yield (*op.input, *[""] * (count - len(op.input)))
    elif len(op.input) == count:
        written_last_first = sorted(op.input, key=lambda name: _written_at(program, name), reverse=True)
        yield from dict.fromkeys(permutations(written_last_first))


def _written_at(program: Program, name: str) -> int:
    place = program.writer(name)
    return -1 if place is None else place


def _operands(
    program: Program, operands: Sequence[Operand], inputs: Sequence[str], reader: int, found: _Found
) -> Iterator[_Found]:
    if not operands:
        yield found
        return
    for one in _operand(program, operands[0], inputs[0], reader, found):
        yield from _operands(program, operands[1:], inputs[1:], reader, one)


def _operand(program: Program, operand: Operand, name: str, reader: int, found: _Found) -> Iterator[_Found]:
    if operand == ANY:
        yield found
    elif not name:
        return
    elif isinstance(operand, tuple):
        for one in operand:
            yield from _operand(program, one, name, reader, found)
    elif isinstance(operand, Operator):
        writer = program.writer(name)
        if writer is not None and writer < reader and program.net.op[writer].output[0] == name:
            yield from _operator(program, operand, writer, found)
    elif isinstance(operand, Weight):
        if name in program.weights:
            yield found.capture(operand.name, name)
    elif isinstance(operand, str):
        if found.captured.get(operand, name) == name:
            yield found.capture(operand, name)
    elif _is_number(program, name, operand):
        yield found


def _is_number(program: Program, name: str, number: float) -> bool:
    """Whether the blob is a weight of one element that equals this number, up to rounding to float32."""
    value = program.value(name)
    if value is None or value.size != 1 or value.dtype.kind not in "fiu":
        return False
    return math.isclose(value.item(), number, rel_tol=float(np.finfo(np.float32).eps))
