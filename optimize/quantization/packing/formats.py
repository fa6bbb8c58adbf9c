"""The formats in which a weight can be stored, and how a float32 weight is packed into each.

    float16    Caffe2's HalfToFloat unpacks it. Half the bytes; 11 bits of fraction
    bfloat16   armnet's UnpackBfloat16. Half the bytes; 8 bits of fraction, but float32's range
    int8       ONNX's DequantizeLinear, one scale an index of one axis, of which a file needs 16 bits. A quarter of the
               bytes
    int4       armnet's UnpackInt4, a scale of one byte for each 32 numbers. 4.25 bits a number
    palette    armnet's UnpackPalette: 16 values found by k-means, and 4 bits a number

In int8 and int4, 0 stays 0. Scales are those of the least squared error, of a few candidates around the one that just
holds the largest magnitude (as GPTQ and llama.cpp search them).
"""

from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from optimize.quantization.packing import int4 as four_bits
from runtime_arm.errors import UsageError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.netdef.narrow import stored_nbytes
from runtime_arm.operators.common.casting import LARGEST_HALF
from runtime_arm.operators.quantised.halves import joined_halves

FLOAT32, FLOAT16 = "float32", "float16"
LEAST_HALF = 2.0**-16  # of numbers that float16 holds with nine bits or more

_SHRINKS = (1.0, 0.95, 0.9, 0.85, 0.8, 0.7)  # how much of the largest magnitude a scale holds; the rest saturates
_CHUNK = 1 << 18  # numbers that are searched at a time
_PALETTE_SAMPLE = 1 << 16
_PALETTE_ROUNDS = 25


class Packed(NamedTuple):
    """A weight as it is stored: constants by the ending of their names, and the operator that makes a float of them."""

    stored: Dict[str, Array]
    unpack: Callable[[Tuple[str, ...], str], OperatorDef]

    @property
    def nbytes(self) -> int:
        """Of all constants, in a file."""
        return sum(stored_nbytes(value) for value in self.stored.values())


class Grid(NamedTuple):
    """Where an integer weight may lie. scales: float32, of the weight's shape or broadcast to it, none 0. least, most:
    of the integers."""

    scales: Array
    least: int
    most: int


def float16(weight: Array, axis: int) -> Optional[Packed]:
    """None if a number is too large for float16, or if all are too small."""
    if not bool(np.all(np.abs(weight) <= LARGEST_HALF)) or _vanishes(weight):
        return None
    return Packed({"half": weight.astype(np.float16)}, _operator("HalfToFloat", ""))


def _vanishes(weight: Array) -> bool:
    """Whether float16 would leave few bits of even the largest number, or none. What is subnormal counts as zeros."""
    return bool(np.finfo(np.float32).tiny <= np.abs(weight).max(initial=0) < LEAST_HALF)


def bfloat16(weight: Array, axis: int) -> Optional[Packed]:
    """The upper halves of the float32s, rounded to nearest, ties to even. None if a number is not finite."""
    if not bool(np.isfinite(weight).all()):
        return None
    return Packed({"bfloat16": _upper_halves(weight)}, _operator("UnpackBfloat16", "armnet"))


def _upper_halves(values: Array) -> Array:
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded: Array = (bits + (0x7FFF + ((bits >> 16) & 1))) >> 16
    return rounded.astype(np.uint16)


def int8(weight: Array, axis: int) -> Optional[Packed]:
    """One scale for each index of ``axis``; integers from -127 to 127. None if a number is not finite."""
    if not bool(np.isfinite(weight).all()):
        return None
    rows = np.moveaxis(weight, axis, 0).reshape(weight.shape[axis], -1)
    scales = short_scales(_best_scales(rows, 127))
    steps = _steps(rows, scales, 127).astype(np.int8)
    moved = [weight.shape[axis], *np.delete(weight.shape, axis)]
    return _int8_of(np.moveaxis(steps.reshape(moved), 0, axis), scales, axis)


def short_scales(scales: Array) -> Array:
    """Positive float32 scales of 16 bits that are close to these: float16s where that holds all well enough, else
    bfloat16s. Integers are to be chosen by what is left."""
    if scales.size and scales.min() >= LEAST_HALF and scales.max() <= LARGEST_HALF:
        return scales.astype(np.float16).astype(np.float32)
    upper: Array = _upper_halves(scales).astype(np.uint32) << np.uint32(16)
    return upper.view(np.float32)


def _int8_of(steps: Array, scales: Array, axis: int) -> Packed:
    stored = {"int8": np.ascontiguousarray(steps), "scale": scales}
    return Packed(stored, _operator("DequantizeLinear", "onnx", axis=axis))


def int4(weight: Array, axis: int) -> Optional[Packed]:
    """Integers from -8 to 7 in blocks of consecutive numbers. None if a number is not finite, or no scale fits."""
    if not four_bits.fits(weight):
        return None
    scales = four_bits.best_scales(weight)
    return _int4_of(four_bits.rounded(weight, scales), scales, weight.shape)


def _int4_of(steps: Array, scales: Array, shape: Sequence[int]) -> Packed:
    packed, exponent = four_bits.joined(steps, scales)
    unpack = _operator("UnpackInt4", "armnet", shape=list(shape), exponent=exponent)
    return Packed({"int4": packed}, unpack)


def palette(weight: Array, axis: int) -> Optional[Packed]:
    """16 values for the whole weight, by k-means in one dimension. None if a number is not finite."""
    if not bool(np.isfinite(weight).all()):
        return None
    flat = weight.reshape(-1)
    centres = _centres(flat)
    numbers = np.zeros(-(-flat.size // 2) * 2, np.uint8)
    numbers[: flat.size] = np.searchsorted((centres[1:] + centres[:-1]) / 2, flat)
    unpack = _operator("UnpackPalette", "armnet", shape=list(weight.shape))
    return Packed({"palette4": joined_halves(numbers), "palette": centres}, unpack)


FORMATS: Dict[str, Callable[[Array, int], Optional[Packed]]] = {
    FLOAT16: float16,
    "bfloat16": bfloat16,
    "int8": int8,
    "int4": int4,
    "palette": palette,
}


def grid_of(name: str, weight: Array, axis: int) -> Optional[Grid]:
    """Where the weight lies in a format of integers; None for other formats, and for a weight that it cannot hold."""
    if name == "int4" and four_bits.fits(weight):
        scales = four_bits.best_scales(weight)
        return Grid(four_bits.scales_of_elements(weight, scales), four_bits.LEAST, four_bits.MOST)
    packed = int8(weight, axis) if name == "int8" else None
    if packed is None:
        return None
    scales = packed.stored["scale"].astype(np.float32)
    scales = np.where(scales > 0, scales, 1)
    return Grid(scales.reshape([-1 if at == axis else 1 for at in range(weight.ndim)]), -127, 127)


def packed_steps(name: str, steps: Array, grid: Grid, axis: int) -> Packed:
    """A weight that is rounded already: integers of the weight's shape on a grid."""
    if name == "int8":
        return _int8_of(steps, grid.scales.reshape(-1), axis)
    return _int4_of(steps, four_bits.scales_of_blocks(grid.scales), steps.shape)


def check_format(name: str) -> str:
    """The name of a format, or float32. UsageError, with the names, for another one."""
    if name != FLOAT32 and name not in FORMATS:
        raise UsageError(f"weights can be {FLOAT32}, {', '.join(FORMATS)}; got {name!r}")
    return name


def _operator(type: str, domain: str, **arguments: Any) -> Callable[[Tuple[str, ...], str], OperatorDef]:
    return lambda inputs, output: OperatorDef.of(type, inputs, [output], domain=domain, **arguments)


def _steps(rows: Array, scales: Array, most: int) -> Array:
    """rows / scales, rounded to nearest (ties to even) and saturated at +-most; 0 where the scale is 0."""
    with np.errstate(divide="ignore", over="ignore"):
        inverse = np.where(scales > 0, 1 / scales, 0).astype(np.float32)
    steps = rows * inverse[:, np.newaxis]
    np.rint(steps, out=steps)
    np.clip(steps, -most, most, out=steps)
    return steps


def _best_scales(rows: Array, most: int) -> Array:
    """For each row, the scale with which integers up to +-most come closest to it: float32 (rows), never 0."""
    scales = np.empty(len(rows), np.float32)
    count = max(1, _CHUNK // max(rows.shape[1], 1))
    for start in range(0, len(rows), count):
        part = rows[start : start + count]
        largest = np.abs(part).max(axis=1, initial=0).astype(np.float32) / np.float32(most)
        largest[largest < np.finfo(np.float32).tiny] = 1
        best, least = largest, np.full(len(part), np.inf)
        for shrink in _SHRINKS:
            tried = largest * np.float32(shrink)
            error = np.square(_steps(part, tried, most) * tried[:, np.newaxis] - part).sum(axis=1, dtype=np.float64)
            best, least = np.where(error < least, tried, best), np.minimum(error, least)
        scales[start : start + count] = best
    return scales


def _centres(values: Array) -> Array:
    """16 centres of k-means: float32, sorted. Starts at quantiles between the extremes; a sample stands for many."""
    stride = -(-values.size // _PALETTE_SAMPLE)
    sample = np.sort(values[::stride].astype(np.float64))
    low, high = float(values.min(initial=0)), float(values.max(initial=0))
    even = np.linspace(low, high, 16)
    centres = np.sort(0.5 * even + 0.5 * np.quantile(sample, np.linspace(0, 1, 16))) if sample.size else even
    sums = np.concatenate([[0.0], np.cumsum(sample)])
    for _ in range(_PALETTE_ROUNDS):
        cuts = np.searchsorted(sample, (centres[1:] + centres[:-1]) / 2)
        ends = np.concatenate([[0], cuts, [sample.size]])
        counts = np.diff(ends)
        means = np.diff(sums[ends]) / np.maximum(counts, 1)
        centres = np.sort(np.where(counts > 0, means, centres))
    return centres.astype(np.float32)
