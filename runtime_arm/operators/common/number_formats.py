"""Numbers that NumPy has no dtype for: integers of 2 and 4 bits, floats of 4, 8 and 16 bits.

A blob of such a format holds its numbers in the smallest dtype that has them all: integers in int8 or uint8, floats in
float32. Files store them as codes, several to a byte, the first in the lowest bits. Sources: onnx/docs (int4, int2,
float8, float4); the Open Compute Project's formats OFP8 and MX (2023).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Dict

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.records import NamedTuple


class Format(NamedTuple):
    """A format: bits of a number and the dtype that holds it. Floats: bits of exponent and fraction, the exponent's
    bias; special: "ieee" with infinities and NaN, "all ones" with NaN there, "negative zero" with NaN there, "none"."""

    bits: int
    carrier: np.dtype[Any]
    exponent: int = 0
    fraction: int = 0
    bias: int = 0
    special: str = "none"

    @property
    def is_integer(self) -> bool:
        return self.carrier.kind in "iu"

    @property
    def per_byte(self) -> int:
        """How many codes a byte holds; 0 for codes of two bytes."""
        return 8 // self.bits

    @property
    def low(self) -> int:
        """The least integer."""
        return -(1 << (self.bits - 1)) if self.carrier.kind == "i" else 0

    @property
    def high(self) -> int:
        """The largest integer."""
        return self.low + (1 << self.bits) - 1


_INT8, _UINT8, _FLOAT = np.dtype(np.int8), np.dtype(np.uint8), np.dtype(np.float32)
FORMATS: Dict[str, Format] = {
    "int2": Format(2, _INT8),
    "uint2": Format(2, _UINT8),
    "int4": Format(4, _INT8),
    "uint4": Format(4, _UINT8),
    "bfloat16": Format(16, _FLOAT, 8, 7, 127, "ieee"),
    "float8e4m3fn": Format(8, _FLOAT, 4, 3, 7, "all ones"),
    "float8e4m3fnuz": Format(8, _FLOAT, 4, 3, 8, "negative zero"),
    "float8e5m2": Format(8, _FLOAT, 5, 2, 15, "ieee"),
    "float8e5m2fnuz": Format(8, _FLOAT, 5, 2, 16, "negative zero"),
    "float8e8m0": Format(8, _FLOAT, 8, 0, 127, "all ones"),
    "float4e2m1": Format(4, _FLOAT, 2, 1, 1, "none"),
}


@lru_cache(None)
def table(name: str) -> Array:
    """The number of every code of a format of at most 8 bits, in its carrier; the caller must not change it."""
    form = FORMATS[name]
    codes = np.arange(1 << form.bits)
    if form.is_integer:
        return np.where(codes > form.high, codes - (1 << form.bits), codes).astype(form.carrier)
    if name == "float8e8m0":
        powers = np.full(codes.size, np.nan, np.float32)
        powers[:-1] = np.ldexp(1.0, codes[:-1] - form.bias)
        return powers
    sign, rest = codes >> (form.bits - 1), codes & ((1 << (form.bits - 1)) - 1)
    exponent, fraction = rest >> form.fraction, rest & ((1 << form.fraction) - 1)
    part = fraction / (1 << form.fraction)
    normal = np.ldexp(1 + part, exponent - form.bias)
    values = np.where(exponent == 0, np.ldexp(part, 1 - form.bias), normal)
    top = (1 << form.exponent) - 1
    if form.special == "ieee":
        values = np.where(exponent == top, np.where(fraction == 0, np.inf, np.nan), values)
    elif form.special == "all ones":
        values = np.where(rest == rest.max(), np.nan, values)
    values = np.where(sign == 1, -values, values)
    if form.special == "negative zero":
        values[1 << (form.bits - 1)] = np.nan
    return values.astype(np.float32)


def unpacked(packed: Array, name: str, count: int) -> Array:
    """The first ``count`` numbers of codes: uint8, or uint16 for formats of 16 bits, flat."""
    form = FORMATS[name]
    if name == "bfloat16":
        numbers: Array = (packed[:count].astype(np.uint32) << 16).view(np.float32)
        return numbers
    codes = packed
    if form.per_byte > 1:
        shifts = np.arange(form.per_byte, dtype=np.uint8) * np.uint8(form.bits)
        codes = ((packed[:, np.newaxis] >> shifts) & np.uint8((1 << form.bits) - 1)).reshape(-1)
    return np.take(table(name), codes[:count])


def packed(numbers: Array, name: str) -> Array:
    """The codes of numbers that the format has, flat: uint8, or uint16 for formats of 16 bits."""
    form = FORMATS[name]
    flat = numbers.reshape(-1)
    if name == "bfloat16":
        upper: Array = (flat.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        return upper
    codes = flat.view(np.uint8) & np.uint8((1 << form.bits) - 1) if form.is_integer else _codes(flat, name)
    if form.per_byte == 1:
        return codes
    rows = np.zeros((-(-codes.size // form.per_byte), form.per_byte), np.uint8)
    rows.reshape(-1)[: codes.size] = codes
    shifts = np.arange(form.per_byte, dtype=np.uint8) * np.uint8(form.bits)
    joined: Array = np.bitwise_or.reduce(rows << shifts, axis=1)
    return joined


def _codes(numbers: Array, name: str) -> Array:
    """The codes of floats of at most 8 bits, each of which the format has."""
    known = table(name)
    bits, order = known.view(np.uint32), np.argsort(known.view(np.uint32), kind="stable")
    wanted = numbers.astype(np.float32).view(np.uint32)
    codes = order[np.minimum(np.searchsorted(bits[order], wanted), known.size - 1)].astype(np.uint8)
    codes[np.isnan(numbers)] = np.flatnonzero(np.isnan(known))[0] if np.isnan(known).any() else 0
    return codes


def rounded(numbers: Array, name: str, saturate: bool = True, mode: str = "nearest") -> Array:
    """The numbers of the format that are nearest, ties to even, in the format's carrier.

    Integers keep their lowest bits. Floats beyond the largest number become it, or, unless ``saturate``, infinite or
    NaN; float4e2m1 always saturates, and bfloat16 never does. float8e8m0, which has powers of two alone, is rounded
    "up", "down" or to the "nearest".
    """
    form = FORMATS[name]
    if form.is_integer:
        low = numbers.astype(np.int64) & ((1 << form.bits) - 1)
        return np.where(low > form.high, low - (1 << form.bits), low).astype(form.carrier)
    exact = numbers.astype(np.float32)
    if name == "bfloat16":
        return _rounded_to_bfloat16(exact)
    if name == "float8e8m0":
        return _rounded_to_power(exact, saturate, mode)
    known = table(name)
    positive = known[: known.size // 2]
    positive = positive[np.isfinite(positive)].astype(np.float64)
    sizes = np.abs(exact.astype(np.float64))
    middles = (positive[:-1] + positive[1:]) / 2
    codes = np.searchsorted(middles, sizes, side="left")
    tie = (codes < middles.size) & (sizes == middles[np.minimum(codes, middles.size - 1)]) & (codes % 2 == 1)
    nearest = positive[codes + tie]
    beyond = positive[-1] + (positive[-1] - positive[-2]) / 2  # from here on the next number would be nearer
    if not saturate and form.special != "none":
        too_large = (sizes > beyond) | ((sizes == beyond) & (positive.size % 2 == 0))
        nearest = np.where(too_large, np.inf if form.special == "ieee" else np.nan, nearest)
    result: Array = np.asarray(np.copysign(nearest, exact), np.float32)
    if form.special == "negative zero":
        result = np.asarray(result + np.float32(0))
    if form.special == "none":  # no NaN: only the sign is kept, and zero has none
        result[np.isnan(exact)] = -0.0
    else:
        result[np.isnan(exact)] = np.nan
    return result


def _rounded_to_bfloat16(exact: Array) -> Array:
    bits = np.ascontiguousarray(exact).view(np.uint32)
    upper = (bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))) & np.uint32(0xFFFF0000)
    result: Array = upper.view(np.float32).reshape(exact.shape)
    result[np.isnan(exact)] = np.nan
    return result


def _rounded_to_power(exact: Array, saturate: bool, mode: str) -> Array:
    """Powers of two from 2**-127 to 2**127, the least also for 0; signs are dropped. Infinity and NaN become NaN."""
    bits = np.ascontiguousarray(exact).view(np.uint32)
    exponent, fraction = (bits >> np.uint32(23)).astype(np.int64) & 0xFF, bits & np.uint32(0x7FFFFF)
    if mode == "up":
        raised = fraction > 0
    elif mode == "nearest":
        half = np.uint32(0x400000)
        raised = (fraction > half) | ((fraction == half) & (exponent > 0))
    else:
        raised = np.zeros(exponent.shape, bool)
    if saturate:
        raised &= exponent < 0xFE
    code = np.where(exponent == 0xFF, 0xFF, exponent + raised)
    return np.take(table("float8e8m0"), code)
