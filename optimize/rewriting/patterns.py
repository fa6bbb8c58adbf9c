"""What rules look for: single operators, and an operator that reads what another writes."""

from __future__ import annotations

from typing import AbstractSet, Callable, Iterator, Optional

from optimize.rewriting.program import Match, Program
from runtime_arm.netdef import OperatorDef

Find = Callable[[Program, int], Iterator[Match]]
Test = Callable[[Program, OperatorDef, OperatorDef], bool]  # (program, writer, reader)


def each(types: AbstractSet[str]) -> Find:
    """Every operator of these types (``full_type``: with its domain unless that is Caffe2's)."""

    def find(program: Program, start: int) -> Iterator[Match]:
        for place in range(start, len(program.net.op)):
            if program.net.op[place].full_type in types:
                yield Match((place,))

    return find


def follows(first: AbstractSet[str], second: AbstractSet[str], test: Optional[Test] = None) -> Find:
    """An operator of the types ``second`` that reads the first output of one of the types ``first``, which vanishes.

    Where it reads several such outputs the one that was written last comes first. Other outputs of the first operator
    vanish too. ``test``: what else the pattern asks for.
    """

    def find(program: Program, start: int) -> Iterator[Match]:
        for place in range(start, len(program.net.op)):
            reader = program.net.op[place]
            if reader.full_type not in second:
                continue
            writers = {program.writer(name) for name in reader.input if name}
            for writer in sorted((at for at in writers if at is not None and at < place), reverse=True):
                op = program.net.op[writer]
                fits = op.full_type in first and op.output[0] in reader.input
                if fits and (test is None or test(program, op, reader)):
                    yield Match((writer, place), tuple(name for name in op.output if name))

    return find
