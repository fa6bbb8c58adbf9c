"""The noise of one variant's blobs relative to the other's, on samples."""

from __future__ import annotations

from typing import Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from armnet.variants.blobs import Common, aligned, common_blobs, real, scales_of
from optimize.quantization.signal import decibels, noise
from runtime_arm.execution.predictor import Predictor
from runtime_arm.netdef import Array

Feeds = Mapping[str, Array]


class BlobNoise(NamedTuple):
    """A blob of both variants, the second variant's operator that computes it, and its signal-to-noise ratio in dB."""

    blob: str
    operator: str
    snr: float


class Noise(NamedTuple):
    """blobs: in the order in which the second variant computes them. output: the worst output's ratio, None if no
    output is comparable. samples: how many were run."""

    blobs: List[BlobNoise]
    output: Optional[float]
    samples: int


def noise_between(
    first: Predictor,
    second: Predictor,
    samples: Iterable[Tuple[Feeds, Feeds]],
    progress: Callable[[int], object] = lambda done: None,
) -> Noise:
    """The noise of all blobs that both variants have. samples: inputs for the first and for the second."""
    common = common_blobs(first.pair.predict_net, second.pair.predict_net)
    keep_first, keep_second = [one.first for one in common], [one.second for one in common]
    scales = scales_of(first.pair), scales_of(second.pair)
    sums: Dict[int, List[Tuple[float, float]]] = {}
    count = 0
    for feeds, others in samples:
        wanted, found = first.run(feeds, keep=keep_first), second.run(others, keep=keep_second)
        for place, one in enumerate(common):
            a = real(wanted[one.first], scales[0].get(one.first))
            b = real(found[one.second], scales[1].get(one.second))
            b = None if a is None or b is None else aligned(b, a.shape)
            if a is not None and b is not None:
                sums.setdefault(place, []).append(noise(a, b))
        count += 1
        progress(count)
    blobs = [
        BlobNoise(one.first, one.producer.full_type, decibels(sums[place]))
        for place, one in enumerate(common)
        if place in sums
    ]
    return Noise(blobs, _worst_output(second, common, sums), count)


def _worst_output(
    second: Predictor, common: Sequence[Common], sums: Mapping[int, List[Tuple[float, float]]]
) -> Optional[float]:
    names = {info.name for info in second.pair.outputs}
    ratios = [decibels(sums[place]) for place, one in enumerate(common) if one.second in names and place in sums]
    return min(ratios, default=None)
