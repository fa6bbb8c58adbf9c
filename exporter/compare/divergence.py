"""Finds the blobs in which two runs of one network differ, and suggests a cause."""

from __future__ import annotations

from itertools import product
from typing import AbstractSet, Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from exporter.common.original_run import OriginalBlob, OriginalRun
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.registry.families import families_of

Operators = Sequence[OperatorDef]

ROUNDING = 2 * float(np.finfo(np.float32).eps)  # absolute: the accuracy of onnxruntime's sigmoid and similar functions
CLOSE = 1e-4  # of the largest magnitude: a difference up to here counts as explained
_FURTHEST = 2  # the largest shift of a picture, in pixels, that is tried
NEAR_ONE = 0.1  # a factor within this distance of 1 suggests an epsilon, any other a scale

PADDING = "padding: its amount, its side, or whether averages count it"
CEIL_MODE = "ceil mode: whether a window that is not whole counts"
LAYOUT = "layout: NCHW and NHWC, or a transposition"
CHANNEL_ORDER = "channel order: RGB and BGR"
EPSILON = "epsilon: that of a normalisation, or one that prevents a division by zero"
QUANTISATION = "quantisation: the steps of integers, or values beyond the calibrated range; armnet diff tells its cost"
INTEGERS = "rounding or saturation of integers"
RESIZE_ROUNDING = "resize rounding: how coordinates are transformed, and which pixel is nearest"

_POOLS, _RESIZES, _WINDOWS = ("Pool",), ("Resize", "Upsample", "Interp"), ("Conv", "Pool")
_NORMALISATIONS = ("BN", "Norm", "MVN", "LRN")


class Divergence(NamedTuple):
    """How one blob differs. ``error`` is relative to the original's largest magnitude; ``cause`` is a guess, or ""."""

    blob: str
    producer: str
    shape: Any
    error: float
    diverges: bool
    cause: str


def divergences(
    original: OriginalRun, ours: Mapping[str, Array], producers: Mapping[str, OperatorDef], tolerance: float
) -> List[Divergence]:
    """One entry for each blob that is in both runs, in the original's order. producers: the operator that writes each
    blob.
    """
    shown = {one.blob for one in original.blobs}
    return [
        _compare(one, ours[one.blob], _operators_behind(one.blob, producers, shown), tolerance, original.exact)
        for one in original.blobs
        if one.blob in ours
    ]


def _operators_behind(blob: str, producers: Mapping[str, OperatorDef], shown: AbstractSet[str]) -> Operators:
    """The operators that compute the blob from other blobs that the original shows, the last operator first."""
    found: Dict[int, OperatorDef] = {}
    waiting = [blob]
    while waiting:
        op = producers.get(waiting.pop(0))
        if op is not None and id(op) not in found:
            found[id(op)] = op
            waiting += [name for name in op.input if name not in shown]
    return tuple(found.values())


def _compare(original: OriginalBlob, ours: Array, made_by: Operators, tolerance: float, exact: bool) -> Divergence:
    theirs, name, producer = original.value, original.name, made_by[0].signature() if made_by else ""
    if theirs.shape != ours.shape:
        cause = _cause_of_shape(theirs.shape, ours.shape, made_by)
        text = f"the shape is {ours.shape} where the original has {theirs.shape}: {cause}"
        return Divergence(name, producer, list(ours.shape), float("inf"), True, text)
    error = relative_error(theirs, ours)
    if theirs.dtype.kind in "iu" and ours.dtype.kind in "iu":
        apart = np.abs(theirs.astype(np.int64) - ours.astype(np.int64))
        diverges = bool(apart.any()) if exact else bool(apart.size and np.mean(apart > 1) > 0.01)
    else:
        diverges = not error <= tolerance
    cause = likely_cause(theirs, ours, made_by) if diverges else ""
    return Divergence(name, producer, list(ours.shape), error, diverges, cause)


def relative_error(theirs: Array, ours: Array) -> float:
    """The largest difference over the largest magnitude of ``theirs``; infinite if NaN or infinities differ.

    0 for floats that differ by at most ROUNDING everywhere: relative errors of tiny values mean nothing.
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


def _cause_of_shape(theirs: Sequence[int], ours: Sequence[int], made_by: Operators) -> str:
    if sorted(theirs) == sorted(ours):
        return LAYOUT
    if _is(made_by, _POOLS) and all(abs(n - m) <= 1 for n, m in zip(theirs, ours)):
        return CEIL_MODE
    if _is(made_by, _RESIZES):
        return RESIZE_ROUNDING
    return f"{PADDING}; or a stride" if _is(made_by, _WINDOWS) else "an axis, or sizes that follow from others"


def _is(made_by: Operators, words: Sequence[str]) -> bool:
    return any(word in op.type for op in made_by for word in words)


def likely_cause(theirs: Array, ours: Array, made_by: Operators = ()) -> str:
    """The usual cause for two blobs of equal shape to differ in this way, given the operators that compute them."""
    a, b = theirs.astype(np.float64), ours.astype(np.float64)
    if not np.isfinite(b).all() and np.isfinite(a).all():
        return f"infinities or NaN that the original does not have: a division by zero; {EPSILON}"
    if theirs.dtype.kind in "iu":
        return INTEGERS
    return _cause_of_places(a, b, made_by) or _cause_of_factors(a, b, made_by) or _cause_by_type(made_by)


def _cause_of_places(a: Array, b: Array, made_by: Operators) -> str:
    """A cause from the places where the blobs differ, or from a rearrangement of their values."""
    for axis in _channel_axes(a):
        if a.shape[axis] > 1 and _close(np.flip(a, axis), b):
            return f"{CHANNEL_ORDER}; the channels are reversed"
    if _only_at_the_border(a, b):
        if _is(made_by, _RESIZES):
            return RESIZE_ROUNDING
        return (
            f"{PADDING}; or {CEIL_MODE}: only the border differs"
            if _is(made_by, _POOLS)
            else (f"{PADDING}: only the border differs")
        )
    shift = _shift(a, b)
    if shift is not None:
        return RESIZE_ROUNDING if _is(made_by, _RESIZES) else f"{PADDING}: the picture is shifted by {shift} pixels"
    if _close(np.sort(a, axis=None), np.sort(b, axis=None)):
        return f"{LAYOUT}: the same values in another order"
    return ""


def _channel_axes(a: Array) -> Tuple[int, ...]:
    return (1, a.ndim - 1) if a.ndim == 4 else (a.ndim - 1,) if a.ndim == 3 else ()


def _shift(a: Array, b: Array) -> Optional[Tuple[int, int]]:
    """The rows and columns by which one picture is shifted, if this is the only difference of their interiors."""
    for first in (2, 1) if a.ndim == 4 else ():
        inner, image = (slice(None),) * first, a.shape[first : first + 2]
        for down, right in product(range(-_FURTHEST, _FURTHEST + 1), repeat=2):
            if (down or right) and min(image) > 4 * _FURTHEST:
                middle = tuple(slice(_FURTHEST, n - _FURTHEST) for n in image)
                moved = tuple(slice(_FURTHEST + by, n - _FURTHEST + by) for n, by in zip(image, (down, right)))
                if _close(a[inner + middle], b[inner + moved]):
                    return down, right
    return None


def _only_at_the_border(a: Array, b: Array) -> bool:
    """Whether the pictures agree except at the border; the channels are dimension 1 or the last one."""
    if a.ndim != 4:
        return False
    wrong = np.abs(a - b) > CLOSE * max(np.abs(a).max(), 1e-30)
    middle = slice(2, -2)
    for first, image in ((2, a.shape[2:]), (1, a.shape[1:3])):
        inner = wrong[(slice(None),) * first + (middle, middle)]
        if min(image) > 4 and not inner.any():
            return bool(wrong.any())
    return False


def _cause_of_factors(a: Array, b: Array, made_by: Operators) -> str:
    """A cause from constant factors and offsets, of all values or of each channel."""
    factor = _factor(a, b)
    if factor is not None:
        near = abs(factor - 1) < NEAR_ONE
        what = EPSILON if near or _is(made_by, _NORMALISATIONS) else "a scale"
        return f"a constant factor of {factor:.6g}: {what}"
    offset = b - a
    if np.ptp(offset) <= CLOSE * max(np.abs(a).max(), 1e-30):
        return f"a constant offset of {float(offset.mean()):.6g}: a bias or a zero point"
    for axis in _channel_axes(a):
        if _is_affine_by_slice(np.moveaxis(a, axis, 0), np.moveaxis(b, axis, 0)):
            return f"a factor and an offset for each channel: {EPSILON}; or weights of a normalisation"
    return ""


def _is_affine_by_slice(a: Array, b: Array) -> bool:
    """Whether each slice of ``b`` is the slice of ``a``, scaled and shifted."""
    for theirs, ours in zip(a.reshape(len(a), -1), b.reshape(len(b), -1)):
        spread = theirs - theirs.mean()
        norm = float(np.vdot(spread, spread))
        if len(spread) < 4 or norm == 0.0:
            return False
        slope = float(np.vdot(spread, ours)) / norm
        if not np.allclose(ours - ours.mean(), slope * spread, atol=CLOSE * np.abs(theirs).max()):
            return False
    return True


def _cause_by_type(made_by: Operators) -> str:
    if any(_is_quantised(op) for op in made_by):
        return QUANTISATION
    if _is(made_by, _RESIZES):
        return RESIZE_ROUNDING
    if _is(made_by, _NORMALISATIONS):
        return f"{EPSILON}; or the window or axes of the normalisation"
    if _is(made_by, _WINDOWS):
        return f"{PADDING}; or strides, dilations or weights"
    return "different arithmetic: weights, or an ignored attribute"


def _is_quantised(op: OperatorDef) -> bool:
    declared_in = [family for family in families_of(op.domain, op.type) if family.startswith("operators.")]
    return bool(declared_in) and all(family.startswith("operators.quantised.") for family in declared_in)


def _close(a: Array, b: Array) -> bool:
    return bool(np.abs(a - b).max(initial=0.0) <= CLOSE * np.abs(a).max(initial=1e-30))


def _factor(a: Array, b: Array) -> Optional[float]:
    norm = float(np.vdot(a, a))
    if norm == 0.0:
        return None
    factor = float(np.vdot(a, b)) / norm
    return factor if abs(factor - 1.0) > CLOSE and _close(a * factor, b) else None
