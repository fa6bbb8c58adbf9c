"""How far the results of a net are from those of another that should compute the same."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Sequence

import numpy as np

from runtime_arm.execution.predictor import Predictor
from runtime_arm.netdef import Array
from runtime_arm.pair.pair import Pair

Feeds = Mapping[str, Array]
Results = Sequence[Dict[str, Any]]


def results(pair: Pair, samples: Sequence[Feeds]) -> Results:
    """The outputs for each sample."""
    with Predictor(pair, threads=1) as predictor:
        return [predictor.run(feeds) for feeds in samples]


def relative_error(wanted: Results, actual: Results) -> float:
    """The largest difference in a float output, over the largest magnitude there; infinite where only one is finite.

    Outputs that are no floats do not count.
    """
    pairs = [(one[name], other[name]) for one, other in zip(wanted, actual) for name in one]
    return max((_of_output(a, b) for a, b in pairs if isinstance(a, np.ndarray) and a.dtype.kind == "f"), default=0.0)


def _of_output(wanted: Array, actual: Array) -> float:
    if wanted.shape != actual.shape:
        return float("inf")
    finite = np.isfinite(wanted)
    if not np.array_equal(finite, np.isfinite(actual)):
        return float("inf")
    wanted, actual = (values[finite].astype(np.float64) for values in (wanted, actual))
    return float(np.abs(wanted - actual).max(initial=0.0) / (np.abs(wanted).max(initial=0.0) or 1.0))
