"""Formats that NumPy lacks, against ml_dtypes: every code, rounding, ties, and codes packed into bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from runtime_arm.operators.common.number_formats import FORMATS, packed, rounded, table, unpacked

ML_DTYPES = {
    "int2": "int2",
    "uint2": "uint2",
    "int4": "int4",
    "uint4": "uint4",
    "bfloat16": "bfloat16",
    "float8e4m3fn": "float8_e4m3fn",
    "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2": "float8_e5m2",
    "float8e5m2fnuz": "float8_e5m2fnuz",
    "float8e8m0": "float8_e8m0fnu",
    "float4e2m1": "float4_e2m1fn",
}
FLOATS = [name for name, form in FORMATS.items() if not form.is_integer and name != "float8e8m0"]


def peer(name: str) -> Any:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed to compare with")
    return np.dtype(getattr(ml_dtypes, ML_DTYPES[name]))


def numbers(name: str) -> Any:
    """Floats of all sizes, those that the format has, and those in the middle between two of them."""
    rng = np.random.default_rng(0)
    wide = rng.standard_normal(5000) * np.exp(rng.uniform(-30, 30, 5000))
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0]
    if name == "bfloat16":
        wide = np.concatenate([wide, (np.arange(5000, dtype=np.uint32) << 15).view(np.float32)])
        return np.concatenate([wide, special]).astype(np.float32)
    known = np.sort(table(name)[np.isfinite(table(name))].astype(np.float64))
    edge = known[-1] + (known[-1] - known[-2]) / 2
    return np.concatenate([wide, known, (known[1:] + known[:-1]) / 2, [edge, -edge], special]).astype(np.float32)


def test_every_format_has_a_peer() -> None:
    assert set(ML_DTYPES) == set(FORMATS)


@pytest.mark.parametrize("name", [name for name, form in FORMATS.items() if form.bits == 8])
def test_codes(name: str) -> None:
    np.testing.assert_array_equal(table(name), np.arange(256, dtype=np.uint8).view(peer(name)).astype(np.float32))


@pytest.mark.parametrize("name", FLOATS)
def test_floats_are_rounded(name: str) -> None:
    x = numbers(name)
    with np.errstate(all="ignore"):
        expected = x.astype(peer(name)).astype(np.float32)
    actual = rounded(x, name, saturate=False)
    np.testing.assert_array_equal(actual, expected)
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(actual)[known], np.signbit(expected)[known])


@pytest.mark.parametrize("name", [name for name in FLOATS if name != "bfloat16"])
def test_floats_are_limited(name: str) -> None:
    x = numbers(name)
    largest = table(name)[np.isfinite(table(name))].max()
    with np.errstate(all="ignore"):
        expected = np.clip(x, -largest, largest).astype(peer(name)).astype(np.float32)
    np.testing.assert_array_equal(rounded(x, name), expected)


@pytest.mark.parametrize("name", [name for name, form in FORMATS.items() if form.is_integer])
def test_integers_keep_their_lowest_bits(name: str) -> None:
    x = np.arange(-300, 300, dtype=np.int32)
    np.testing.assert_array_equal(rounded(x, name), x.astype(peer(name)).astype(FORMATS[name].carrier))


@pytest.mark.parametrize(("mode", "powers"), [("up", [-127, 0, 1, 1, 2]), ("nearest", [-127, 0, 1, 1, 1])])
def test_powers_of_two(mode: str, powers: Any) -> None:
    x = np.array([0, 1, 1.5, 2, 2.75], np.float32)
    expected = np.ldexp(1.0, powers) if mode == "up" else [2.0**-127, 1, 2, 2, 2]
    np.testing.assert_array_equal(rounded(x, "float8e8m0", mode=mode), np.asarray(expected, np.float32))
    np.testing.assert_array_equal(
        rounded(x, "float8e8m0", mode="down"), np.asarray([2.0**-127, 1, 1, 2, 2], np.float32)
    )


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("count", [0, 1, 7, 300])
def test_packed_numbers_come_back(name: str, count: int) -> None:
    form = FORMATS[name]
    x = rounded(numbers("bfloat16")[-count - 5 : -5] if count else np.zeros(0, np.float32), name, saturate=False)
    if form.is_integer:
        x = rounded(np.arange(count), name)
    codes = packed(x, name)
    assert codes.dtype == (np.uint16 if form.bits == 16 else np.uint8)
    assert codes.size == -(-count * form.bits // codes.itemsize // 8)
    np.testing.assert_array_equal(unpacked(codes, name, count), x)


def test_the_first_number_is_in_the_lowest_bits() -> None:
    np.testing.assert_array_equal(packed(np.array([1, -2, 3], np.int8), "int4"), [0xE1, 0x03])
    np.testing.assert_array_equal(packed(np.array([1, 2, 3, 0, 2], np.uint8), "uint2"), [0b00111001, 0b10])
