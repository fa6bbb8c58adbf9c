"""The front end of microcontrollers' speech networks in fixed point: TensorFlow Lite Micro's signal operators.

Exact to the last bit. Those that keep something from run to run are in micro_buffers.py. Source: tflite-micro,
signal/src and signal/micro/kernels.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, List

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.audio.fixed_fft import Complex, FixedFourier, radices
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec

_INT16 = np.iinfo(np.int16)
_WORD = np.uint64(0xFFFFFFFF)


def _shift(op: OperatorDef, name: str, most: int = 31) -> int:
    shift = op.get_int(name)
    if not 0 <= shift <= most:
        raise ArgumentError(op, f"{name} must be 0 to {most}, got {shift}")
    return shift


def _length_of(values: Array) -> Array:
    """The number of bits of unsigned integers below 2**53, int64; 0 for 0."""
    return np.asarray(np.frexp(values.astype(np.float64))[1], np.int64)


@operator("SignalWindow", domain="tflite", inputs=2, dtypes=("int16",))
def window(op: OperatorDef, x: TensorSpec, w: TensorSpec) -> List[TensorSpec]:
    """Y = saturate(X W >> ``shift``), int16; W repeats along X."""
    _shift(op, "shift")
    fits = w.ndim == 1 and w.dtype == np.int16 and w.size > 0 and x.size % w.size == 0
    require(op, fits, "the window must be int16 and divide X", x, w)
    return [x]


@window.reference
def window_reference(op: OperatorDef, x: Array, w: Array) -> List[Any]:
    raw = (x.reshape(-1, w.size).astype(np.int64) * w) >> op.get_int("shift")
    return [np.clip(raw, _INT16.min, _INT16.max).astype(np.int16).reshape(x.shape)]


@operator("SignalFftAutoScale", domain="tflite", outputs=2, dtypes=("int16",))
def fft_auto_scale(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = X * 2**scale_bits, for the largest scale_bits, int32 (), with which no number overflows, 15 for zeros."""
    return [x, TensorSpec((), np.int32)]


@fft_auto_scale.reference
def fft_auto_scale_reference(op: OperatorDef, x: Array) -> List[Any]:
    largest = np.abs(x.astype(np.int64)).max(initial=0)
    bits = max(15 - int(_length_of(largest)), 0)
    return [(x.astype(np.int64) << bits).astype(np.int16), np.array(bits, np.int32)]


def _fourier(op: OperatorDef) -> int:
    """The argument fft_length, checked."""
    length = op.get_int("fft_length")
    if length < 2 or length % 2:
        raise ArgumentError(op, f"fft_length must be even and positive, got {length}")
    try:
        radices(length // 2)
    except ValueError as error:
        raise ArgumentError(op, f"fft_length is {length}; half of {error}") from error
    return length


@operator("SignalRfft", domain="tflite", dtypes=("int16", "int32", "float32"))
def rfft(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """The spectrum of X (..., n), with zeros up to ``fft_length``: fft_length / 2 + 1 pairs, real and imaginary parts.

    Integers are divided by fft_length, in fixed point as KISS FFT does.
    """
    length = _fourier(op)
    require(op, x.ndim > 0 and x.shape[-1] <= length, f"the last dimension must be at most {length}", x)
    return [x.with_shape((*x.shape[:-1], length + 2))]


@rfft.reference
def rfft_reference(op: OperatorDef, x: Array) -> List[Any]:
    length = op.get_int("fft_length")
    whole = np.zeros((*x.shape[:-1], length), x.dtype)
    whole[..., : x.shape[-1]] = x
    if x.dtype == np.float32:
        spectrum = np.fft.rfft(whole.astype(np.float64))
        parts = Complex(spectrum.real, spectrum.imag)
    else:
        parts = FixedFourier(x.dtype).of_real(whole)
    return [np.stack(parts, axis=-1).astype(x.dtype).reshape(*x.shape[:-1], length + 2)]


@operator("SignalIrfft", domain="tflite", dtypes=("int16", "int32", "float32"))
def irfft(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """The signal (..., ``fft_length``) of a spectrum of pairs; of integers in fixed point as KISS FFT computes it."""
    length = _fourier(op)
    require(op, x.ndim > 0 and x.shape[-1] == length + 2, f"the last dimension must be {length + 2}", x)
    return [x.with_shape((*x.shape[:-1], length))]


@irfft.reference
def irfft_reference(op: OperatorDef, x: Array) -> List[Any]:
    pairs = x.reshape(*x.shape[:-1], -1, 2)
    if x.dtype == np.float32:
        spectrum = pairs[..., 0].astype(np.float64) + 1j * pairs[..., 1]
        return [np.fft.irfft(spectrum, op.get_int("fft_length")).astype(np.float32)]
    parts = Complex(pairs[..., 0].astype(np.int64), pairs[..., 1].astype(np.int64))
    return [FixedFourier(x.dtype).to_real(parts).astype(x.dtype)]


@operator("SignalEnergy", domain="tflite", dtypes=("int16",))
def energy(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """The squared sizes of the complex numbers from ``start_index`` to before ``end_index``, uint32; 0 elsewhere."""
    require(op, x.ndim == 1 and x.size % 2 == 0, "X must be a vector of pairs", x)
    start, end = op.get_int("start_index"), op.get_int("end_index")
    if not 0 <= start <= end <= x.size // 2:
        raise ArgumentError(op, f"indices {start} to {end} do not lie within {x.size // 2} numbers")
    return [TensorSpec((x.size // 2,), np.uint32)]


@energy.reference
def energy_reference(op: OperatorDef, x: Array) -> List[Any]:
    sums = (x.astype(np.int64) ** 2).reshape(-1, 2).sum(1)
    place = np.arange(sums.size)
    return [
        np.where((place >= op.get_int("start_index")) & (place < op.get_int("end_index")), sums, 0).astype(np.uint32)
    ]


@operator("SignalFilterBank", domain="tflite", inputs=6, dtypes=("uint32",))
def filter_bank(op: OperatorDef, x: TensorSpec, *tables: TensorSpec) -> List[TensorSpec]:
    """Energies in ``num_channels`` overlapping bands, uint64.

    Tables, int16: weights, unweights; for each of num_channels + 1 bands where it starts in X and in the weights, and
    its width. A band's numbers count with their weights for it and with their unweights for the next.
    """
    count = op.get_int("num_channels")
    require(op, count > 0 and x.ndim == 1, "X must be a vector, num_channels positive", x)
    fits = all(table.ndim == 1 and table.dtype == np.int16 for table in tables)
    require(op, fits and tables[0].shape == tables[1].shape, "tables must be vectors of int16", *tables)
    require(op, all(table.size == count + 1 for table in tables[2:]), f"there must be {count + 1} bands", *tables)
    return [TensorSpec((count,), np.uint64)]


@filter_bank.reference
def filter_bank_reference(
    op: OperatorDef, x: Array, w: Array, u: Array, starts: Array, places: Array, widths: Array
) -> List[Any]:
    counts = np.maximum(widths.astype(np.int64), 0)
    band = np.repeat(np.arange(counts.size), counts)
    within = np.arange(band.size) - np.repeat(np.cumsum(counts) - counts, counts)
    met, at = starts[band].astype(np.int64) + within, places[band].astype(np.int64) + within
    for what, index, size in (("X", met, x.size), ("the weights", at, w.size)):
        if index.size and not 0 <= int(index.min()) <= int(index.max()) < size:
            raise ArgumentError(op, f"a band lies outside {what}")
    sums = [np.zeros(counts.size, np.uint64) for _ in range(2)]
    for total, weights in zip(sums, (w, u)):
        np.add.at(total, band, weights[at].astype(np.int64).astype(np.uint64) * x[met].astype(np.uint64))
    return [sums[0][1:] + sums[1][:-1]]


@operator("SignalFilterBankSquareRoot", domain="tflite", inputs=2, dtypes=("uint64",))
def filter_bank_square_root(op: OperatorDef, x: TensorSpec, scale_bits: TensorSpec) -> List[TensorSpec]:
    """Y = round(sqrt(X)) >> scale_bits, uint32; the root of less than 2**32 is at most 2**16 - 1, others 2**32 - 1."""
    require(op, scale_bits.size == 1 and scale_bits.dtype == np.int32, "scale_bits must be one int32", scale_bits)
    return [TensorSpec(x.shape, np.uint32)]


@filter_bank_square_root.reference
def filter_bank_square_root_reference(op: OperatorDef, x: Array, scale_bits: Array) -> List[Any]:
    one, limit = np.uint64(1), np.where(x >> np.uint64(32) == 0, np.uint64(0xFFFF), _WORD)
    root = np.minimum(np.sqrt(x.astype(np.float64)), 2.0**32 - 1).astype(np.uint64)
    root = np.where(root * root > x, root - one, root)
    root = np.where((root < _WORD) & ((root + one) * (root + one) <= x) & (root < limit), root + one, root)
    rest = x - root * root
    root = np.where((rest > root) & (root != limit), root + one, root)
    down = np.uint64(min(max(int(scale_bits.reshape(())), 0), 63))
    return [(root >> down).astype(np.uint32)]


_SUBTRACTION = ("smoothing", "one_minus_smoothing", "alternate_smoothing", "alternate_one_minus_smoothing")


@operator("SignalSpectralSubtraction", domain="tflite", inputs=2, outputs=2, dtypes=("uint32",))
def spectral_subtraction(op: OperatorDef, x: TensorSpec, noise: TensorSpec) -> List[TensorSpec]:
    """SignalFilterBankSpectralSubtraction: X minus the noise, and the new estimate of the noise, uint32.

    noise = (X 2**smoothing_bits smoothing + noise one_minus_smoothing) >> spectral_subtraction_bits, with the alternate
    numbers in odd channels; with ``clamping`` at most the scaled X. At least min_signal_remaining of X is left.
    """
    require(
        op, x.ndim == 1 and noise.shape == x.shape and noise.dtype == np.uint32, "the noise must be like X", x, noise
    )
    for name in ("smoothing_bits", "spectral_subtraction_bits"):
        _shift(op, name)
    return [x, noise]


@spectral_subtraction.reference
def spectral_subtraction_reference(op: OperatorDef, x: Array, noise: Array) -> List[Any]:
    even = np.arange(x.size) % 2 == 0
    numbers = [np.uint64(op.get_int(name) & 0xFFFFFFFF) for name in _SUBTRACTION]
    bits, down = np.uint64(op.get_int("smoothing_bits")), np.uint64(op.get_int("spectral_subtraction_bits"))
    wide = x.astype(np.uint64)
    scaled = (wide << bits) & _WORD
    fresh = scaled * np.where(even, numbers[0], numbers[2])
    fresh = fresh + noise.astype(np.uint64) * np.where(even, numbers[1], numbers[3])
    estimate = (fresh >> down) & _WORD
    limited = np.minimum(estimate, scaled)
    floor = ((wide * np.uint64(op.get_int("min_signal_remaining") & 0xFFFFFFFF)) >> down) & _WORD
    y = np.maximum((scaled - limited) >> bits, floor)
    kept = limited if op.get_bool("clamping") else estimate
    return [y.astype(np.uint32), kept.astype(np.uint32)]


_PCAN_SNR_BITS, _PCAN_BITS, _LEAST_GAINS = 12, 6, 125


@operator("SignalPCAN", domain="tflite", inputs=3, dtypes=("uint32",))
def pcan(op: OperatorDef, x: TensorSpec, noise: TensorSpec, gains: TensorSpec) -> List[TensorSpec]:
    """Per-channel automatic gain: Y = shrink((X gain(noise)) >> ``snr_shift``), uint32 with 6 bits after the point.

    shrink(s) is s**2 / 4 below 2, s - 1 above. gains, int16: for each power of two three numbers, of a quadratic piece.
    """
    _shift(op, "snr_shift", 63)
    require(op, noise.shape == x.shape and noise.dtype == np.uint32, "the noise must be like X", x, noise)
    fits = gains.ndim == 1 and gains.dtype == np.int16 and gains.size >= _LEAST_GAINS
    require(op, fits, f"the gains must be a vector of {_LEAST_GAINS} int16", gains)
    return [x]


def _gain(noise: Array, gains: Array) -> Array:
    """The gains as int16, int64."""
    x, table = noise.astype(np.int64), gains.astype(np.int64)
    interval = np.maximum(_length_of(x), 2)
    at = 4 * interval - 6
    part = np.where(interval < 11, x << np.maximum(11 - interval, 0), x >> np.maximum(interval - 11, 0)) & 0x3FF
    inner = (((table[at + 2] * part) >> 5) + (table[at + 1] << 5)) * part
    found = ((_signed(inner + (1 << 14))) >> 15) + table[at]
    return np.asarray(np.where(x <= 2, table[np.minimum(x, 2)], found).astype(np.int16), np.int64)


def _signed(values: Array) -> Array:
    """Modulo 2**32, from -2**31 on."""
    return np.asarray(values.astype(np.int32), np.int64)


@pcan.reference
def pcan_reference(op: OperatorDef, x: Array, noise: Array, gains: Array) -> List[Any]:
    gain = _gain(noise, gains).astype(np.uint64) & _WORD
    snr = ((x.astype(np.uint64) * gain) >> np.uint64(op.get_int("snr_shift"))) & _WORD
    low = (snr * snr) >> np.uint64(2 + 2 * _PCAN_SNR_BITS - _PCAN_BITS)
    high = (snr >> np.uint64(_PCAN_SNR_BITS - _PCAN_BITS)) - np.uint64(1 << _PCAN_BITS)
    return [np.where(snr < np.uint64(2 << _PCAN_SNR_BITS), low, high).astype(np.uint32)]


_LOG_SEGMENTS, _LOG_BITS = 128, 16


@lru_cache(maxsize=1)
def _logarithms() -> Array:
    """log2(1 + x) - x in steps of 2**-16, for x from 0 to 1 in steps of 1/128."""
    x = np.arange(_LOG_SEGMENTS + 1) / _LOG_SEGMENTS
    return np.asarray(np.floor((np.log2(1 + x) - x) * 2.0**_LOG_BITS + 0.5), np.int64)


@operator("SignalFilterBankLog", domain="tflite", dtypes=("uint32",))
def filter_bank_log(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = min(log(X << input_correction_bits) output_scale, 32767), int16; 0 where the argument is at most 1."""
    _shift(op, "input_correction_bits")
    op.get_int("output_scale")
    return [TensorSpec(x.shape, np.int16)]


@filter_bank_log.reference
def filter_bank_log_reference(op: OperatorDef, x: Array) -> List[Any]:
    word, half = 0xFFFFFFFF, 1 << (_LOG_BITS - 1)
    scaled = (x.astype(np.int64) << op.get_int("input_correction_bits")) & word
    value = np.maximum(scaled, 1)
    whole, table = _length_of(value) - 1, _logarithms()
    rest = value - (np.int64(1) << whole)
    rest = (rest << np.maximum(_LOG_BITS - whole, 0)) >> np.maximum(whole - _LOG_BITS, 0)
    segment = rest >> 9
    slope = table[np.minimum(segment + 1, _LOG_SEGMENTS)] - table[segment]
    fraction = rest + table[segment] + ((slope * (rest & 511)) >> _LOG_BITS)
    natural = (45426 * ((whole << _LOG_BITS) + fraction) + half) >> _LOG_BITS
    found = ((op.get_int("output_scale") * natural + half) & word) >> _LOG_BITS
    return [np.where(scaled > 1, np.minimum(found, _INT16.max), 0).astype(np.int16)]
