"""Whether a pair is good enough with some of its layers on floats: what is demanded of it, and how that is judged.

A ratio is demanded of all that the net will see, not of the samples that made the pair: its ranges and its rounded
weights suit those. So it is judged by cross-validation: each quarter of the samples is run on a pair that the other
quarters made. Some samples are harder than others, and what others might make worse counts as missing. That is
Student's 95 % quantile times the standard error by the jackknife (Efron and Stein, "The jackknife estimate of
variance", 1981), which leaves out neighbours together, since four crops of a photo say less than four photos; or what
the few hardest samples would add that so few need not hold: where ratios in dB spread like a normal distribution, noise
is log-normal, and its mean lies ln(10) / 20 times their variance above the median (Aitchison and Brown, "The Lognormal
Distribution", 1957). The variance is that of the ratios below the median.
"""

from __future__ import annotations

import math
from statistics import fmean, median
from typing import Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from optimize.quantization.builders import Builder, Floats, Trial
from optimize.quantization.calibration import Sample
from optimize.quantization.outputs import OutputNoise, Sums, lower
from optimize.quantization.report import QuantizationReport
from optimize.quantization.signal import decibels
from runtime_arm.pair.pair import Pair

FEW = 10  # samples, which are no picture of what the net will see; parts of them say nothing
MOST_JUDGED = 32  # samples
ROOM = 1.0  # dB: a fifth of the noise
GROUPS = 8  # of neighbours
STUDENT = 1.895  # the 95 % quantile for so many groups, 7 degrees of freedom
MOST_MISSING = 5.0  # dB; more than that is one sample unlike all others, whose outputs may be all 0


class Demand(NamedTuple):
    """What a pair must keep: a signal-to-noise ratio in dB, and whatever ``accept`` looks at."""

    snr: Optional[float]
    accept: Optional[Callable[[Pair], bool]]


class Ratio(NamedTuple):
    """A signal-to-noise ratio in dB, and the least that it may be taken for."""

    found: float
    sure: float

    def __str__(self) -> str:
        doubt = f", perhaps {self.sure:.1f} dB on other data" if self.sure < self.found else ""
        return f"{self.found:.1f} dB{doubt}"


class Judge:
    """Judges what a builder makes of a pair. Without a ratio that is demanded, and with too few samples to be divided,
    ratios are those on the samples that made the pair."""

    def __init__(self, original: Pair, builder: Builder, samples: Sequence[Sample], demand: Demand):
        judging = demand.snr is not None and math.isfinite(demand.snr) and len(samples) >= FEW
        trials = builder.trials() if judging else []
        parts = trials or [Trial(builder.build, samples)]
        most = MOST_JUDGED // len(parts)
        self._parts = [(part.build, OutputNoise(original, part.others, most=most)) for part in parts]
        self._build, self._demand, self._unseen = builder.build, demand, bool(trials)
        self._ratios: Dict[Floats, Mapping[str, Ratio]] = {}

    def ratio(self, floats: Floats) -> Ratio:
        """That of the worst output of the pair with these layers on floats."""
        ratios = self._ratios_with(floats).values()
        return Ratio(*(min(ratio) for ratio in zip(*ratios))) if ratios else Ratio(0.0, 0.0)

    def told(self, floats: Floats) -> Tuple[float, Optional[float]]:
        """That ratio, and the least that it may be taken for; None where nothing is known of other data."""
        ratio = self.ratio(floats)
        return ratio.found, ratio.sure if self._unseen else None

    def excess(self, floats: Floats) -> Dict[str, float]:
        """The share of the noise of each output that has to go; all of it where no ratio is demanded."""
        least = self._demand.snr
        ratios = self._ratios_with(floats)
        if least is None:
            return dict.fromkeys(ratios, 1.0)
        return {output: max(0.0, 1 - 10 ** ((ratio.sure - least) / 10)) for output, ratio in ratios.items()}

    def _ratios_with(self, floats: Floats) -> Mapping[str, Ratio]:
        key = floats._replace(layers=frozenset(floats.layers), packed=frozenset(floats.packed))
        if key not in self._ratios:
            self._ratios[key] = self._measured(floats)
        return self._ratios[key]

    def _measured(self, floats: Floats) -> Dict[str, Ratio]:
        outputs: Dict[str, List[Sums]] = {}
        for build, noise in self._parts:
            for name, sums in noise.sums(build(floats, QuantizationReport())).items():
                outputs.setdefault(name, []).extend(sums)
        return {
            name: Ratio(lower(sums), lower(sums) - (_missing(sums) if self._unseen else 0.0))
            for name, sums in outputs.items()
        }

    def roomy(self, floats: Floats) -> bool:
        """Whether that pair is good enough with room for more noise; unknown where no ratio is demanded."""
        return self._demand.snr is not None and self.good(floats, ROOM)

    def good(self, floats: Floats, room: float = 0.0) -> bool:
        """Whether that pair is good enough. room: how much more is demanded of the ratio, in dB."""
        snr, accept = self._demand
        if snr is not None and self.ratio(floats).sure < snr + room:
            return False
        return accept is None or accept(self._build(floats, QuantizationReport()))


def _missing(samples: Sequence[Sums]) -> float:
    """By how much the ratio of others may be lower than that of all these samples together, in dB."""
    return min(MOST_MISSING, max(STUDENT * _error(samples), lower(samples) - _of_a_spread(samples)))


def _error(samples: Sequence[Sums]) -> float:
    """The standard error of the ratio of all samples together, of which neighbours may be alike."""
    count = min(GROUPS, len(samples))
    ends = [len(samples) * group // count for group in range(count + 1)]
    without = [decibels([*samples[:first], *samples[end:]]) for first, end in zip(ends, ends[1:])]
    mean = fmean(without)
    return math.sqrt((count - 1) / count * sum((one - mean) ** 2 for one in without))


def _of_a_spread(samples: Sequence[Sums]) -> float:
    """The ratio of many samples whose ratios spread as those of the harder half of these do."""
    ratios = [decibels([one]) for one in samples]
    middle = median(ratios)
    below = [(middle - one) ** 2 for one in ratios if one < middle]
    return middle - (math.log(10) / 20 * fmean(below) if below else 0.0)
