"""Random inputs for measurements."""

from __future__ import annotations

from typing import Dict, Mapping

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.registry.specs import TensorSpec

LARGEST_INTEGER = 100  # integers may be indices into tables


def drawn(specs: Mapping[str, TensorSpec], seed: int = 0, largest: int = LARGEST_INTEGER) -> Dict[str, Array]:
    """Random arrays of these specs.

    Floats come from the standard normal distribution; integers are at least 0 and less than ``largest``; booleans are
    false or true; strings are the digits of such integers.
    """
    rng = np.random.default_rng(seed)
    return {name: _drawn(spec, rng, largest) for name, spec in specs.items()}


def _drawn(spec: TensorSpec, rng: np.random.Generator, largest: int) -> Array:
    if spec.dtype.kind in "fc":
        return np.asarray(rng.standard_normal(spec.shape), spec.dtype)
    integers = rng.integers(0, 2 if spec.dtype.kind == "b" else largest, spec.shape)
    return np.asarray(integers, spec.dtype) if spec.dtype != object else np.asarray(integers).astype(str).astype(object)
