"""Inputs drawn at random, to measure on."""

from __future__ import annotations

from typing import Dict, Mapping

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.registry.specs import TensorSpec

LARGEST_INTEGER = 100  # integers may be indices into tables


def drawn(specs: Mapping[str, TensorSpec], seed: int = 0) -> Dict[str, Array]:
    """Arrays of these specs: floats from the standard normal distribution, integers from 0 on, and booleans."""
    rng = np.random.default_rng(seed)
    return {name: _drawn(spec, rng) for name, spec in specs.items()}


def _drawn(spec: TensorSpec, rng: np.random.Generator) -> Array:
    if spec.dtype.kind == "f":
        return np.asarray(rng.standard_normal(spec.shape), spec.dtype)
    return np.asarray(rng.integers(0, 2 if spec.dtype.kind == "b" else LARGEST_INTEGER, spec.shape), spec.dtype)
