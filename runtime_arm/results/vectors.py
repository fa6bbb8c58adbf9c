"""Embedding and Tensors: outputs that are numbers and nothing else."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.results.result import Result


class Embedding(Result):
    """A vector that represents the input: similar inputs have similar vectors. vector: (n,) float64."""

    kind = "embedding"

    def __init__(self, vector: Array):
        self.vector = np.asarray(vector, np.float64).reshape(-1)

    def similarity(self, other: Embedding) -> float:
        """The cosine of the angle between two vectors: 1 for the same direction, 0 for a right angle."""
        lengths = float(np.linalg.norm(self.vector) * np.linalg.norm(other.vector))
        return float(self.vector @ other.vector) / lengths if lengths else 0.0

    def to_dict(self) -> Dict[str, Any]:
        return {"kind": self.kind, "vector": self.vector.tolist()}

    def lines(self) -> List[str]:
        return [f"a vector of {self.vector.size} numbers, length {np.linalg.norm(self.vector):.6g}"]


class Tensors(Result):
    """Outputs by name, whose meaning is not known."""

    kind = "tensors"

    def __init__(self, arrays: Mapping[str, Array]):
        self.arrays = dict(arrays)

    def to_dict(self) -> Dict[str, Any]:
        return {"kind": self.kind, "tensors": {name: described(array) for name, array in self.arrays.items()}}

    def lines(self) -> List[str]:
        return [_line(name, described(array)) for name, array in self.arrays.items()]


def described(array: Array) -> Dict[str, Any]:
    """Shape, dtype, smallest, largest and mean number of an array; ``nan`` and ``inf`` count values that are not
    finite."""
    facts: Dict[str, Any] = {"shape": list(array.shape), "dtype": array.dtype.name}
    if array.size and array.dtype.kind in "fiub":
        real = array.astype(np.float64)
        finite = np.isfinite(real)
        if not finite.all():
            facts.update(nan=int(np.isnan(real).sum()), inf=int(np.isinf(real).sum()))
            real = real[finite]
        if real.size:
            facts.update(min=float(real.min()), max=float(real.max()), mean=float(real.mean()))
    return facts


def _line(name: str, facts: Mapping[str, Any]) -> str:
    shape = "x".join(map(str, facts["shape"])) or "scalar"
    parts = [f"{name}  {facts['dtype']} {shape}"]
    parts += [f"{key} {facts[key]:.6g}" for key in ("min", "max", "mean") if key in facts]
    parts += [f"{facts[key]} {what}" for key, what in (("nan", "NaN"), ("inf", "infinities")) if facts.get(key)]
    return "  ".join(parts)
