"""Spectra: ONNX's DFT, STFT and MelWeightMatrix."""

from __future__ import annotations

from typing import Any, List, Optional

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.netdef.dtypes import dtype_of
from runtime_arm.operators.common.casting import cast
from runtime_arm.operators.common.dtypes import FLOATS, NUMBERS
from runtime_arm.registry.schema import axis_of, integers_of, operator, require, value_of
from runtime_arm.registry.specs import TensorSpec


def _one(op: OperatorDef, spec: Optional[TensorSpec], what: str) -> int:
    values = integers_of(op, spec, what)
    require(op, len(values) == 1, f"{what} must be one number", spec)
    return values[0]


def _dft_axis(op: OperatorDef, x: TensorSpec, axis: Optional[TensorSpec]) -> int:
    require(op, x.ndim >= 2 and x.shape[-1] in (1, 2), "X must be (..., 1) for real or (..., 2) for complex numbers", x)
    place = axis_of(op, -2 if axis is None else _one(op, axis, "axis"), x.ndim)
    require(op, place != x.ndim - 1, "the last dimension holds the parts of a number and cannot be transformed", x)
    return place


def _dft_length(op: OperatorDef, x: TensorSpec, length: Optional[TensorSpec], axis: int) -> int:
    size = 2 * (x.shape[axis] - 1) if op.get_bool("inverse") and op.get_bool("onesided") else x.shape[axis]
    size = size if length is None else _one(op, length, "dft_length")
    require(op, size > 0, f"the length of the transform must be positive, got {size}", x)
    return size


@operator("DFT", domain="onnx", inputs=(1, 3), dtypes=FLOATS)
def dft(
    op: OperatorDef, x: TensorSpec, length: Optional[TensorSpec] = None, axis: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """Y[k] = sum of X[n] exp(-2 pi i k n / N) along ``axis`` (-2). X is cut or padded with zeros to N = ``length``.

    X: (..., 1) real or (..., 2) complex; Y is complex. ``inverse``: the sign changes, and Y is divided by N.
    ``onesided``: only k up to N // 2, for real X; with inverse, the real signal that such a half belongs to.
    """
    at = _dft_axis(op, x, axis)
    size = _dft_length(op, x, length, at)
    inverse, onesided = op.get_bool("inverse"), op.get_bool("onesided")
    require(op, not onesided or inverse == (x.shape[-1] == 2), "onesided takes real X, or with inverse complex X", x)
    bins = size // 2 + 1 if onesided and not inverse else size
    return [x.with_shape((*x.shape[:at], bins, *x.shape[at + 1 : -1], 1 if onesided and inverse else 2))]


def _complex(x: Array) -> Any:
    """(..., 1) or (..., 2) as (...), complex if there are two parts."""
    exact = x.astype(np.float64)
    return exact[..., 0] if x.shape[-1] == 1 else exact[..., 0] + 1j * exact[..., 1]


def _parts(x: Array) -> Any:
    return np.stack([x.real, x.imag], axis=-1)


@dft.reference
def dft_reference(op: OperatorDef, x: Array, length: Optional[Array] = None, axis: Optional[Array] = None) -> List[Any]:
    spec = TensorSpec.known(x)
    at = _dft_axis(op, spec, None if axis is None else TensorSpec.known(axis))
    size = _dft_length(op, spec, None if length is None else TensorSpec.known(length), at)
    signal, onesided = _complex(x), op.get_bool("onesided")
    if op.get_bool("inverse"):
        y = np.fft.irfft(signal, size, at)[..., None] if onesided else _parts(np.fft.ifft(signal, size, at))
    else:
        y = _parts(np.fft.rfft(signal, size, at) if onesided else np.fft.fft(signal, size, at))
    return [y.astype(x.dtype)]


def _frame_length(op: OperatorDef, x: TensorSpec, window: Optional[TensorSpec], length: Optional[TensorSpec]) -> int:
    if length is not None:
        return _one(op, length, "frame_length")
    return x.shape[1] if window is None else window.size


@operator("STFT", domain="onnx", inputs=(2, 4), dtypes=FLOATS)
def stft(
    op: OperatorDef,
    x: TensorSpec,
    step: TensorSpec,
    window: Optional[TensorSpec] = None,
    length: Optional[TensorSpec] = None,
) -> List[TensorSpec]:
    """Y (N, frames, bins, 2): the DFT of each frame of X (N, samples), multiplied by the window (ones).

    X may also be (N, samples, 1), or (N, samples, 2) of complex numbers.

    Frames are ``length`` samples long (default: the window's length, else all) and ``step`` apart. ``onesided`` (1):
    only bins up to length // 2, for real X.
    """
    fits = x.ndim == 2 or (x.ndim == 3 and x.shape[2] in (1, 2))
    require(op, fits, "X must be (N, samples), (N, samples, 1) or (N, samples, 2)", x)
    hop, size = _one(op, step, "frame_step"), _frame_length(op, x, window, length)
    require(op, hop > 0 and 0 < size <= x.shape[1], f"frames of {size} samples, {hop} apart, do not fit into X", x)
    require(op, window is None or window.shape == (size,), f"the window must have {size} elements", x, window)
    onesided = op.get_bool("onesided", True)
    require(op, not onesided or x.shape[2:] in ((), (1,)), "onesided takes real numbers", x)
    return [x.with_shape((x.shape[0], (x.shape[1] - size) // hop + 1, size // 2 + 1 if onesided else size, 2))]


@stft.reference
def stft_reference(
    op: OperatorDef, x: Array, step: Array, window: Optional[Array] = None, length: Optional[Array] = None
) -> List[Any]:
    specs = [None if operand is None else TensorSpec.known(operand) for operand in (window, length)]
    hop, size = int(step.reshape(-1)[0]), _frame_length(op, TensorSpec.known(x), *specs)
    starts = np.arange(0, x.shape[1] - size + 1, hop)
    signal = x.astype(np.float64) if x.ndim == 2 else _complex(x)
    frames = signal[:, starts[:, None] + np.arange(size)]
    if window is not None:
        frames = frames * window.astype(np.float64)
    transform = np.fft.rfft if op.get_bool("onesided", True) else np.fft.fft
    return [_parts(transform(frames)).astype(x.dtype)]


def _dtype(op: OperatorDef) -> np.dtype[Any]:
    dtype = dtype_of(op.get_int("output_datatype", 1))
    if dtype is None or dtype.name not in NUMBERS:
        raise ArgumentError(op, f"output_datatype must be a number type, got {op.get_int('output_datatype')}")
    return dtype


_MEL = 2595 / np.log(10)


@operator("MelWeightMatrix", domain="onnx", inputs=5)
def mel_weight_matrix(
    op: OperatorDef, bands: TensorSpec, length: TensorSpec, rate: TensorSpec, lower: TensorSpec, upper: TensorSpec
) -> List[TensorSpec]:
    """Y (length // 2 + 1, bands): triangles of height 1, evenly spaced in mel from ``lower`` to ``upper`` hertz.

    ``length`` is that of the DFT, ``rate`` the number of samples per second. mel(f) = 2595 log10(1 + f / 700).
    """
    bins, count = _one(op, length, "dft_length") // 2 + 1, _one(op, bands, "num_mel_bins")
    edges = [float(value_of(op, spec, "edge_hertz").reshape(-1)[0]) for spec in (lower, upper)]
    require(
        op,
        0 <= edges[0] <= edges[1] <= _one(op, rate, "sample_rate") / 2,
        f"the edges must lie between 0 and half the sample rate, got {edges}",
    )
    return [TensorSpec((bins, count), _dtype(op))]


@mel_weight_matrix.reference
def mel_weight_matrix_reference(
    op: OperatorDef, bands: Array, length: Array, rate: Array, lower: Array, upper: Array
) -> List[Any]:
    count, size = int(bands.reshape(-1)[0]), int(length.reshape(-1)[0])
    low, high = (_MEL * np.log1p(float(edge.reshape(-1)[0]) / 700) for edge in (lower, upper))
    hertz = 700 * np.expm1((low + np.arange(count + 2) * (high - low) / (count + 2)) / _MEL)
    edges = np.floor((size + 1) * hertz / float(rate.reshape(-1)[0]))
    left, centre, right = edges[:-2], edges[1:-1], edges[2:]
    bins = np.arange(size // 2 + 1).reshape(-1, 1)
    rising = np.where(centre > left, (bins - left) / np.maximum(centre - left, 1), bins == centre)
    falling = (right - bins) / np.maximum(right - centre, 1)
    weights = np.where((bins >= left) & (bins <= centre), rising, 0)
    return [cast(np.where((bins >= centre) & (bins < right), falling, weights), _dtype(op))]
