"""What is known about blobs whose shapes depend on sizes that a model leaves open.

Shapes are inferred for several choices of the open sizes at once; what all choices agree on counts as known. A choice
that an operator refuses says nothing about the operator's outputs.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Hashable, List, Optional, Sequence, Tuple

import numpy as np

from optimize.rewriting.shapes import FIRST, OTHER, STEP
from runtime_arm.errors import ArmnetError
from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.schema import DataDependent
from runtime_arm.registry.shape_inference import infer_operator
from runtime_arm.registry.specs import TensorSpec

Dims = Tuple[Optional[int], ...]  # None: not known before running
Known = Tuple[Optional["np.dtype[Any]"], Optional[Dims]]
Choices = List[Optional[TensorSpec]]

# The choices: an open size is FIRST for axis 0 and OTHER + STEP * axis for other axes, or a function of that.
CHOICES: Sequence[Callable[[int], int]] = (
    lambda size: size,
    lambda size: 2 * size + 1,
    lambda size: 2 * size,
    lambda size: size // 16 | 1,
    lambda size: 1,
    lambda size: 0,
    lambda size: 0 if size == FIRST else size,
)
LONGEST = 1 << 16  # bytes of a blob whose content is kept
LEAST = 2  # sizes of an axis after the first, among the choices that know a shape


class OpenShapes:
    """The specs of a net's blobs for each choice, as far as these differ or are unknown."""

    def __init__(self) -> None:
        self._sizes: Dict[Hashable, int] = {}
        self._specs: Dict[str, Choices] = {}

    def input(self, name: str, dtype: np.dtype[Any], dims: Dims, names: Sequence[Optional[str]]) -> None:
        """Declare an input with open sizes; those of equal names are equal."""
        keys: List[Hashable] = []
        for axis, size in enumerate(dims):
            key: Hashable = (names[axis] if axis < len(names) else None) or (name, axis)
            self._sizes.setdefault(key, OTHER + STEP * axis if axis else FIRST)
            keys.append(key if size is None else size)
        self._specs[name] = [
            TensorSpec([size if isinstance(size, int) else choice(self._sizes[size]) for size in keys], dtype)
            for choice in CHOICES
        ]

    @property
    def used(self) -> bool:
        """Whether any input has open sizes."""
        return bool(self._specs)

    def forget(self, name: str) -> None:
        """Forget everything about a blob."""
        self._specs.pop(name, None)

    def of(self, name: str) -> Choices:
        """The blob's spec for each choice, None where it is not known."""
        return self._specs.get(name) or [None] * len(CHOICES)

    def add(self, op: OperatorDef, inputs: Sequence[Choices]) -> None:
        """Infer an operator's outputs from its inputs, each given by its specs for all choices; [] for one left out."""
        for at in range(len(CHOICES)):
            given = [each[at] if each else None for each in inputs]
            if any(each and spec is None for each, spec in zip(inputs, given)):
                continue
            try:
                found = infer_operator(op, given)[1]
            except (ArmnetError, DataDependent):
                continue
            for name, spec in zip(op.output, found):
                if name:
                    kept = spec if spec.value is None or spec.nbytes <= LONGEST else TensorSpec(spec.shape, spec.dtype)
                    self._specs.setdefault(name, [None] * len(CHOICES))[at] = kept

    def known(self, name: str) -> Known:
        """The data type and the sizes on which the choices agree; None for what they leave open."""
        found = [(choice(OTHER), spec) for choice, spec in zip(CHOICES, self.of(name)) if spec is not None]
        specs = [spec for _, spec in found]
        dtypes, ranks = {spec.dtype for spec in specs}, {len(spec.shape) for spec in specs}
        dtype = next(iter(dtypes)) if len(dtypes) == 1 else None
        if len({size for size, _ in found}) < LEAST or len(ranks) != 1:
            return dtype, None
        sizes = zip(*(spec.shape for spec in specs))
        return dtype, tuple(each[0] if len(set(each)) == 1 else None for each in sizes)
