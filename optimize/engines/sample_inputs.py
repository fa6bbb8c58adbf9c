"""Random inputs for measurements."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Dict, Mapping, Tuple

import numpy as np

from runtime_arm.errors import ArmnetError
from runtime_arm.execution.predictor import Predictor
from runtime_arm.netdef import Array
from runtime_arm.registry.specs import TensorSpec

LARGEST_INTEGER = 100  # integers may be indices into tables
FEWER_INTEGERS = (2, 1)  # integers below these are tried if larger ones are refused: the tables may be small
LARGEST_SIZE = 4
LAST_BITS = 2.0**-20  # the largest relative change of a number when the effect of rounding is measured
MOST_SIZES = 8  # so few integers in a row may be sizes or repetitions, one for each dimension


def drawn(specs: Mapping[str, TensorSpec], seed: int = 0, largest: int = LARGEST_INTEGER) -> Dict[str, Array]:
    """Random arrays of these specs.

    Floats come from the standard normal distribution; integers are at least 0 and less than ``largest``, and less than
    4 where they may be sizes; booleans are false or true; strings are the digits of such integers.
    """
    rng = np.random.default_rng(seed)
    return {name: _drawn(spec, rng, largest) for name, spec in specs.items()}


def _drawn(spec: TensorSpec, rng: np.random.Generator, largest: int) -> Array:
    if spec.dtype.kind in "fc":
        return np.asarray(rng.standard_normal(spec.shape), spec.dtype)
    if spec.dtype.kind == "b":
        largest = 2
    elif spec.dtype.kind == "i" and len(spec.shape) == 1 and spec.shape[0] <= MOST_SIZES:
        largest = min(largest, LARGEST_SIZE)
    integers = rng.integers(0, largest, spec.shape)
    return np.asarray(integers, spec.dtype) if spec.dtype != object else np.asarray(integers).astype(str).astype(object)


def taken(predictor: Predictor, specs: Mapping[str, TensorSpec]) -> Tuple[Dict[str, Array], Dict[str, Any], bool]:
    """Random inputs that the net accepts, its outputs for them, and whether they are those that ``drawn`` gives first.

    Integers are small if the net refuses larger ones. ArmnetError if it refuses all.
    """
    for largest in (LARGEST_INTEGER, *FEWER_INTEGERS[:-1]):
        feeds = drawn(specs, largest=largest)
        with suppress(ArmnetError):
            return feeds, predictor.run(feeds), largest == LARGEST_INTEGER
    feeds = drawn(specs, largest=FEWER_INTEGERS[-1])
    return feeds, predictor.run(feeds), False


def in_last_bits(array: Any, rng: np.random.Generator) -> Any:
    """Floats with their last bits changed; anything else unchanged."""
    if array.dtype.kind != "f":
        return array
    noise = rng.uniform(-LAST_BITS, LAST_BITS, array.shape)
    return (array * (1 + noise)).astype(array.dtype)
