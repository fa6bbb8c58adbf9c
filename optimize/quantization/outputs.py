"""How far the outputs of a pair are from those of the pair that it was made of."""

from __future__ import annotations

from statistics import median
from typing import Dict, List, Mapping, NamedTuple, Sequence, Tuple

import numpy as np

from optimize.quantization.calibration import Sample
from optimize.quantization.signal import decibels, noise
from runtime_arm.execution.predictor import Predictor
from runtime_arm.netdef import Array
from runtime_arm.pair.pair import Pair

MOST_SAMPLES = 16
Sums = Tuple[float, float]  # of the squares of a signal, and of those of the noise in it

_NUMBERS = "iuf"


class Measured(NamedTuple):
    """ratio: of signal to noise of the worst output, in dB (see ``OutputNoise.of``). noise: in each output of numbers,
    as a share of its signal, all samples together."""

    ratio: float
    noise: Mapping[str, float]


class OutputNoise:
    """Runs the original once on a few samples, and compares others with it.

    before_softmax: compares what an output's Softmax reads, where the others have that blob, too. A Softmax makes much
    of small differences of a few samples, and nothing of large ones of others. most: samples that are run.
    """

    def __init__(
        self, original: Pair, samples: Sequence[Sample], before_softmax: bool = False, most: int = MOST_SAMPLES
    ):
        stride = -(-len(samples) // most)
        self._samples = [samples[at] for at in range(0, len(samples), stride)]
        outputs = self._outputs = original.predict_net.external_output
        logits = {op.output[0]: op.input[0] for op in original.predict_net.op if op.type == "Softmax"}
        self._names = [logits.get(name, name) if before_softmax else name for name in outputs]
        self._wanted = _outputs(original, self._samples, self._names)

    def of(self, pair: Pair) -> float:
        """The signal-to-noise ratio of the worst output, in dB: of all samples together or of the median one, whichever
        is lower. A few samples of large outputs must not decide for all, and must not be forgotten.

        Outputs that are no numbers do not count.
        """
        return self.measured(pair).ratio

    def measured(self, pair: Pair) -> Measured:
        """That ratio, and the noise in each output."""
        sums = self.sums(pair)
        outputs = zip(self._outputs, self._names)
        noise = {output: 10 ** (-decibels(sums[name]) / 10) for output, name in outputs if name in sums}
        return Measured(min(map(lower, sums.values()), default=0.0), noise)

    def sums(self, pair: Pair) -> Dict[str, List[Sums]]:
        """Signal and noise of each output that is of numbers, sample by sample."""
        written = {name for op in pair.predict_net.op for name in op.output}
        names = [name if name in written else own for name, own in zip(self._names, pair.predict_net.external_output)]
        actual = _outputs(pair, self._samples, names)
        return {
            name: [noise(wanted[name], found[name]) for wanted, found in zip(self._wanted, actual)]
            for name, first in self._wanted[0].items()
            if name in actual[0]
            and first.dtype.kind in _NUMBERS
            and all(w[name].shape == f[name].shape for w, f in zip(self._wanted, actual))
        }


def lower(samples: Sequence[Sums]) -> float:
    """The ratio of all samples together, or of the median one, whichever is lower, in dB."""
    return min(decibels(samples), median(decibels([one]) for one in samples))


def _outputs(pair: Pair, samples: Sequence[Sample], names: Sequence[str]) -> List[Dict[str, Array]]:
    outputs = pair.predict_net.external_output
    inside = [name for name in names if name not in outputs]
    with Predictor(pair, threads=1) as predictor:
        runs = (predictor.run(sample, keep=inside) for sample in samples)
        return [{name: np.asarray(value) for name, value in run.items() if name in names} for run in runs]
