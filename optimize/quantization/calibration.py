"""Calibration: the range of every blob of a net, and the mean of each of its channels, measured on samples.

    minmax       the least and the largest value of all samples
    percentile   the range that leaves out one value in 10,000 at either end
    mse          the range whose 256 steps have the least squared error, of a few that cut off the ends; each sample's
                 error is divided by its mean square, so that a few samples of large numbers do not decide for all
    entropy      the range that keeps the distribution best: least Kullback-Leibler divergence (as TensorRT chooses it)

All but minmax collect a histogram a blob in a first pass's range, so samples are read twice, for all of them together;
a histogram takes 16 kB whatever the number of samples.
"""

from __future__ import annotations

import math
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from optimize.quantization.calibration_cache import CalibrationCache
from optimize.rewriting.report import Progress, quiet
from runtime_arm.errors import UsageError
from runtime_arm.execution.predictor import Predictor
from runtime_arm.files import AnyPath
from runtime_arm.netdef import Array
from runtime_arm.pair.pair import Pair

METHODS = ("minmax", "percentile", "mse", "entropy")
GROUP_NBYTES = 1 << 28
BINS = 2048

_LEFT_OUT = 1e-4
_STEPS = 255
_CUTS = np.linspace(1.0, 0.3, 36)  # shares of the range that are tried
_SHORT_CUTS = np.geomspace(0.28, 0.005, 36)  # where few samples have nearly all of the range
Sample = Mapping[str, Array]


class Range(NamedTuple):
    """The least and the largest real number that must be held."""

    low: float
    high: float


class Calibration(NamedTuple):
    """What was measured, by blob.

    means: of each channel, float64 (C). Channels are axis 1 of pictures, else the last axis.
    """

    ranges: Mapping[str, Range]
    means: Mapping[str, Array]


class _Statistics:
    """Of one blob: its range and means, and a histogram once the range is known. low: minus infinity of a blob that
    holds it, as what a Softmax shall leave out does; of such a blob nothing else is known. alike: a histogram in which
    a value counts as the reciprocal of its sample's mean square."""

    def __init__(self) -> None:
        self.low, self.high = math.inf, -math.inf
        self.sums, self.rows = np.zeros(0), 0
        self.histogram: Array = np.zeros(0)
        self.alike: Array = np.zeros(0)

    @staticmethod
    def of(arrays: Mapping[str, Array], prefix: str) -> _Statistics:
        """As they were kept."""
        found = _Statistics()
        found.low, found.high, found.rows = (arrays[f"{prefix}{name}"].item() for name in ("low", "high", "rows"))
        found.sums, found.histogram, found.alike = (
            arrays[f"{prefix}{name}"] for name in ("sums", "histogram", "alike")
        )
        return found

    def arrays(self, prefix: str) -> Dict[str, Any]:
        """To be kept."""
        names = ("low", "high", "rows", "sums", "histogram", "alike")
        return {f"{prefix}{name}": getattr(self, name) for name in names}

    def meet(self, values: Array) -> None:
        if not values.size:
            return
        self.low, self.high = min(self.low, float(values.min())), max(self.high, float(values.max()))
        if values.ndim > 1 and self.has_range:
            axis = 1 if values.ndim == 4 else values.ndim - 1
            others = tuple(index for index in range(values.ndim) if index != axis)
            sums = values.sum(axis=others, dtype=np.float64)
            self.sums = sums if self.sums.shape != sums.shape else self.sums + sums
            self.rows += values.size // values.shape[axis]

    @property
    def has_range(self) -> bool:
        return -math.inf < self.low <= self.high

    def _fills_bins(self, dtype: np.dtype) -> bool:
        """Whether the edges of its bins differ. As numbers of float32, those between 0.9999 and 1 do not."""
        edges = _edges(self).astype(dtype if dtype.kind == "f" else np.float64)
        return bool((edges[:-1] < edges[1:]).all())

    def count(self, values: Array) -> None:
        if not self.has_range:
            return
        if not self.histogram.size:
            self.histogram, self.alike = np.zeros(BINS), np.zeros(BINS)
        if values.size and self._fills_bins(values.dtype):
            counts = np.histogram(values, BINS, (self.low, self.high))[0]
            square = float(np.square(values, dtype=np.float64).mean())
            self.histogram += counts
            self.alike += counts / square if square > 0 else 0


def calibrated(
    pair: Pair,
    names: Sequence[str],
    samples: Sequence[Sample],
    methods: Sequence[str] = ("minmax",),
    progress: Progress = quiet,
    folder: Optional[AnyPath] = None,
) -> Dict[str, Calibration]:
    """By method, the range and the means of each named blob but those that hold minus infinity. folder: keeps what was
    measured so far, and lets a run go on.

    UsageError for no samples, an unknown method, and blobs that hold infinity or what is no number.
    """
    unknown = [method for method in methods if method not in METHODS]
    if unknown:
        raise UsageError(f"calibration can be {', '.join(METHODS)}; got {unknown[0]!r}")
    if not samples:
        raise UsageError("calibration needs at least one sample, got none")
    kept = CalibrationCache(folder, pair, samples)
    passes = 1 if {*methods} <= {"minmax"} else 2
    what = ("calibration", passes, *names)
    done, found = _gone_on(kept.read(*what), names)
    total = passes * len(samples)
    with Predictor(pair, threads=1) as predictor:
        blobs = Blobs(predictor, names)
        for step in range(done, total):
            number, place = divmod(step, len(samples))
            progress("calibrate", step, total)
            for name, values in blobs.of(samples[place]):
                if values.size and not values.max() < math.inf:
                    raise UsageError(f"blob {name!r} is not finite on sample {place + 1}")
                if number:
                    found[name].count(values)
                else:
                    found[name].meet(values)
            kept.write(_to_be_kept(step + 1, found), *what, now=step + 1 == total)
    choose = {"minmax": _whole, "percentile": _percentile, "mse": _least_error, "entropy": _least_divergence}
    met = {name: statistics for name, statistics in found.items() if statistics.has_range}
    means = {name: statistics.sums / statistics.rows for name, statistics in met.items() if statistics.rows}
    return {
        method: Calibration({name: choose[method](statistics) for name, statistics in met.items()}, means)
        for method in methods
    }


def _to_be_kept(done: int, found: Mapping[str, _Statistics]) -> Dict[str, Any]:
    arrays: Dict[str, Any] = {"done": done}
    for number, statistics in enumerate(found.values()):
        arrays.update(statistics.arrays(f"{number} "))
    return arrays


def _gone_on(arrays: Mapping[str, Array], names: Sequence[str]) -> Tuple[int, Dict[str, _Statistics]]:
    """How many steps were made, and what they found."""
    if not arrays:
        return 0, {name: _Statistics() for name in names}
    return int(arrays["done"]), {name: _Statistics.of(arrays, f"{number} ") for number, name in enumerate(names)}


class Blobs:
    """The named blobs of a net, fetched in groups that fit into ``GROUP_NBYTES``. Of the first sample, the first group
    has one blob, from whose size that of others is guessed."""

    def __init__(self, predictor: Predictor, names: Sequence[str]):
        self._predictor, self._names = predictor, names
        self._nbytes: Dict[str, int] = {}

    def of(self, sample: Sample) -> Iterator[Tuple[str, Array]]:
        start, guess = 0, GROUP_NBYTES
        while start < len(self._names):
            nbytes = np.cumsum([self._nbytes.get(name, guess) for name in self._names[start:]], dtype=np.int64)
            group = list(self._names[start : start + max(1, int(np.searchsorted(nbytes, GROUP_NBYTES, "right")))])
            results = self._predictor.run(sample, keep=group)
            found = {name: np.asarray(results[name]) for name in group if name in results}
            self._nbytes.update({name: found[name].nbytes if name in found else 0 for name in group})
            guess = max(1, *(self._nbytes[name] for name in group))
            yield from found.items()
            start += len(group)


def _whole(statistics: _Statistics) -> Range:
    return Range(statistics.low, statistics.high)


def _edges(statistics: _Statistics) -> Array:
    return np.linspace(statistics.low, statistics.high, BINS + 1)


def _percentile(statistics: _Statistics) -> Range:
    edges, counts = _edges(statistics), np.cumsum(statistics.histogram)
    if not counts[-1]:
        return _whole(statistics)
    low = edges[np.searchsorted(counts, _LEFT_OUT * counts[-1], "right")]
    high = edges[np.searchsorted(counts, (1 - _LEFT_OUT) * counts[-1]) + 1]
    return Range(float(low), float(high))


def _candidates(statistics: _Statistics, cuts: Array) -> List[Range]:
    return [Range(min(statistics.low, 0) * cut, max(statistics.high, 0) * cut) for cut in cuts]


def _least_error(statistics: _Statistics) -> Range:
    if not statistics.alike.any():
        return _whole(statistics)
    edges = _edges(statistics)
    centres, counts = (edges[1:] + edges[:-1]) / 2, statistics.alike

    def error(tried: Range) -> float:
        step = (tried.high - tried.low) / _STEPS
        clipped = np.clip(centres, tried.low, tried.high)
        inside = np.where(clipped == centres, step * step / 12, np.square(clipped - centres))
        return float((inside * counts).sum())

    return min(_candidates(statistics, np.concatenate([_CUTS, _SHORT_CUTS])), key=error)


def _least_divergence(statistics: _Statistics) -> Range:
    if not statistics.histogram.any():
        return _whole(statistics)
    edges = _edges(statistics)
    centres, counts = (edges[1:] + edges[:-1]) / 2, statistics.histogram.astype(np.float64)
    zero = int(np.abs(centres).argmin())  # what a ReLU cut off says nothing about the range
    counts[zero] = counts[zero + 1 : zero + 2].sum() or counts[max(zero - 1, 0)]

    def divergence(tried: Range) -> float:
        step = max((tried.high - tried.low) / _STEPS, np.finfo(np.float32).tiny)
        place = np.rint((np.clip(centres, tried.low, tried.high) - tried.low) / step).astype(np.int64)
        inside = (centres >= tried.low) & (centres <= tried.high)
        if not inside.any():
            return math.inf
        kept = np.bincount(place[inside], counts[inside], _STEPS + 1)
        used = np.bincount(place[inside], counts[inside] > 0, _STEPS + 1)
        spread = np.where(inside & (counts > 0), kept[place] / np.maximum(used[place], 1), 0)
        clipped = np.where(inside, counts, 0)
        first, last = np.flatnonzero(inside)[[0, -1]]
        clipped[first] += counts[:first].sum()
        clipped[last] += counts[last + 1 :].sum()
        wanted, actual = clipped / clipped.sum(), spread / max(spread.sum(), 1)
        some = wanted > 0
        return float((wanted[some] * np.log(wanted[some] / np.maximum(actual[some], 1e-12))).sum())

    return min(_candidates(statistics, _CUTS), key=divergence)
