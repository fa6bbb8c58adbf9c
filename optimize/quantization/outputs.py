"""How far the outputs of a pair are from those of the pair that it was made of."""

from __future__ import annotations

from typing import Dict, List, Sequence

import numpy as np

from optimize.quantization.calibration import Sample
from optimize.quantization.signal import decibels, noise
from runtime_arm.execution.predictor import Predictor
from runtime_arm.netdef import Array
from runtime_arm.pair.pair import Pair

MOST_SAMPLES = 16
_NUMBERS = "iuf"


class OutputNoise:
    """Runs the original once on a few samples, and compares others with it."""

    def __init__(self, original: Pair, samples: Sequence[Sample]):
        stride = -(-len(samples) // MOST_SAMPLES)
        self._samples = [samples[at] for at in range(0, len(samples), stride)]
        self._wanted = _outputs(original, self._samples)

    def of(self, pair: Pair) -> float:
        """The signal-to-noise ratio of the worst output, in dB. Outputs that are no numbers do not count."""
        actual = _outputs(pair, self._samples)
        ratios = [
            decibels([noise(wanted[name], found[name]) for wanted, found in zip(self._wanted, actual)])
            for name, first in self._wanted[0].items()
            if first.dtype.kind in _NUMBERS
            and all(w[name].shape == f[name].shape for w, f in zip(self._wanted, actual))
        ]
        return min(ratios, default=0.0)


def _outputs(pair: Pair, samples: Sequence[Sample]) -> List[Dict[str, Array]]:
    with Predictor(pair, threads=1) as predictor:
        return [{name: np.asarray(value) for name, value in predictor.run(sample).items()} for sample in samples]
