"""Nets in which every blob is written once, which passes require."""

from __future__ import annotations

from collections import Counter
from typing import Dict, Set

from runtime_arm.netdef import NetDef, OperatorDef


def names_in(net: NetDef) -> Set[str]:
    """Every name of a blob that the net or a net inside it mentions."""
    names = {*net.external_input, *net.external_output}
    return names.union(*map(names_mentioned, net.op))


def names_mentioned(op: OperatorDef) -> Set[str]:
    """Every name of a blob that the operator or a net inside it mentions."""
    return {*op.input, *op.output, *op.control_input}.union(*map(names_in, op.subnets()))


def names_read(net: NetDef) -> Set[str]:
    """Every blob that anything in the net or in a net inside it reads; its outputs are read, too."""
    inside = (names_read(sub) for op in net.op for sub in op.subnets())
    return {*net.external_output}.union(*(op.reads() for op in net.op), *inside)


def names_held(op: OperatorDef) -> Set[str]:
    """The blobs that must keep their names for an operator: those that its sub-nets mention, and its control inputs.

    An operator with sub-nets binds its own inputs and outputs by name, too.
    """
    held = set(op.control_input).union(*map(names_in, op.subnets()))
    return {*held, *op.input, *op.output} if any(True for _ in op.subnets()) else held


def single_assignment(net: NetDef) -> NetDef:
    """The net with new names for all but the last write of each blob that is written more than once.

    External inputs, and blobs that an operator holds (see ``names_held``), keep their name at every write.
    """
    writes = Counter(name for op in net.op for name in op.output if name)
    fixed = set(net.external_input).union(*map(names_held, net.op))
    left = {name: count for name, count in writes.items() if count > 1 and name not in fixed}
    if not left:
        return net
    taken, ops = names_in(net), []
    current: Dict[str, str] = {}
    for op in net.op:
        inputs = tuple(current.get(name, name) for name in op.input)
        for name in op.output:
            if name in left:
                left[name] -= 1
                current[name] = numbered(name, taken) if left[name] else name
        ops.append(op.replace(input=inputs, output=tuple(current.get(name, name) for name in op.output)))
    return net.replace(op=tuple(ops))


def numbered(name: str, taken: Set[str]) -> str:
    """The name with the first number that makes it new. It is added to ``taken``."""
    number = 1
    while f"{name}_{number}" in taken:
        number += 1
    taken.add(f"{name}_{number}")
    return f"{name}_{number}"
