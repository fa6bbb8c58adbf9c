"""Random inputs for measurements."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Callable, Dict, Mapping, Tuple, TypeVar

import numpy as np

from runtime_arm.errors import ArmnetError
from runtime_arm.execution.predictor import Predictor
from runtime_arm.netdef import Array
from runtime_arm.pair.pair import Pair
from runtime_arm.registry.specs import TensorSpec

BOUNDS = (100, 2, 1)  # integers are below the first of these that a net takes: they may be indices into small tables
LARGEST_SIZE = 4
LAST_BITS = 2.0**-20  # the largest relative change of a number when the effect of rounding is measured
MOST_SIZES = 8  # so few integers in a row may be sizes or repetitions, one for each dimension

Specs = Mapping[str, TensorSpec]
Result = TypeVar("Result")


def drawn(specs: Specs, seed: int = 0, below: int = BOUNDS[0]) -> Dict[str, Array]:
    """Random arrays of these specs.

    Floats come from the standard normal distribution; integers are at least 0 and less than ``below``, and less than 4
    where they may be sizes; booleans are false or true; strings are the digits of such integers.
    """
    rng = np.random.default_rng(seed)
    return {name: _drawn(spec, rng, below) for name, spec in specs.items()}


def _drawn(spec: TensorSpec, rng: np.random.Generator, below: int) -> Array:
    if spec.dtype.kind in "fc":
        return np.asarray(rng.standard_normal(spec.shape), spec.dtype)
    if spec.dtype.kind == "b":
        below = 2
    elif spec.dtype.kind == "i" and len(spec.shape) == 1 and spec.shape[0] <= MOST_SIZES:
        below = min(below, LARGEST_SIZE)
    integers = rng.integers(0, below, spec.shape)
    return np.asarray(integers, spec.dtype) if spec.dtype != object else np.asarray(integers).astype(str).astype(object)


def first_taken_below(specs: Specs, attempt: Callable[[int], Result]) -> Tuple[int, Result]:
    """The first of BOUNDS with which ``attempt`` does not fail, and what it returns.

    attempt: runs a net on inputs drawn below the bound that it is given. ArmnetError, that of the last bound, if it
    fails with all; without integers or strings among the inputs only the first is tried.
    """
    *larger, last = BOUNDS if _have_integers(specs) else BOUNDS[:1]
    for below in larger:
        with suppress(ArmnetError):
            return below, attempt(below)
    return last, attempt(last)


def _have_integers(specs: Specs) -> bool:
    return any(spec.dtype.kind not in "fcb" for spec in specs.values())


def taken(predictor: Predictor, specs: Specs) -> Tuple[Dict[str, Array], Dict[str, Any], int]:
    """Random inputs that the net takes, its outputs for them, and the bound below which integers were drawn.

    ArmnetError if it refuses all.
    """

    def attempt(below: int) -> Tuple[Dict[str, Array], Dict[str, Any]]:
        feeds = drawn(specs, below=below)
        return feeds, predictor.run(feeds)

    below, (feeds, outputs) = first_taken_below(specs, attempt)
    return feeds, outputs, below


def drawn_for(pair: Pair, specs: Specs, seed: int = 0) -> Dict[str, Array]:
    """Random inputs that the pair takes; if it takes none, the smallest, so that a run says what else is wrong."""
    below = BOUNDS[0]
    if _have_integers(specs):
        below = BOUNDS[-1]
        with suppress(ArmnetError), Predictor(pair, threads=1) as predictor:
            below, _ = first_taken_below(specs, lambda below: predictor.run(drawn(specs, seed, below)))
    return drawn(specs, seed, below)


def in_last_bits(array: Any, rng: np.random.Generator) -> Any:
    """Floats with their last bits changed; anything else unchanged."""
    if array.dtype.kind != "f":
        return array
    noise = rng.uniform(-LAST_BITS, LAST_BITS, array.shape)
    return (array * (1 + noise)).astype(array.dtype)
