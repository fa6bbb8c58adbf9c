"""Random inputs for a pair, from what it declares about them."""

from __future__ import annotations

from typing import Dict, Mapping, Optional, Sequence

from optimize.engines.sample_inputs import drawn_for
from runtime_arm.netdef import Array
from runtime_arm.pair.pair import Pair
from runtime_arm.registry.specs import TensorSpec


def random_inputs(pair: Pair, seed: int = 0, shapes: Optional[Mapping[str, Sequence[int]]] = None) -> Dict[str, Array]:
    """Random inputs of the declared shapes and dtypes that the pair takes; open dimensions are 1 unless ``shapes``
    gives the shape.

    If there are integers, which may be indices into tables of any size, the pair runs to find out what it takes.
    """
    return drawn_for(pair, declared_specs(pair, shapes), seed)


def declared_specs(pair: Pair, shapes: Optional[Mapping[str, Sequence[int]]] = None) -> Dict[str, TensorSpec]:
    """The specs of the inputs as declared; open dimensions are 1 unless ``shapes`` gives the shape."""
    examples = {info.name: info.example((shapes or {}).get(info.name)) for info in pair.inputs}
    return {name: TensorSpec(example.shape, example.dtype) for name, example in examples.items()}
