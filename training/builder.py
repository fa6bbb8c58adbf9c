"""Appends operators to those of a net, and collects the blobs that they start from."""

from __future__ import annotations

from typing import Dict, Iterable, List, Sequence

import numpy as np

from runtime_arm.netdef import Argument, Array, NetDef, OperatorDef
from runtime_arm.netdef.values import ArgumentValue


class NetBuilder:
    """``ops``: the operators so far. ``blobs``: constants and state that the new operators read, by name.

    A given name that is taken gets a number.
    """

    def __init__(self, ops: Iterable[OperatorDef], taken: Iterable[str] = ()) -> None:
        self.ops: List[OperatorDef] = list(ops)
        self.blobs: Dict[str, Array] = {}
        self._taken = {name for op in self.ops for name in (*op.input, *op.output)} | set(taken)

    def free(self, name: str) -> str:
        """The name, with a number if it is taken; it is reserved from now on."""
        chosen, count = name, 0
        while chosen in self._taken:
            count += 1
            chosen = f"{name}_{count}"
        self._taken.add(chosen)
        return chosen

    def add(self, type: str, inputs: Sequence[str], output: str, **arguments: ArgumentValue) -> str:
        """Adds an operator with one new output, and returns that."""
        name = self.free(output)
        self.write(type, inputs, [name], **arguments)
        return name

    def write(self, type: str, inputs: Sequence[str], outputs: Sequence[str], **arguments: ArgumentValue) -> None:
        """Adds an operator that writes these blobs, which may exist already."""
        self._taken.update(outputs)
        args = tuple(Argument.of(name, value) for name, value in arguments.items())
        self.ops.append(OperatorDef(type, tuple(inputs), tuple(outputs), args))

    def blob(self, name: str, value: Array) -> str:
        """Adds a constant or a state, and returns its name."""
        chosen = self.free(name)
        self.blobs[chosen] = value
        return chosen

    def number(self, name: str, value: float) -> str:
        """A constant of one float32, shared by all callers with this name and value."""
        array = np.full(1, value, np.float32)
        known = self.blobs.get(name)
        return name if known is not None and np.array_equal(known, array) else self.blob(name, array)

    def replace_ops(self, net: NetDef) -> None:
        """Continues after the operators of ``net``, which begin with the operators so far."""
        self.ops = list(net.op)
        self._taken.update(name for op in self.ops for name in (*op.input, *op.output))
