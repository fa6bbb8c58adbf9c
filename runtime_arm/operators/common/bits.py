"""Masks of one bit an element: element i is bit i % 32 of the int32 word i // 32, the lowest bit first.

Bits beyond the last element are 0. A train net keeps such a mask for the backward pass instead of the blob itself.
"""

from __future__ import annotations

from math import prod
from typing import List, Tuple

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.registry.specs import Shape, TensorSpec

BITS = 32
BLOCK = 16384  # elements that a kernel packs at once; a multiple of BITS


def mask_spec(shape: Shape) -> TensorSpec:
    """The spec of the mask of a blob of this shape."""
    return TensorSpec((-(-prod(shape) // BITS),), np.int32)


def packed(flags: Array) -> Array:
    """The mask of an array of bools."""
    words = np.zeros(-(-flags.size // BITS), "<i4")
    octets = np.packbits(flags.reshape(-1), bitorder="little")
    words.view(np.uint8)[: octets.size] = octets
    return words.astype(np.int32)


def unpacked(mask: Array, shape: Shape) -> Array:
    """The bools of a mask of a blob of this shape."""
    octets = mask.astype("<i4").view(np.uint8)
    return np.unpackbits(octets, count=prod(shape), bitorder="little").astype(bool).reshape(shape)


def octets_of(mask: Array) -> Array:
    """The bytes of a mask in place; the machine has the lowest byte first, as every machine that runs armnet."""
    return mask.view(np.uint8)


def blocks(size: int) -> List[Tuple[slice, slice]]:
    """Consecutive elements, ``BLOCK`` at a time, with the bytes of the mask that hold their bits."""
    starts = range(0, size, BLOCK)
    return [(slice(at, min(at + BLOCK, size)), slice(at // 8, -(-min(at + BLOCK, size) // 8))) for at in starts]


def pack_positive(flat: Array, octets: Array, parts: List[Tuple[slice, slice]], flags: Array) -> None:
    """Writes the mask of flat > 0, block by block; ``flags`` holds ``BLOCK`` bools."""
    for elements, bytes_ in parts:
        chosen = flags[: elements.stop - elements.start]
        np.greater(flat[elements], 0, out=chosen)
        octets[bytes_] = np.packbits(chosen, bitorder="little")
    octets[-(-flat.size // 8) :] = 0


def keep_where_set(flat: Array, octets: Array, parts: List[Tuple[slice, slice]], out: Array) -> None:
    """out = flat where the mask is set, else 0, block by block; ``out`` may be ``flat``."""
    for elements, bytes_ in parts:
        chosen = np.unpackbits(octets[bytes_], count=elements.stop - elements.start, bitorder="little")
        np.multiply(flat[elements], chosen, out=out[elements])


__all__ = ["BLOCK", "blocks", "keep_where_set", "mask_spec", "octets_of", "pack_positive", "packed", "unpacked"]
