"""Moves the operators of a sub-net into the net around it."""

from __future__ import annotations

from typing import Dict, List, Mapping, Optional, Set

from optimize.rewriting.program import Program
from runtime_arm.netdef import Array, NetDef, OperatorDef
from runtime_arm.registry.randomness import is_random
from runtime_arm.registry.schema import lookup


def why_apart(net: NetDef, repeats: bool = False) -> Optional[str]:
    """Why the operators of the net cannot be moved into another net; None if they can.

    repeats: the net runs several times, and each run must do the same.
    """
    for op in net.op:
        schema = lookup(op)
        if schema.control or any(True for _ in op.subnets()):
            return "it holds nets of its own"
        if op.control_input or {*op.input} & {*op.output} - {""}:
            return "it depends on the order of operators"
        if repeats and is_random(op):
            return "it gives other results each time"
    return None


class Inlined:
    """Operators of inner nets, with names that are new in the program, and constants that they read."""

    def __init__(self, program: Program):
        self._program = program
        self._taken: Set[str] = set()
        self.operators: List[OperatorDef] = []
        self.weights: Dict[str, Array] = {}

    def fresh(self, stem: str) -> str:
        """A name that is new in the program and here."""
        name = self._program.fresh(stem)
        while name in self._taken:
            stem += "_"
            name = self._program.fresh(stem)
        self._taken.add(name)
        return name

    def constant(self, stem: str, value: Array) -> str:
        """The name of a new constant."""
        name = self.fresh(stem)
        self.weights[name] = value
        return name

    def add(self, net: NetDef, given: Mapping[str, str], suffix: str) -> Dict[str, str]:
        """Add the operators of a net. Returns the name here of each blob of the net. given: the names of its inputs.

        Any other blob that it reads is the blob of that name in the net around it.
        """
        names = dict(given)
        for op in net.op:
            inputs = tuple(names.get(name, name) for name in op.input)
            names.update((name, self.fresh(f"{name}{suffix}")) for name in op.output if name)
            self.operators.append(op.replace(input=inputs, output=tuple(names.get(name, name) for name in op.output)))
        return names
