"""Which layers must stay float for outputs that are close enough."""

from __future__ import annotations

from typing import AbstractSet, Callable, Dict, List, Optional, Sequence

from optimize.rewriting.report import Progress

PARTS = 8  # of the layers that seem to have to stay float, of which each is tried on integers again


def worst_first(
    layers: Sequence[str], snr_with_float: Callable[[AbstractSet[str]], float], progress: Progress
) -> Dict[str, float]:
    """The ratio of the outputs with each layer alone on integers, the layers that make most noise first.

    snr_with_float: the ratio if these layers are float and the others quantised.
    """
    everything, alone = set(layers), []
    for number, layer in enumerate(layers):
        progress("measure layers", number, len(layers))
        alone.append((snr_with_float(everything - {layer}), layer))
    return {layer: ratio for ratio, layer in sorted(alone)}


def least_float(
    worst: Sequence[str], good_with_float: Callable[[AbstractSet[str]], bool], progress: Progress
) -> Optional[AbstractSet[str]]:
    """The layers that stay float: the first ones, as few as are good enough. None if not even all of them are.

    good_with_float: whether the pair is good enough if these layers are float and the others quantised. The number is
    found by halving.
    """
    few, many = 0, len(worst)
    if not good_with_float(set(worst)):
        return None
    while few + 1 < many:
        middle = (few + many) // 2
        progress("try layers as floats", middle, len(worst))
        few, many = (few, middle) if good_with_float(set(worst[:middle])) else (middle, many)
    return frozenset(_released(worst[:many], good_with_float, progress))


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
