"""Weights as ``UnpackInt4`` reads them: 4-bit integers in blocks of consecutive numbers, with a scale for each block.

A scale has four significant bits, lies within 2^16 of the largest of its weight, and has a sign, since integers go from
-8 to 7: the largest number of a block is best an eight (as in GGML's Q4_0).
"""

from __future__ import annotations

from typing import Tuple

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.operators.quantised.halves import joined_halves
from runtime_arm.operators.quantised.int4 import BIAS, BLOCK

LEAST, MOST = -8, 7
_SMALLEST, _LARGEST = 2.0**-100, 2.0**120  # of largest numbers, so that scales are no subnormals, nor infinite
_SHRUNK = 0.86  # of the scale that makes the largest number an eight: the least that is tried
_TRIED = 6  # scales, up to 1.5 times that one
_CHUNK = 1 << 13  # blocks that are searched at a time


def fits(weight: Array) -> bool:
    """Whether all numbers are finite, and there are scales for the largest one. Subnormals count as zeros."""
    largest = np.abs(weight).max(initial=0)
    return bool(largest < np.finfo(np.float32).tiny or _SMALLEST <= largest <= _LARGEST)  # of NaN nothing is true


def best_scales(weight: Array) -> Array:
    """The scales with which integers come closest to the numbers of their blocks: float32 (blocks)."""
    blocks = _blocks(weight)
    eighth = np.maximum(blocks.max(axis=1, initial=0), -blocks.min(axis=1, initial=0)) / 8
    largest = eighth.max(initial=0)
    largest = largest if largest >= _SMALLEST / 8 else np.float32(1)
    first = _number(np.maximum(eighth, largest * 2.0**-20) * _SHRUNK)
    highest = first.max() + _TRIED - 1 if first.size else 0
    first = np.maximum(first, (highest // 8 - 15) * 8)  # a byte holds 16 octaves
    scales = np.empty(len(blocks), np.float32)
    for start in range(0, len(blocks), _CHUNK):
        part = slice(start, start + _CHUNK)
        scales[part] = _best_of(blocks[part], first[part])
    return scales


def _best_of(blocks: Array, first: Array) -> Array:
    """The best of some scales for each block, from a number on."""
    furthest = np.take_along_axis(blocks, np.abs(blocks).argmax(axis=1)[:, np.newaxis], 1)[:, 0]
    signs = np.where(furthest > 0, -1, 1).astype(np.float32)
    octaves, places = np.divmod(first, 8)
    near_one = np.ldexp(blocks, -octaves[:, np.newaxis])  # so that squares neither overflow nor vanish
    best, least = np.zeros(len(blocks), np.float32), np.full(len(blocks), np.inf)
    for number in range(_TRIED):
        tried = _scale(places + number) * signs
        steps = np.clip(np.rint(near_one / tried[:, np.newaxis]), LEAST, MOST)
        error = np.square(steps * tried[:, np.newaxis] - near_one).sum(axis=1, dtype=np.float64)
        best, least = np.where(error < least, tried, best), np.minimum(error, least)
    return np.ldexp(best, octaves)


def rounded(weight: Array, scales: Array) -> Array:
    """The integers nearest to the weight: int8, of its shape."""
    return np.clip(np.rint(weight / scales_of_elements(weight, scales)), LEAST, MOST).astype(np.int8)


def scales_of_elements(weight: Array, scales: Array) -> Array:
    """The scale of each number of the weight, in its shape."""
    return np.asarray(np.repeat(scales, BLOCK)[: weight.size].reshape(weight.shape))


def scales_of_blocks(scales: Array) -> Array:
    """The other way round."""
    return scales.reshape(-1)[::BLOCK]


def joined(steps: Array, scales: Array) -> Tuple[Array, int]:
    """The bytes of integers of a weight and of the scales of its blocks, and the ``exponent`` of the operator."""
    fractions, exponents = np.frexp(np.abs(scales))
    lowest = exponents.max(initial=19 - BIAS) - 15
    codes = (scales < 0) * 128 + (exponents - lowest) * 8 + (fractions * 16 - 8).astype(int)
    numbers = np.zeros(-(-steps.size // 2) * 2, np.uint8)
    numbers[: steps.size] = steps.reshape(-1) + 8
    return np.concatenate([joined_halves(numbers), codes.astype(np.uint8)]), int(lowest) - 4 + BIAS


def _blocks(values: Array) -> Array:
    """Consecutive numbers in rows, the last of which is filled with zeros."""
    flat = np.zeros(-(-values.size // BLOCK) * BLOCK, values.dtype)
    flat[: values.size] = values.reshape(-1)
    return flat.reshape(-1, BLOCK)


def _number(scales: Array) -> Array:
    """The number of the next scale below, in the order of their size: 8 from each power of two to the next."""
    fractions, exponents = np.frexp(scales)
    return np.asarray(exponents * 8 + (fractions * 16).astype(int) - 8)


def _scale(number: Array) -> Array:
    return np.asarray(np.ldexp(8.0 + number % 8, number // 8 - 4), np.float32)
