"""Inputs for a pair about which nothing is known but what it declares."""

from __future__ import annotations

from typing import Dict, Mapping, Optional, Sequence

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.pair import Pair


def random_inputs(pair: Pair, seed: int = 0, shapes: Optional[Mapping[str, Sequence[int]]] = None) -> Dict[str, Array]:
    """Inputs drawn at random for what the pair declares; open dimensions are 1 unless ``shapes`` says otherwise."""
    rng = np.random.default_rng(seed)
    inputs: Dict[str, Array] = {}
    for info in pair.inputs:
        like = info.example((shapes or {}).get(info.name))
        if like.dtype.kind == "f":
            inputs[info.name] = np.asarray(rng.standard_normal(like.shape), like.dtype)
        else:
            inputs[info.name] = np.asarray(
                rng.integers(0, 2 if like.dtype.kind == "b" else 100, like.shape), like.dtype
            )
    return inputs
