"""Pictures in other colours, where there are few.

A few dozen pictures hold few of the colours that a network will meet, and an intermediate result may be twice as large
on a picture of others: a red flower is enough. The same pictures with their colours exchanged stand for those that are
missing.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence

import numpy as np

from optimize.quantization.calibration import Sample
from runtime_arm.netdef import Array

ENOUGH = 100  # pictures, which hold colours enough
LEAST_SIDE = 8  # of a picture, in pixels
COLOURS = 3


def few_colours(samples: Sequence[Sample]) -> bool:
    """Whether they are fewer than a hundred pictures of three colours."""
    if not 0 < len(samples) < ENOUGH:
        return False
    return any(_colours(np.asarray(values)) is not None for values in samples[0].values())


class InTwoColours(Sequence[Sample]):
    """Samples, each followed by itself in other colours: red became green, green blue, and blue red."""

    def __init__(self, samples: Sequence[Sample]):
        self._samples = samples

    def __len__(self) -> int:
        return 2 * len(self._samples)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[place] for place in range(len(self))[index]]
        place = range(len(self))[index]
        sample = self._samples[place // 2]
        return {name: _turned(np.asarray(values)) for name, values in sample.items()} if place % 2 else sample


def _colours(values: Array) -> Optional[int]:
    """The axis of a picture's colours, (N, 3, H, W) or (N, H, W, 3); None for what is no picture."""
    if values.ndim != 4 or values.dtype.kind not in "uif":
        return None
    for axis, sides in ((1, values.shape[2:]), (3, values.shape[1:3])):
        if values.shape[axis] == COLOURS and min(sides) >= LEAST_SIDE:
            return axis
    return None


def _turned(values: Array) -> Array:
    axis = _colours(values)
    return values if axis is None else np.roll(values, 1, axis)
