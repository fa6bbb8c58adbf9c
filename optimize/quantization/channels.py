"""Which channels of a net's blobs must be scaled alike.

A channel may be divided by a positive number where a layer writes it if whatever reads it multiplies it again, or
passes it on in proportion: ReLU, pools, sums, joins. Channels that are in proportion to each other form a class. A
class with a member that meets anything else is fixed.
"""

from __future__ import annotations

from typing import Dict, List, Optional

import numpy as np

from optimize.quantization.filters import Filters, filters_of
from optimize.rewriting.program import Program
from runtime_arm.netdef import Array, OperatorDef

_PROPORTIONAL = {
    "Relu",
    "LeakyRelu",
    "PRelu",
    "MaxPool",
    "AveragePool",
    "ResizeNearest",
    "UpsampleNearest",
    "UpsampleBilinear",
}  # channel by channel to their first input
_SUMS = {"Add", "Sum", "Sub", "onnx.Add", "onnx.Sum", "onnx.Sub"}
_PRODUCTS = {"Mul", "onnx.Mul"}
_FLATTENED = {"Flatten", "onnx.Flatten", "Reshape", "onnx.Reshape"}


class Channels:
    """The classes of a net's channels, which are axis 1 of pictures and of rows.

    layers: those that can divide and multiply. limits: operators that cut off what is above a number, with the number.
    """

    def __init__(self, program: Program):
        self._program = program
        self._parents: List[int] = []
        self._of: Dict[str, Optional[Array]] = {}
        self._fixed: List[int] = []
        self.layers: List[Filters] = []
        self.limits: List[OperatorDef] = []
        for name in (*program.net.external_input, *program.net.external_output):
            self._fix(name)
        for op in program.net.op:
            if not self._understood(op):
                for name in (*op.reads(), *op.output):
                    self._fix(name)

    def classes(self, name: str) -> Array:
        """The class of each channel of a blob, int (C); empty if its channels are not known."""
        ids = self._ids(name)
        return np.array([] if ids is None else [self._root(int(one)) for one in ids], np.intp)

    @property
    def fixed(self) -> Array:
        """Whether each class is fixed, bool. Classes count from 0 to the length."""
        result = np.zeros(len(self._parents), bool)
        result[[self._root(one) for one in self._fixed]] = True
        return result

    def _ids(self, name: str) -> Optional[Array]:
        if name not in self._of:
            dims, self._of[name] = self._program.dims(name), None
            if name and name not in self._program.weights and dims is not None and len(dims) in (2, 4) and dims[1]:
                first = len(self._parents)
                self._parents += range(first, first + dims[1])
                self._of[name] = np.arange(first, first + dims[1])
        return self._of[name]

    def _root(self, one: int) -> int:
        while self._parents[one] != one:
            self._parents[one] = one = self._parents[self._parents[one]]
        return one

    def _fix(self, name: str) -> None:
        ids = self._ids(name)
        if ids is not None:
            self._fixed += [int(one) for one in ids]

    def _unite(self, a: Optional[Array], b: Optional[Array]) -> bool:
        """Puts channels into the same classes, one by one; False if there are not as many of both."""
        if a is None or b is None or len(a) != len(b):
            return False
        for one, other in zip(a, b):
            self._parents[self._root(int(one))] = self._root(int(other))
        return True

    def _same(self, a: str, b: str) -> bool:
        return self._unite(self._ids(a), self._ids(b))

    def _understood(self, op: OperatorDef) -> bool:
        """Whether it is known how the operator's channels depend on each other."""
        program = self._program
        if any(name and program.is_rewritten(name) for name in (*op.reads(), *op.output)) or any(op.subnets()):
            return False
        if op.full_type in _PROPORTIONAL:
            return self._same(op.input[0], op.output[0])
        if op.full_type == "Clip" and op.get_float("min", -1.0) == 0.0 and op.has("max"):
            self.limits.append(op)
            return self._same(op.input[0], op.output[0])
        if op.full_type in _SUMS:
            alike = len({program.dims(name) for name in (*op.input, op.output[0])}) == 1
            return alike and all(self._same(name, op.output[0]) for name in op.input)
        if op.full_type in _PRODUCTS and program.dims(op.input[0]) == program.dims(op.output[0]):
            self._fix(op.input[1])
            return self._same(op.input[0], op.output[0])
        if op.full_type == "Concat" and op.get_int("axis", 1) == 1 and not op.get_bool("add_axis"):
            parts = [self._ids(name) for name in op.input]
            known = [part for part in parts if part is not None]
            return len(known) == len(parts) and self._unite(np.concatenate(known), self._ids(op.output[0]))
        if op.full_type in _FLATTENED:
            return self._flattened(op)
        return self._scales(op)

    def _flattened(self, op: OperatorDef) -> bool:
        """Pictures (N, C, H, W) that become rows (N, C H W)."""
        before, after = self._program.dims(op.input[0]), self._program.dims(op.output[0])
        ids = self._ids(op.input[0])
        if before is None or after is None or ids is None or (len(before), len(after)) != (4, 2):
            return False
        if not before[2] or not before[3] or after[1] != len(ids) * before[2] * before[3]:
            return False
        return self._unite(np.repeat(ids, before[2] * before[3]), self._ids(op.output[0]))

    def _scales(self, op: OperatorDef) -> bool:
        """Whether it is a layer whose weights can be divided and multiplied."""
        program, filters = self._program, filters_of(self._program, op)
        if filters is None or len(op.input) > 3:
            return False
        for name in (filters.weight, filters.bias):
            if name is not None and (len(program.readers(name)) > 1 or program.why_named(name)):
                return False
        groups, count, channels, _ = filters.shape
        x, y = self._ids(op.input[0]), self._ids(op.output[0])
        bias = None if filters.bias is None else program.value(filters.bias)
        if x is None or y is None or len(x) != groups * channels or len(y) != groups * count:
            return False
        if bias is not None and bias.shape != (len(y),):
            return False
        self.layers.append(filters)
        return True
