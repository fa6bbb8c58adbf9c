"""Random inputs for a pair, from what it declares about them."""

from __future__ import annotations

from typing import Dict, Mapping, Optional, Sequence

from optimize.engines.sample_inputs import drawn
from runtime_arm.netdef import Array
from runtime_arm.pair.pair import Pair
from runtime_arm.registry.specs import TensorSpec


def random_inputs(pair: Pair, seed: int = 0, shapes: Optional[Mapping[str, Sequence[int]]] = None) -> Dict[str, Array]:
    """Random inputs of the declared shapes and dtypes; open dimensions are 1 unless ``shapes`` gives the shape."""
    examples = {info.name: info.example((shapes or {}).get(info.name)) for info in pair.inputs}
    return drawn({name: TensorSpec(example.shape, example.dtype) for name, example in examples.items()}, seed)
