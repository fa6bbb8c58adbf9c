"""TensorFlow Lite Micro's signal operators against their published description, number by number in Python."""

from __future__ import annotations

import math
from typing import Any, List, Tuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_tests.suite.kernels import run_kernel
from runtime_arm.errors import OperatorError
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.audio.fixed_fft import Complex, FixedFourier

SEEDS = st.integers(0, 2**20)
few = settings(max_examples=30)


def ran(type: str, inputs: List[Any], outputs: int = 1, **arguments: Any) -> List[Any]:
    names = [f"x{index}" for index in range(len(inputs))], [f"y{index}" for index in range(outputs)]
    return run_kernel(OperatorDef.of(type, *names, domain="tflite", **arguments), inputs, "REFERENCE")


def whole(dtype: str, *shape: int, seed: int = 1) -> Any:
    limits = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(limits.min, int(limits.max) + 1, shape, dtype=dtype)


Pair = Tuple[int, int]


def rounded(value: int, bits: int) -> int:
    """Of a product, the fraction's bits; wraps."""
    return wrapped((value + (1 << (bits - 1))) >> bits, bits)


def wrapped(value: int, bits: int) -> int:
    return (value + (1 << bits)) % (1 << (bits + 1)) - (1 << bits)


def product(a: Pair, b: Pair, bits: int) -> Pair:
    return rounded(a[0] * b[0] - a[1] * b[1], bits), rounded(a[0] * b[1] + a[1] * b[0], bits)


def unit(phase: float, bits: int) -> Pair:
    most = (1 << bits) - 1
    return math.floor(0.5 + most * math.cos(phase)), math.floor(0.5 + most * math.sin(phase))


def divided(a: Pair, by: int, bits: int) -> Pair:
    return rounded(a[0] * (((1 << bits) - 1) // by), bits), rounded(a[1] * (((1 << bits) - 1) // by), bits)


def transform(x: List[Pair], bits: int, inverse: bool = False) -> List[Pair]:
    """KISS FFT's stages of radix 4 and 2, one butterfly after the other."""
    if len(x) == 1:
        return x
    radix = 4 if len(x) % 4 == 0 else 2
    size, sign = len(x) // radix, 1 if inverse else -1
    parts = [transform(x[place::radix], bits, inverse) for place in range(radix)]
    y: List[Pair] = [(0, 0)] * len(x)
    for u in range(size):
        phases = [sign * 2 * math.pi * u * place / len(x) for place in range(radix)]
        met = [divided(part[u], radix, bits) for part in parts]
        terms = met[:1] + [product(a, unit(phase, bits), bits) for a, phase in zip(met[1:], phases[1:])]
        for place in range(radix):
            turns = [(1, 0), (0, sign), (-1, 0), (0, -sign)] if radix == 4 else [(1, 0), (-1, 0)]
            real = imag = 0
            for index, (a, b) in enumerate(terms):
                c, d = turns[index * place % radix]
                real, imag = real + a * c - b * d, imag + a * d + b * c
            y[place * size + u] = wrapped(real, bits), wrapped(imag, bits)
    return y


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("dtype", ["int16", "int32"])
@pytest.mark.parametrize("length", [1, 2, 4, 8, 32, 64])
def test_the_stages_of_a_transform(length: int, dtype: str, inverse: bool) -> None:
    x = whole(dtype, 2, length, seed=length).astype(np.int64)
    y = FixedFourier(dtype).transform(Complex(*x), inverse)
    wanted = transform(list(zip(*x.tolist())), 8 * np.dtype(dtype).itemsize - 1, inverse)
    assert list(zip(y.real.tolist(), y.imag.tolist())) == wanted


@pytest.mark.parametrize("dtype", ["int16", "int32", "float32"])
@pytest.mark.parametrize("length", [2, 6, 10, 16, 30, 90, 480, 512])
def test_spectra_are_near_those_of_real_numbers(length: int, dtype: str) -> None:
    """Also of lengths with the factors 3 and 5. Each stage may be off by some units of the last bit."""
    real = np.random.default_rng(length).uniform(-0.9, 0.9, (2, length))
    unit_ = 1.0 if dtype == "float32" else float(np.iinfo(dtype).max)
    x = (real * unit_).astype(dtype)
    (y,) = ran("SignalRfft", [x], fft_length=length)
    exact = np.fft.rfft(x.astype(np.float64)) / (1 if dtype == "float32" else length)
    wanted = np.stack([exact.real, exact.imag], axis=-1).reshape(2, -1)
    assert y.dtype == dtype
    np.testing.assert_allclose(y, wanted, atol={"float32": 1e-4, "int16": 8, "int32": 1e6}[dtype])
    (back,) = ran("SignalIrfft", [wanted.astype(dtype)], fft_length=length)
    shrunk = x / (1 if dtype == "float32" else length)
    np.testing.assert_allclose(back, shrunk, atol={"float32": 1e-4, "int16": 8, "int32": 1e6}[dtype])


@pytest.mark.parametrize("bits", [15, 31])
def test_the_spectrum_of_real_numbers(bits: int) -> None:
    """As a transform of half the length, put together number by number."""
    dtype, length = ("int16" if bits == 15 else "int32"), 32
    x = whole(dtype, 20, seed=bits)
    (y,) = ran("SignalRfft", [x], fft_length=length)
    padded = [*x.tolist(), *[0] * 12]
    half, z = length // 2, transform(list(zip(padded[::2], padded[1::2])), bits)
    wanted = [(0, 0)] * (half + 1)
    ends = divided(z[0], 2, bits)
    wanted[0], wanted[half] = (ends[0] + ends[1], 0), (ends[0] - ends[1], 0)
    for k in range(1, half // 2 + 1):
        near, far = divided(z[k], 2, bits), divided((z[half - k][0], -z[half - k][1]), 2, bits)
        even = near[0] + far[0], near[1] + far[1]
        odd = product((near[0] - far[0], near[1] - far[1]), unit(-math.pi * (k / half + 0.5), bits), bits)
        wanted[k] = (even[0] + odd[0]) >> 1, (even[1] + odd[1]) >> 1
        wanted[half - k] = (even[0] - odd[0]) >> 1, (odd[1] - even[1]) >> 1
    assert y.tolist() == [part for pair in wanted for part in pair]


def test_window() -> None:
    x, w = whole("int16", 2, 24), whole("int16", 8, seed=2)
    (y,) = ran("SignalWindow", [x, w], shift=12)
    wanted = [min(max((a * w.tolist()[i % 8]) >> 12, -32768), 32767) for i, a in enumerate(x.reshape(-1).tolist())]
    assert y.reshape(-1).tolist() == wanted


@pytest.mark.parametrize(("most", "bits"), [(0, 15), (1, 14), (5, 12), (255, 7), (256, 6), (16384, 0), (32767, 0)])
def test_auto_scale(most: int, bits: int) -> None:
    x = np.array([-most, most // 2, 0], np.int16)
    y, scale = ran("SignalFftAutoScale", [x], 2)
    assert (y.tolist(), int(scale)) == ((x.astype(np.int64) << bits).tolist(), bits)


def test_energy() -> None:
    x = whole("int16", 20)
    x[6:8] = -32768
    (y,) = ran("SignalEnergy", [x], start_index=2, end_index=8)
    pairs = x.astype(np.int64).reshape(10, 2).tolist()
    assert y.tolist() == [a * a + b * b if 2 <= i < 8 else 0 for i, (a, b) in enumerate(pairs)]


@few
@given(st.lists(st.integers(0, 5), min_size=2, max_size=9), SEEDS)
def test_filter_bank(widths: List[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, w, u = whole("uint32", 40, seed=seed), *rng.integers(0, 4096, (2, 30)).astype(np.int16)
    starts, places = (rng.integers(0, size, len(widths)).astype(np.int16) for size in (35, 25))
    channels = len(widths) - 1
    (y,) = ran("SignalFilterBank", [x, w, u, starts, places, np.array(widths, np.int16)], num_channels=channels)
    weighted = unweighted = 0
    wanted = []
    for start, place, width in zip(starts.tolist(), places.tolist(), widths):
        for j in range(width):
            weighted += int(w[place + j]) * int(x[start + j])
            unweighted += int(u[place + j]) * int(x[start + j])
        wanted.append(weighted)
        weighted, unweighted = unweighted, 0
    assert y.tolist() == wanted[1:]


def test_square_roots() -> None:
    edges = [
        0,
        1,
        2,
        3,
        6,
        7,
        2**32 - 1,
        2**32 - 2**16,
        2**32,
        2**32 + 2**16,
        2**53 + 1,
        2**63,
        2**64 - 1,
        2**64 - 2**32,
    ]
    squares = [n * n + d for n in (3, 65535, 65536, 10**6, 3 * 10**9, 2**32 - 1) for d in (-1, 0, 1, n, n + 1)]
    x = np.array([*edges, *(n for n in squares if n < 2**64), *whole("uint64", 200).tolist()], np.uint64)
    (y,) = ran("SignalFilterBankSquareRoot", [x, np.array(3, np.int32)])
    for number, found in zip(x.tolist(), y.tolist()):
        root, limit = math.isqrt(number), 2**16 - 1 if number < 2**32 else 2**32 - 1
        root += number - root * root > root and root != limit
        assert found == root >> 3


@few
@given(st.booleans(), SEEDS)
def test_spectral_subtraction(clamping: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = (rng.integers(0, 2**22, 7)).astype(np.uint32)
    noise = rng.integers(0, 2**30, 7).astype(np.uint32)
    numbers = {"smoothing": 410, "one_minus_smoothing": 15974}
    numbers.update(alternate_smoothing=983, alternate_one_minus_smoothing=15401)
    arguments = {**numbers, "smoothing_bits": 10, "spectral_subtraction_bits": 14, "min_signal_remaining": 819}
    y, kept = ran("SignalSpectralSubtraction", [x, noise], 2, clamping=int(clamping), **arguments)
    for i, (signal, before) in enumerate(zip(x.tolist(), noise.tolist())):
        ahead, rest = (410, 15974) if i % 2 == 0 else (983, 15401)
        scaled = (signal << 10) % 2**32
        estimate = ((scaled * ahead + before * rest) >> 14) % 2**32
        assert int(y[i]) == max((scaled - min(estimate, scaled)) >> 10, (signal * 819) >> 14)
        assert int(kept[i]) == (min(estimate, scaled) if clamping else estimate)


@few
@given(SEEDS)
def test_gain_control(seed: int) -> None:
    rng = np.random.default_rng(seed)
    noise = (2 ** rng.uniform(0, 32, 60)).astype(np.uint64).astype(np.uint32)
    noise[:5] = range(5)
    x, gains = (2 ** rng.uniform(0, 30, 60)).astype(np.uint32), rng.integers(-9000, 9000, 125).astype(np.int16)
    gains[::4] = np.abs(gains[::4])
    (y,) = ran("SignalPCAN", [x, noise, gains], snr_shift=6)
    for signal, level, found in zip(x.tolist(), noise.tolist(), y.tolist()):
        table = gains.tolist()
        if level <= 2:
            gain = table[level]
        else:
            interval = level.bit_length()
            at = 4 * interval - 6
            part = (level << (11 - interval) if interval < 11 else level >> (interval - 11)) & 0x3FF
            inner = (((table[at + 2] * part) >> 5) + (table[at + 1] << 5)) * part + (1 << 14)
            gain = wrapped((wrapped(inner, 31) >> 15) + table[at], 15)
        snr = ((signal * (gain % 2**32)) % 2**64 >> 6) % 2**32
        wanted = (snr * snr % 2**64) >> 20 if snr < 2 << 12 else (snr >> 6) - 64
        assert found == wanted % 2**32


def test_logarithms() -> None:
    """Near the logarithm, and the exact integers at some places."""
    x = np.array([0, 1, 2, 3, 1000, 65535, 65536, 12345678, 2**31, 2**32 - 1], np.uint32)
    (y,) = ran("SignalFilterBankLog", [x], input_correction_bits=0, output_scale=1600)
    exact = np.minimum(np.log(np.maximum(x, 1)) * 1600, 32767)
    np.testing.assert_allclose(y, exact, atol=4)  # table
    assert y[[0, 1]].tolist() == [0, 0]
    assert y[2] == (1600 * 45426 + 32768) >> 16
    (shifted,) = ran("SignalFilterBankLog", [x], input_correction_bits=3, output_scale=64)
    wrapped_ = (x.astype(np.uint64) << np.uint64(3)) % 2**32
    np.testing.assert_allclose(
        shifted, np.where(wrapped_ > 1, np.log(np.maximum(wrapped_, 1)) * 64, 0), atol=1
    )  # table


@pytest.mark.parametrize(
    ("type", "inputs", "arguments", "reason"),
    [
        ("SignalRfft", [whole("int16", 9)], {"fft_length": 8}, "at most 8"),
        ("SignalRfft", [whole("int16", 9)], {"fft_length": 14}, "a product of 2, 3 and 5"),
        ("SignalRfft", [whole("int16", 9)], {"fft_length": 15}, "must be even"),
        ("SignalIrfft", [whole("int16", 9)], {"fft_length": 8}, "must be 10"),
        ("SignalWindow", [whole("int16", 9), whole("int16", 4)], {"shift": 1}, "must be int16 and divide X"),
        ("SignalWindow", [whole("int16", 8), whole("int16", 4)], {"shift": 40}, "shift must be 0 to 31"),
        ("SignalEnergy", [whole("int16", 8)], {"start_index": 2, "end_index": 5}, "do not lie within 4"),
        ("SignalPCAN", [whole("uint32", 8)] * 2 + [whole("int16", 8)], {"snr_shift": 6}, "a vector of 125"),
        ("SignalFilterBank", [whole("uint32", 8), *[whole("int16", 4)] * 5], {"num_channels": 2}, "there must be 3"),
        (
            "SignalFilterBank",
            [whole("uint32", 8), *[np.full(3, 9, np.int16)] * 5],
            {"num_channels": 2},
            "lies outside X",
        ),
    ],
)
def test_refusals(type: str, inputs: Any, arguments: Any, reason: str) -> None:
    with pytest.raises(OperatorError, match=reason):
        ran(type, inputs, **arguments)
