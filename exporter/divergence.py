"""Where two runs of one network part ways, and what is the likely cause."""

from __future__ import annotations

from typing import Any, List, Mapping, NamedTuple, Optional

import numpy as np

from runtime_arm.netdef import Array

ROUNDING = 2 * float(np.finfo(np.float32).eps)  # onnxruntime's sigmoid and its kin are exact to this, absolutely


class Divergence(NamedTuple):
    """How one blob differs. ``error`` is relative to the largest magnitude of the original; ``cause`` is a guess, ""
    where equal."""

    blob: str
    producer: str
    shape: Any
    error: float
    diverges: bool
    cause: str


def divergences(
    theirs: Mapping[str, Array], ours: Mapping[str, Array], producers: Mapping[str, str], tolerance: float
) -> List[Divergence]:
    """One entry a blob that both runs know, in the order of ``theirs``."""
    return [
        _compare(name, theirs[name], ours[name], producers.get(name, ""), tolerance) for name in theirs if name in ours
    ]


def _compare(name: str, theirs: Array, ours: Array, producer: str, tolerance: float) -> Divergence:
    if theirs.shape != ours.shape:
        guess = "layout (NCHW, NHWC) or an axis" if theirs.size == ours.size else "padding, ceil mode or stride"
        cause = f"the shape is {ours.shape} where the original has {theirs.shape}: {guess}"
        return Divergence(name, producer, list(ours.shape), float("inf"), True, cause)
    error = relative_error(theirs, ours)
    if theirs.dtype.kind in "iu" and ours.dtype.kind in "iu":
        diverges = bool(theirs.size and np.mean(np.abs(theirs.astype(np.int64) - ours.astype(np.int64)) > 1) > 0.01)
    else:
        diverges = not error <= tolerance
    return Divergence(name, producer, list(ours.shape), error, diverges, likely_cause(theirs, ours) if diverges else "")


def relative_error(theirs: Array, ours: Array) -> float:
    """The largest difference over the largest magnitude of ``theirs``; infinite where finiteness differs.

    0 for floats that are nowhere further apart than ROUNDING: a sigmoid that is small everywhere tells nothing.
    """
    if not theirs.size or theirs.dtype.kind not in "fiub":
        return 0.0 if np.array_equal(theirs, ours) else float("inf")
    a, b = theirs.astype(np.float64), ours.astype(np.float64)
    finite = np.isfinite(a)
    if not np.array_equal(finite, np.isfinite(b)) or not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return float("inf")
    difference = np.abs(a[finite] - b[finite]).max(initial=0.0)
    if theirs.dtype.kind == "f" and difference <= ROUNDING:
        return 0.0
    return float(difference / (np.abs(a[finite]).max(initial=0.0) or 1.0))


def likely_cause(theirs: Array, ours: Array) -> str:
    """What usually makes two blobs of equal shape differ in this way."""
    a, b = theirs.astype(np.float64), ours.astype(np.float64)
    if not np.isfinite(b).all() and np.isfinite(a).all():
        return "infinities or NaN that the original has not: epsilon, or a division by zero"
    if theirs.dtype.kind in "iu":
        return "rounding or saturation of integers"
    if a.ndim == 4:
        for axis, what in ((1, "channel order (RGB, BGR)"), (3, "channel order in the last axis, or mirrored columns")):
            if a.shape[axis] > 1 and _close(np.flip(a, axis), b):
                return what
        wrong = np.abs(a - b) > 1e-4 * max(np.abs(a).max(), 1e-30)
        if min(a.shape[2:]) > 4 and wrong.any() and not wrong[:, :, 2:-2, 2:-2].any():
            return "only the border differs: padding (its amount, its side, or whether averages count it) or ceil mode"
    if _close(np.sort(a, axis=None), np.sort(b, axis=None)):
        return "the same values in another order: layout (NCHW, NHWC) or a transposition"
    factor = _factor(a, b)
    if factor is not None:
        return f"a constant factor of {factor:.6g}: a scale, or an epsilon"
    offset = b - a
    if np.ptp(offset) <= 1e-4 * max(np.abs(a).max(), 1e-30):
        return f"a constant offset of {float(offset.mean()):.6g}: a bias or a zero point"
    return "different arithmetic: weights, epsilon, resize rounding or an attribute that is ignored"


def _close(a: Array, b: Array) -> bool:
    return bool(np.abs(a - b).max(initial=0.0) <= 1e-4 * np.abs(a).max(initial=1e-30))


def _factor(a: Array, b: Array) -> Optional[float]:
    norm = float(np.vdot(a, a))
    if norm == 0.0:
        return None
    factor = float(np.vdot(a, b)) / norm
    return factor if abs(factor - 1.0) > 1e-4 and _close(a * factor, b) else None
