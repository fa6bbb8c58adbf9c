"""How far the results of two nets that should compute the same are apart."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.execution.predictor import Predictor
from runtime_arm.netdef import Array
from runtime_arm.pair.pair import Pair
from runtime_arm.registry.specs import QuantizedTensor

TOLERANCE = 1e-4  # relative to the largest magnitude of an output: closer results count as equal, with nothing measured
BLOCK = 1 << 20  # elements that are compared at a time

Feeds = Mapping[str, Array]
Results = List[Dict[str, Any]]


def results(pair: Pair, samples: Sequence[Feeds]) -> Results:
    """The outputs of the net for each sample."""
    with Predictor(pair, threads=1) as predictor:
        return [predictor.run(feeds) for feeds in samples]


def relative_error(wanted: Results, actual: Results) -> float:
    """The largest ``difference`` of any float output; other outputs are ignored."""
    pairs = [(one[name], other.get(name)) for one, other in zip(wanted, actual) for name in one]
    return max((difference(a, b) for a, b in pairs if isinstance(a, np.ndarray) and a.dtype.kind == "f"), default=0.0)


def difference(wanted: Any, actual: Any) -> float:
    """The largest difference between elements of two blobs, divided by the largest magnitude in the first.

    Infinite if one is missing, or if shapes, dtypes, quantisation parameters, non-finite elements or strings differ. Of
    two sequences it is the largest difference between elements at the same place.
    """
    if isinstance(wanted, QuantizedTensor) and isinstance(actual, QuantizedTensor):
        return difference(wanted.values, actual.values) if wanted[1:] == actual[1:] else float("inf")
    if isinstance(wanted, list) and isinstance(actual, list) and len(wanted) == len(actual):
        return max(map(difference, wanted, actual), default=0.0)
    if not isinstance(wanted, np.ndarray) or not isinstance(actual, np.ndarray):
        return 0.0 if wanted is None and actual is None else float("inf")
    if (wanted.shape, wanted.dtype) != (actual.shape, actual.dtype):
        return float("inf")
    if wanted.dtype.kind == "O":
        return max((_element_difference(a, b) for a, b in zip(wanted.flat, actual.flat)), default=0.0)
    if wanted.dtype.kind not in "fciub":
        return 0.0 if np.array_equal(wanted, actual) else float("inf")
    if wanted.dtype.kind in "iub" and np.array_equal(wanted, actual):
        return 0.0
    apart = largest = 0.0
    flat, other = wanted.reshape(-1), actual.reshape(-1)
    for begin in range(0, flat.size, BLOCK):
        block = _of_finite(flat[begin : begin + BLOCK], other[begin : begin + BLOCK])
        if block is None:
            return float("inf")
        apart, largest = max(apart, block[0]), max(largest, block[1])
    return apart / (largest or 1.0)


def _of_finite(wanted: Array, actual: Array) -> Optional[Tuple[float, float]]:
    """The largest difference of finite elements, and the largest magnitude of those wanted; None if others differ."""
    wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
    finite = np.isfinite(wanted)
    if not np.array_equal(wanted[~finite], actual[~finite], equal_nan=True) or not np.isfinite(actual[finite]).all():
        return None
    wanted, actual = (values[finite].astype(wide) for values in (wanted, actual))
    return float(np.abs(wanted - actual).max(initial=0.0)), float(np.abs(wanted).max(initial=0.0))


def _element_difference(wanted: Any, actual: Any) -> float:
    """The difference of two elements of a sequence, or of two strings."""
    if isinstance(wanted, np.ndarray):
        return difference(wanted, actual)
    return 0.0 if type(wanted) is type(actual) and wanted == actual else float("inf")
