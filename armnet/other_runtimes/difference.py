"""How far the answers of two runtimes are apart."""

from __future__ import annotations

from typing import Any, Optional, Sequence

import numpy as np

from runtime_arm.netdef import Array


def difference(ours: Sequence[Any], theirs: Sequence[Any]) -> Optional[float]:
    """How far two runs are apart: the largest error of any output, relative to its largest magnitude in ``theirs``.

    Outputs whose sizes differ, and those that are not numbers, are left out; None if none is left. NaN where the other
    has a number is infinitely far.
    """
    errors = [_error(np.asarray(getattr(a, "values", a)), np.asarray(b)) for a, b in zip(ours, theirs)]
    return max((error for error in errors if error is not None), default=None)


def _error(a: Array, b: Array) -> Optional[float]:
    if a.shape != b.shape and a.ndim == b.ndim == 4:
        b = np.moveaxis(b, -1, 1)
    if a.size != b.size or a.dtype.kind not in "fiub" or b.dtype.kind not in "fiub":
        return None
    a, b = a.reshape(-1).astype(np.float64), b.reshape(-1).astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    worst = float(np.where(same, 0.0, np.abs(a - b)).max(initial=0.0))
    return worst / (float(np.nanmax(np.abs(b), initial=0.0)) or 1.0) if np.isfinite(worst) else np.inf
