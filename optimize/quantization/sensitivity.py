"""Which layers must stay float for outputs that are close enough."""

from __future__ import annotations

from typing import AbstractSet, Callable, List, Sequence

from optimize.rewriting.report import Progress
from runtime_arm.errors import UsageError


def least_float(
    layers: Sequence[str], snr_with_float: Callable[[AbstractSet[str]], float], wanted: float, progress: Progress
) -> AbstractSet[str]:
    """The layers that stay float: the worst ones, as few as reach the ratio ``wanted``.

    snr_with_float: the ratio of the outputs if these layers are float and the others quantised. A layer is the worse,
    the more noise it makes when it is the only one that is quantised. The number is found by halving. UsageError if the
    ratio is not reached with all layers float.
    """
    everything = set(layers)
    alone: List[float] = []
    for number, layer in enumerate(layers):
        progress("measure layers", number, len(layers))
        alone.append(snr_with_float(everything - {layer}))
    worst = [layer for _, layer in sorted(zip(alone, layers))]
    few, many = 0, len(layers)
    best = snr_with_float(everything)
    if best < wanted:
        raise UsageError(
            f"a signal-to-noise ratio of {wanted:g} dB cannot be reached: all layers float give {best:.1f}"
        )
    while few + 1 < many:
        middle = (few + many) // 2
        progress("try layers as floats", middle, len(layers))
        few, many = (few, middle) if snr_with_float(set(worst[:middle])) >= wanted else (middle, many)
    return frozenset(worst[:many])
