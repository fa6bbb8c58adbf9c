"""Samples that a network does not understand: on them it computes numbers many times as large as on all others.

A few such samples, of what the network never learnt, would have the ranges of many blobs to themselves.
"""

from __future__ import annotations

from typing import List, Sequence

import numpy as np

from optimize.quantization.calibration import Blobs, Sample
from optimize.rewriting.report import Progress, quiet
from runtime_arm.execution.predictor import Predictor
from runtime_arm.netdef import Array
from runtime_arm.pair.pair import Pair

TIMES = 8.0  # as large as in the median sample
BLOBS = 0.25  # share of the blobs that are so large
SAMPLES = 6  # of so many samples, one may be unlike the others; where more are, they are no exception


def outlier_samples(pair: Pair, samples: Sequence[Sample], progress: Progress = quiet) -> List[int]:
    """The places of the samples that are unlike the others: in a quarter of the blobs, their largest magnitude is more
    than 8 times the median sample's. None if more than one in six are."""
    return outlier_rows(_magnitudes(pair, samples, progress)) if len(samples) >= SAMPLES else []


def outlier_rows(magnitudes: Array) -> List[int]:
    """The same, by the largest magnitudes: (samples, blobs)."""
    median = np.median(magnitudes, axis=0)
    large = magnitudes[:, median > 0] > TIMES * median[median > 0]
    places = np.flatnonzero(large.sum(axis=1) > BLOBS * large.shape[1])
    return places.tolist() if len(places) <= len(magnitudes) // SAMPLES else []


def _magnitudes(pair: Pair, samples: Sequence[Sample], progress: Progress) -> Array:
    """The largest magnitude in each blob of floats, infinite where a number is not finite; 0 for other blobs."""
    names = list(dict.fromkeys(op.output[0] for op in pair.predict_net.op if op.output and op.output[0]))
    column = {name: place for place, name in enumerate(names)}
    rows = np.zeros((len(samples), len(names)))
    with Predictor(pair, threads=1) as predictor:
        blobs = Blobs(predictor, names)
        for place, sample in enumerate(samples):
            progress("look for samples unlike the others", place, len(samples))
            for name, values in blobs.of(sample):
                if values.dtype.kind == "f" and values.size:
                    largest = max(-float(values.min()), float(values.max()))
                    rows[place, column[name]] = largest if np.isfinite(largest) else np.inf
    return rows
