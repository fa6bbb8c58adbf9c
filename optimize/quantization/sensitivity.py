"""Which layers must stay float for outputs that are close enough."""

from __future__ import annotations

from typing import AbstractSet, Callable, List, Sequence

from optimize.rewriting.report import Progress
from runtime_arm.errors import UsageError


def least_float(
    layers: Sequence[str],
    snr_with_float: Callable[[AbstractSet[str]], float],
    good_with_float: Callable[[AbstractSet[str]], bool],
    progress: Progress,
) -> AbstractSet[str]:
    """The layers that stay float: the worst ones, as few as are good enough.

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
    return frozenset(worst[:many])
