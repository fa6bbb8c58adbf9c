"""Which layers must stay float for outputs that are close enough."""

from __future__ import annotations

from typing import AbstractSet, Callable, Dict, List, Sequence, Tuple

from optimize.rewriting.report import Progress
from runtime_arm.errors import UsageError

PARTS = 8  # of the layers that seem to have to stay float, of which each is tried on integers again


def least_float(
    layers: Sequence[str],
    snr_with_float: Callable[[AbstractSet[str]], float],
    good_with_float: Callable[[AbstractSet[str]], bool],
    progress: Progress,
) -> Tuple[AbstractSet[str], Dict[str, float]]:
    """The layers that stay float: the worst ones, as few as are good enough; and the ratio with each layer alone.

    snr_with_float, good_with_float: the ratio of the outputs, and whether the pair is good enough, if these layers are
    float and the others quantised. A layer is the worse, the more noise it makes when it is the only one that is
    quantised. The number is found by halving. UsageError if the pair is not good enough with all layers float.
    """
    everything = set(layers)
    alone: List[float] = []
    for number, layer in enumerate(layers):
        progress("measure layers", number, len(layers))
        alone.append(snr_with_float(everything - {layer}))
    worst = [layer for _, layer in sorted(zip(alone, layers))]
    few, many = 0, len(layers)
    if not good_with_float(everything):
        raise UsageError(f"what is demanded of the pair is not reached even with all of its {len(layers)} layers float")
    while few + 1 < many:
        middle = (few + many) // 2
        progress("try layers as floats", middle, len(layers))
        few, many = (few, middle) if good_with_float(set(worst[:middle])) else (middle, many)
    return frozenset(_released(worst[:many], good_with_float, progress)), dict(zip(layers, alone))


def _released(
    floats: Sequence[str], good_with_float: Callable[[AbstractSet[str]], bool], progress: Progress
) -> List[str]:
    """The layers that must stay float of these: parts of them are quantised again if that is good enough, the least
    harmful first. Layers that are harmful alone may do no harm among others."""
    kept, count = list(floats), len(floats) // 2
    while count and count * PARTS >= len(floats):
        for first in range(len(kept) // count * count, -1, -count):
            rest = kept[:first] + kept[first + count :]
            progress("quantise layers again", len(floats) - first, len(floats))
            if len(rest) < len(kept) and good_with_float(set(rest)):
                kept = rest
        count //= 2
    return kept
