"""TensorFlow Lite Micro's signal operators that keep samples from run to run, as inputs and outputs.

Source: tflite-micro, signal/src and signal/micro/kernels.
"""

from __future__ import annotations

from typing import Any, List

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec

_INT16 = np.iinfo(np.int16)


def _positive(op: OperatorDef, *names: str) -> List[int]:
    values = [op.get_int(name) for name in names]
    if min(values) < 1:
        raise ArgumentError(op, f"{' and '.join(names)} must be positive, got {values}")
    return values


def kept_by_framer(size: int, step: int) -> int:
    """The samples of each signal that a framer keeps."""
    return (size + step - 1) // step * step - step


@operator("SignalFramer", domain="tflite", inputs=3, outputs=4, dtypes=("int16",))
def framer(op: OperatorDef, x: TensorSpec, kept: TensorSpec, count: TensorSpec) -> List[TensorSpec]:
    """Frames (..., frames, frame_size) of signals (..., frames * frame_step), whether all are whole, kept, count.

    kept: the last samples of each signal, of which the last ``count`` int64 () are still to be used. A frame that has
    too few samples is 0.
    """
    size, step = _positive(op, "frame_size", "frame_step")
    require(op, x.ndim > 0 and x.size > 0 and x.shape[-1] % step == 0, f"X must be made of steps of {step}", x)
    rows = x.size // x.shape[-1]
    fits = kept.shape == (rows, kept_by_framer(size, step)) and kept.dtype == np.int16
    require(op, fits and count.shape == () and count.dtype == np.int64, "the kept samples do not fit", x, kept, count)
    y = x.with_shape((*x.shape[:-1], x.shape[-1] // step, size))
    return [y, TensorSpec((), np.bool_), kept, count]


@framer.reference
def framer_reference(op: OperatorDef, x: Array, kept: Array, count: Array) -> List[Any]:
    size, step = op.get_int("frame_size"), op.get_int("frame_step")
    rows, available, whole = x.reshape(len(kept), -1), min(max(int(count), 0), kept.shape[1]), True
    stream = np.concatenate([kept, rows], axis=1)
    y = np.zeros((len(rows), rows.shape[1] // step, size), np.int16)
    for frame in range(y.shape[1]):
        available += step
        end = kept.shape[1] + (frame + 1) * step
        if available < size:
            whole = False
            continue
        y[:, frame] = stream[:, end - available : end - available + size]
        available -= step
    left = stream[:, stream.shape[1] - kept.shape[1] :].copy()
    return [y.reshape(*x.shape[:-1], *y.shape[1:]), np.array(whole), left, np.array(available, np.int64)]


@operator("SignalStacker", domain="tflite", inputs=3, outputs=4, dtypes=("int16",))
def stacker(op: OperatorDef, x: TensorSpec, kept: TensorSpec, count: TensorSpec) -> List[TensorSpec]:
    """The last left_context + 1 + right_context frames X in a row, whether there are as many (bool), kept, count.

    kept: as many frames, of which the last ``count`` int64 () are still to be used, -1 before the first frame, which
    is repeated left_context times. ``step`` frames are dropped after each whole row; others are 0.
    """
    frames = 1 + op.get_int("left_context") + op.get_int("right_context")
    (step,) = _positive(op, "step")
    if op.get_int("left_context") < 0 or op.get_int("right_context") < 0 or step > frames:
        raise ArgumentError(op, f"contexts must not be negative, nor the step exceed {frames} frames")
    require(op, x.ndim == 1 and kept.shape == (frames, x.size) and kept.dtype == np.int16, "X must be a frame", x, kept)
    require(op, count.shape == () and count.dtype == np.int64, "the count must be one int64", count)
    return [x.with_shape((frames * x.size,)), TensorSpec((), np.bool_), kept, count]


@stacker.reference
def stacker_reference(op: OperatorDef, x: Array, kept: Array, count: Array) -> List[Any]:
    fresh = 1 + (op.get_int("left_context") if int(count) < 0 else 0)
    available = min(max(int(count), 0) + fresh, len(kept))
    frames = np.concatenate([kept, np.repeat(x[np.newaxis], fresh, axis=0)])[-len(kept) :]
    whole = available == len(kept)
    y = frames.reshape(-1) if whole else np.zeros(kept.size, np.int16)
    return [y.copy(), np.array(whole), frames, np.array(available - op.get_int("step") * whole, np.int64)]


@operator("SignalDelay", domain="tflite", inputs=2, outputs=2, dtypes=("int16",))
def delay(op: OperatorDef, x: TensorSpec, kept: TensorSpec) -> List[TensorSpec]:
    """Signals (..., n), later by the number of samples that are kept of each."""
    require(op, x.ndim > 0 and x.size > 0, "X must have samples", x)
    fits = kept.ndim == 2 and kept.shape[0] == x.size // x.shape[-1] and kept.dtype == np.int16
    require(op, fits, "the kept samples do not fit", x, kept)
    return [x, kept]


@delay.reference
def delay_reference(op: OperatorDef, x: Array, kept: Array) -> List[Any]:
    stream = np.concatenate([kept, x.reshape(len(kept), -1)], axis=1)
    length = x.shape[-1]
    return [stream[:, :length].reshape(x.shape).copy(), stream[:, length:].copy()]


@operator("SignalOverlapAdd", domain="tflite", inputs=2, outputs=2, dtypes=("int16", "float32"))
def overlap_add(op: OperatorDef, x: TensorSpec, kept: TensorSpec) -> List[TensorSpec]:
    """Signals (..., frames * frame_step) of frames (..., frames, size), each added ``frame_step`` after the one before.

    kept (signals, size): what is still to come. Sums of int16 saturate.
    """
    (step,) = _positive(op, "frame_step")
    require(op, x.ndim >= 2 and x.size > 0 and x.shape[-1] >= step, f"X must hold frames of {step} or more", x)
    rows, size = x.size // (x.shape[-1] * x.shape[-2]), x.shape[-1]
    require(op, kept.shape == (rows, size) and kept.dtype == x.dtype, "the kept samples do not fit", x, kept)
    return [x.with_shape((*x.shape[:-2], x.shape[-2] * step)), kept]


@overlap_add.reference
def overlap_add_reference(op: OperatorDef, x: Array, kept: Array) -> List[Any]:
    step, frames = op.get_int("frame_step"), x.reshape(len(kept), -1, x.shape[-1])
    y, left = np.empty((len(kept), frames.shape[1] * step), x.dtype), kept.copy()
    for frame in range(frames.shape[1]):
        if x.dtype == np.int16:
            total = left.astype(np.int64) + frames[:, frame]
            left = np.clip(total, _INT16.min, _INT16.max).astype(np.int16)
        else:
            left = left + frames[:, frame]
        y[:, frame * step : (frame + 1) * step] = left[:, :step]
        left = np.concatenate([left[:, step:], np.zeros((len(left), step), x.dtype)], axis=1)
    return [y.reshape(*x.shape[:-2], -1), left]
