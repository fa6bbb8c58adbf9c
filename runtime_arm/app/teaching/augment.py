"""Ways to vary a picture, so that a network learns to ignore such changes: pixels (H, W, C) of uint8 in and out."""

from __future__ import annotations

from typing import Callable, Dict, Sequence, Tuple

import numpy as np

from runtime_arm.errors import UsageError
from runtime_arm.netdef import Array

SMALLEST_CROP = 0.8  # of each side
BRIGHTNESS = 0.3  # the factor is from 1 - this to 1 + this

Way = Callable[[Array, np.random.RandomState], Array]


def mirrored(pixels: Array, random: np.random.RandomState) -> Array:
    """Left and right exchanged, every other time."""
    return pixels[:, ::-1] if random.randint(2) else pixels


def flipped(pixels: Array, random: np.random.RandomState) -> Array:
    """Top and bottom exchanged, every other time."""
    return pixels[::-1] if random.randint(2) else pixels


def cropped(pixels: Array, random: np.random.RandomState) -> Array:
    """A part of at least SMALLEST_CROP of each side, anywhere; the network's preparation brings it to size."""
    height, width = pixels.shape[:2]
    share = random.uniform(SMALLEST_CROP, 1)
    high, wide = max(1, round(height * share)), max(1, round(width * share))
    top, left = random.randint(height - high + 1), random.randint(width - wide + 1)
    return pixels[top : top + high, left : left + wide]


def brightened(pixels: Array, random: np.random.RandomState) -> Array:
    """Darker or brighter by up to BRIGHTNESS."""
    factor = np.float32(random.uniform(1 - BRIGHTNESS, 1 + BRIGHTNESS))
    varied: Array = np.clip(np.rint(pixels * factor), 0, 255).astype(np.uint8)
    return varied


WAYS: Dict[str, Way] = {"mirror": mirrored, "flip": flipped, "crop": cropped, "brightness": brightened}


def ways_of(text: str) -> Tuple[str, ...]:
    """The ways that a text names, "mirror,crop"; none for "none". UsageError for a name that there is not."""
    names = tuple(name.strip() for name in text.split(",") if name.strip() not in ("", "none"))
    unknown = [name for name in names if name not in WAYS]
    if unknown:
        raise UsageError(f"there is no augmentation {unknown[0]!r}; choose from none, {', '.join(WAYS)}")
    return names


def varied(pixels: Array, ways: Sequence[str], random: np.random.RandomState) -> Array:
    """The pixels after all of these ways, each with its own draw."""
    for name in ways:
        pixels = WAYS[name](pixels, random)
    return pixels
