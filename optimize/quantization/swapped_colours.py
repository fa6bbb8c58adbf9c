"""Pictures with their colours swapped, where there are few pictures.

A few dozen pictures hold few of the colours that a network will meet, and an intermediate result may be twice as large
on a picture of others: a red flower is enough. The same pictures with their colours swapped stand for those that are
missing. Three channels of unlike ranges are no colours: swapped, they are nothing that the network will meet.
"""

from __future__ import annotations

from typing import Any, Collection, List, Optional, Sequence, Tuple

import numpy as np

from optimize.quantization.calibration import Sample
from runtime_arm.netdef import Array

ENOUGH = 100  # pictures, which hold colours enough
LEAST_SIDE = 8  # of a picture, in pixels
COLOURS = 3
MOST_UNLIKE = 2.0  # the widest range of a colour over the narrowest; a few photos have nearly all of each


def of_few_colours(samples: Sequence[Sample]) -> Tuple[str, ...]:
    """The inputs that are pictures of three colours; none if there are a hundred samples."""
    if not 0 < len(samples) < ENOUGH:
        return ()
    return tuple(name for name in samples[0] if _are_colours(samples, name))


def lacking(count: int) -> float:
    """For which share of so many samples another one is missing: all of up to 50, none of 100 or more."""
    return min(1.0, max(0.0, (ENOUGH - count) / max(count, 1)))


class WithSwappedColours(Sequence[Sample]):
    """Samples, a share of which, evenly spread, are followed by themselves with these inputs in other colours: red
    became green, green blue, and blue red."""

    def __init__(self, samples: Sequence[Sample], names: Collection[str], share: float = 1.0):
        self._samples, self._names = samples, names
        self._places: List[Tuple[int, bool]] = []  # of samples, and whether their colours are others
        for place in range(len(samples)):
            again = int((place + 1) * share) > int(place * share)
            self._places += [(place, False), (place, True)][: 1 + again]

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[place] for place in range(len(self))[index]]
        place, swapped = self._places[index]
        sample = self._samples[place]
        return {**sample, **{name: _swapped(np.asarray(sample[name])) for name in self._names}} if swapped else sample


def _are_colours(samples: Sequence[Sample], name: str) -> bool:
    """Whether an input is pictures whose three channels have ranges of about one width."""
    low, high = np.full(COLOURS, np.inf), np.full(COLOURS, -np.inf)
    for sample in samples:
        values = np.asarray(sample.get(name))
        axis = _axis(values)
        if axis is None:
            return False
        others = tuple(index for index in range(values.ndim) if index != axis)
        low, high = np.minimum(low, values.min(others)), np.maximum(high, values.max(others))
    widths = high - low
    return bool(widths.max() <= MOST_UNLIKE * widths.min())


def _axis(values: Array) -> Optional[int]:
    """The axis of a picture's colours, (N, 3, H, W) or (N, H, W, 3); None for what is no picture: floats or bytes."""
    if values.ndim != 4 or not values.size or not (values.dtype.kind == "f" or values.dtype == np.uint8):
        return None
    for axis, sides in ((1, values.shape[2:]), (3, values.shape[1:3])):
        if values.shape[axis] == COLOURS and min(sides) >= LEAST_SIDE:
            return axis
    return None


def _swapped(values: Array) -> Array:
    axis = _axis(values)
    return values if axis is None else np.roll(values, 1, axis)
