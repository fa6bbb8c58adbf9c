"""What kernels that only move elements have in common: pairs of views, copied one after the other."""

from __future__ import annotations

from typing import Any, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.registry import Run


def copy_all(pairs: Sequence[Tuple[Array, Any]]) -> Run:
    """A run that copies each second view (or number) of the pairs into the first, broadcasting, in order."""
    pairs = [(target, source) for target, source in pairs if target.size]
    if len(pairs) == 1:
        only_target, only_source = pairs[0]
        return lambda: np.copyto(only_target, only_source)

    def run() -> None:
        for target, source in pairs:
            np.copyto(target, source)

    return run


def along(axis: int, start: int, stop: int) -> Tuple[slice, ...]:
    """The index that takes elements start..stop-1 of one dimension and all of the others."""
    return (slice(None),) * axis + (slice(start, stop),)
