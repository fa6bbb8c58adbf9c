"""Which layers compute on floats, and which of these have wider weights, so that a pair that is good enough takes few
bytes.

A layer on floats with packed weights takes as few bytes as one on integers. So wider weights are what is saved first,
while all layers compute on floats: they go to layers whose packed weights make, for each byte, much of the noise that
has to go from outputs that are too noisy, or much noise in any output, whichever order seems to need fewer bytes. Then
as few layers as possible compute on floats.

Weights that are just good enough leave no room for the noise of integers. So weights that leave some are tried, too,
and taken if they need few bytes more, and fewer layers then compute on floats.
"""

from __future__ import annotations

from typing import AbstractSet, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from optimize.quantization.builders import Floats
from optimize.quantization.outputs import Measured
from optimize.quantization.packing.formats import FLOAT16, FLOAT32
from optimize.quantization.report import LayerReport
from optimize.rewriting.report import Progress

PARTS = 8  # of the layers that seem to have to stay float, of which each is tried on integers again
MORE = 0.03  # of the bytes of all weights: what weights that leave room may take more
LEAST_SHARE = 0.02  # of the bytes of wider weights: less is not worth a try of its own


class Found(NamedTuple):
    """The layers on floats, and the ratio of the outputs with each layer alone as it was asked for, in dB, those that
    make most noise first."""

    floats: Floats
    alone: Mapping[str, float]


class Outputs(NamedTuple):
    """What outputs are like with some layers on floats. measured: the noise in them, on a few samples. excess: the
    share of each one's noise that has to go. good: whether there is none of any, and they are accepted. roomy: whether
    they would be with more noise."""

    measured: Callable[[Floats], Measured]
    excess: Callable[[Floats], Mapping[str, float]]
    good: Callable[[Floats], bool]
    roomy: Callable[[Floats], bool]


def choose_float_layers(rows: Sequence[LayerReport], outputs: Outputs, progress: Progress) -> Optional[Found]:
    """None if nothing is good enough. rows: of the layers that may be float."""
    good = outputs.good
    each = one_alone(rows, outputs.measured, progress)
    layers, everything = list(each), frozenset(each)
    alone = alone_ratios(each)
    on_integers = any(row.choice.activations != FLOAT32 for row in rows)
    floats = _fewest(alone, Floats(), good, progress) if on_integers else None
    if floats is not None:
        return Found(floats, alone)
    nbytes: Dict[str, int] = {}
    for row in rows:
        nbytes[row.layer] = nbytes.get(row.layer, 0) + row.nbytes_before
    if on_integers:  # else weights are packed alone already
        each = _one_by_one(
            layers, lambda one: outputs.measured(Floats(everything, {one})), "measure packed weights", progress
        )
    noise = {layer: measured.noise for layer, measured in each.items()}
    orders = by_excess(noise, outputs.excess(Floats(everything, everything)), nbytes), by_noise(noise, nbytes)
    for wide in (FLOAT16, FLOAT32):
        all_packed = Floats(everything, everything, wide)
        least = _widened(orders, nbytes, all_packed, good, progress)
        if least is None:
            continue
        if not on_integers:
            return Found(_wider(least), alone)
        more = _widened(orders, nbytes, all_packed, outputs.roomy, progress)
        tried = [least] if more is None or _added(least, more, nbytes) > MORE else [*dict.fromkeys((least, more))]
        found = [_fewest(alone, _wider(one), good, progress) or one for one in tried]
        return Found(min(found, key=lambda one: len(one.layers)), alone)
    return None


def one_alone(
    rows: Sequence[LayerReport], measured: Callable[[Floats], Measured], progress: Progress
) -> Dict[str, Measured]:
    """What outputs are like with each layer alone as it was asked for, and all others on floats."""
    layers = list(dict.fromkeys(row.layer for row in rows))
    everything = frozenset(layers)
    return _one_by_one(layers, lambda one: measured(Floats(everything - {one})), "measure layers", progress)


def alone_ratios(each: Mapping[str, Measured]) -> Dict[str, float]:
    """The ratios of these outputs in dB, the lowest first."""
    return {layer: ratio for ratio, layer in sorted((one.ratio, layer) for layer, one in each.items())}


def _wider(floats: Floats) -> Floats:
    """The layers of wider weights alone."""
    return floats._replace(layers=floats.layers - floats.packed, packed=frozenset())


def _added(few: Floats, many: Floats, nbytes: Mapping[str, int]) -> float:
    """The bytes that the wider weights of many add to those of few, as a share of those of all weights."""
    taken = [sum(nbytes[layer] for layer in floats.layers - floats.packed) for floats in (few, many)]
    return (taken[1] - taken[0]) / sum(nbytes.values())


def _one_by_one(
    layers: Sequence[str], measure: Callable[[str], Measured], what: str, progress: Progress
) -> Dict[str, Measured]:
    """What is measured of each layer. what: is being done, for who waits."""
    measured = {}
    for number, layer in enumerate(layers):
        progress(what, number, len(layers))
        measured[layer] = measure(layer)
    return measured


def by_excess(
    noise: Mapping[str, Mapping[str, float]], excess: Mapping[str, float], nbytes: Mapping[str, int]
) -> List[str]:
    """The layers in the order in which their weights become wider: each is the one that takes, for each of its bytes,
    the largest share of what has to go and is still there. Noise of layers adds up.

    noise: in each output, by layer. excess: the share of each output's noise that has to go.
    """
    total = {output: sum(one[output] for one in noise.values()) or 1.0 for output in excess}
    shares = {layer: {output: one[output] / total[output] for output in total} for layer, one in noise.items()}
    left = dict(excess)
    order: List[str] = []

    def gain(layer: str) -> Tuple[float, float]:
        taken = sum(min(left[output], share) for output, share in shares[layer].items())
        return taken / nbytes[layer], max(shares[layer].values(), default=0.0) / nbytes[layer]

    while len(order) < len(noise):
        order.append(max((layer for layer in noise if layer not in order), key=gain))
        left = {output: max(0.0, most - shares[order[-1]][output]) for output, most in left.items()}
    return order


def by_noise(noise: Mapping[str, Mapping[str, float]], nbytes: Mapping[str, int]) -> List[str]:
    """The layers in the order of the noise in the worst output for each of their bytes."""
    return sorted(noise, key=lambda layer: max(noise[layer].values(), default=0.0) / nbytes[layer], reverse=True)


def _fewest(
    worst: Iterable[str], wider: Floats, good: Callable[[Floats], bool], progress: Progress
) -> Optional[Floats]:
    """As few layers as possible on floats with packed weights, besides those of wider weights. None if not even all
    are good enough."""

    def with_packed(some: AbstractSet[str]) -> Floats:
        return Floats(wider.layers | some, frozenset(some), wider.wide)

    if wider.layers and good(wider):
        return wider
    rest = [layer for layer in worst if layer not in wider.layers]
    some = _least_float(rest, lambda some: good(with_packed(some)), progress)
    return None if some is None else with_packed(some)


def _widened(
    orders: Sequence[Sequence[str]],
    nbytes: Mapping[str, int],
    floats: Floats,
    good: Callable[[Floats], bool],
    progress: Progress,
) -> Optional[Floats]:
    """The layers, all on floats, with as few bytes of wider weights as possible: of the first ones of an order, that
    of which these have fewer bytes."""

    def with_wider(some: AbstractSet[str]) -> Floats:
        return floats._replace(packed=floats.layers - some)

    firsts = [_first_ones(order, lambda some: good(with_wider(some)), progress) for order in orders]
    some = min(filter(None, firsts), key=lambda first: sum(nbytes[layer] for layer in first), default=None)
    if some is None:
        return None
    wider = frozenset(_released(some, lambda some: good(with_wider(some)), progress))
    least = LEAST_SHARE * sum(nbytes[layer] for layer in wider)
    large = sorted((layer for layer in wider if nbytes[layer] > least), key=lambda one: -nbytes[one])
    for number, layer in enumerate(large):
        progress("pack weights again", number, len(large))
        wider = wider - {layer} if good(with_wider(wider - {layer})) else wider
    return with_wider(wider)


def _least_float(
    worst: Sequence[str], good_with_float: Callable[[AbstractSet[str]], bool], progress: Progress
) -> Optional[AbstractSet[str]]:
    """The layers that stay float: of the first ones, as few as are good enough. None if not even all of them are.

    good_with_float: whether the pair is good enough if these layers are float and the others quantised.
    """
    first = _first_ones(worst, good_with_float, progress)
    return None if first is None else frozenset(_released(first, good_with_float, progress))


def _first_ones(
    worst: Sequence[str], good_with_float: Callable[[AbstractSet[str]], bool], progress: Progress
) -> Optional[Sequence[str]]:
    """The first ones, as few as are good enough, found by halving. None if not even all of them are."""
    few, many = 0, len(worst)
    if not good_with_float(set(worst)):
        return None
    while few + 1 < many:
        middle = (few + many) // 2
        progress("try layers as floats", middle, len(worst))
        few, many = (few, middle) if good_with_float(set(worst[:middle])) else (middle, many)
    return worst[:many]


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
