"""Which layers compute on floats, and which of these have wider weights, so that a pair that is good enough takes few
bytes.

A layer on floats with packed weights takes as few bytes as one on integers. So wider weights are what is saved first:
those go to layers whose packed weights make much noise for each byte, while all layers compute on floats. Then as few
layers as possible do.
"""

from __future__ import annotations

from typing import AbstractSet, Callable, Dict, Iterable, Mapping, NamedTuple, Optional, Sequence

from optimize.quantization.builders import Floats
from optimize.quantization.formats import FLOAT16, FLOAT32
from optimize.quantization.report import LayerReport
from optimize.quantization.sensitivity import least_float, worst_first
from optimize.rewriting.report import Progress

LEAST_SHARE = 0.02  # of the bytes of wider weights: less is not worth a try of its own


class Found(NamedTuple):
    """The layers on floats, and the ratio of the outputs with each layer alone as it was asked for, in dB, those that
    make most noise first."""

    floats: Floats
    alone: Mapping[str, float]


def smallest(
    rows: Sequence[LayerReport], ratio: Callable[[Floats], float], good: Callable[[Floats], bool], progress: Progress
) -> Optional[Found]:
    """None if nothing is good enough.

    rows: of the layers that may be float. ratio: of the outputs' signal to noise, in dB.
    """
    layers = list(dict.fromkeys(row.layer for row in rows))
    everything = frozenset(layers)
    alone = worst_first(layers, lambda some: ratio(Floats(some)), progress)
    packed = alone  # the ratio with each layer's weights alone packed
    if any(row.choice.activations != FLOAT32 for row in rows):
        floats = _fewest(alone, Floats(), good, progress)
        if floats is not None:
            return Found(floats, alone)
        packed = worst_first(layers, lambda some: ratio(Floats(everything, everything - some)), progress)
    for wide in (FLOAT16, FLOAT32):
        floats = _widened(rows, packed, Floats(everything, everything, wide), good, progress)
        if floats is not None:
            wider = Floats(floats.layers - floats.packed, frozenset(), wide)
            return Found(wider if packed is alone else _fewest(alone, wider, good, progress) or floats, alone)
    return None


def _fewest(
    worst: Iterable[str], wider: Floats, good: Callable[[Floats], bool], progress: Progress
) -> Optional[Floats]:
    """As few layers as possible on floats with packed weights, besides those of wider weights. None if not even all
    are good enough."""

    def with_packed(some: AbstractSet[str]) -> Floats:
        return Floats(wider.layers | some, frozenset(some), wider.wide)

    rest = [layer for layer in worst if layer not in wider.layers]
    some = least_float(rest, lambda some: good(with_packed(some)), progress)
    return None if some is None else with_packed(some)


def _widened(
    rows: Sequence[LayerReport],
    packed: Mapping[str, float],
    floats: Floats,
    good: Callable[[Floats], bool],
    progress: Progress,
) -> Optional[Floats]:
    """The layers, all on floats, with as few bytes of wider weights as possible."""
    nbytes: Dict[str, int] = {}
    for row in rows:
        nbytes[row.layer] = nbytes.get(row.layer, 0) + row.nbytes_before
    order = sorted(nbytes, key=lambda layer: 10 ** (-packed[layer] / 10) / nbytes[layer], reverse=True)

    def with_wider(some: AbstractSet[str]) -> Floats:
        return floats._replace(packed=floats.layers - some)

    wider = least_float(order, lambda some: good(with_wider(some)), progress)
    if wider is None:
        return None
    least = LEAST_SHARE * sum(nbytes[layer] for layer in wider)
    large = sorted((layer for layer in wider if nbytes[layer] > least), key=lambda one: -nbytes[one])
    for number, layer in enumerate(large):
        progress("pack weights again", number, len(large))
        wider = wider - {layer} if good(with_wider(wider - {layer})) else wider
    return with_wider(wider)
