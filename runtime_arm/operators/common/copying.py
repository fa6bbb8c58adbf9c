"""Kernels that only move elements: a list of pairs of views, copied one after the other."""

from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.registry.kernel import Call, Run


def copy_all(pairs: Sequence[Tuple[Array, Any]], call: Optional[Call] = None) -> Run:
    """A run that copies the source of each pair (target, source) into its target, in order.

    Sources broadcast; they may be numbers. A pair whose source and target are the same memory is left out. With a
    ``call``, only its worker's part of each pair is copied; the sources must be arrays then.
    """
    if call is not None and call.workers > 1:
        pairs = [_part_of(call, target, source) for target, source in pairs]
    pairs = [(target, source) for target, source in pairs if target.size and not are_same(target, source)]
    if len(pairs) == 1:
        only_target, only_source = pairs[0]
        return lambda: np.copyto(only_target, only_source)

    def run() -> None:
        for target, source in pairs:
            np.copyto(target, source)

    return run


def are_same(one: Array, other: Any) -> bool:
    """Whether two arrays are the same elements of memory."""
    return isinstance(other, np.ndarray) and _layout(one) == _layout(other)


def _layout(array: Array) -> Tuple[Any, ...]:
    return array.__array_interface__["data"], array.shape, array.strides, array.dtype


def _part_of(call: Call, target: Array, source: Array) -> Tuple[Array, Array]:
    target = np.atleast_1d(target)
    mine = call.part(target.shape)
    return target[mine], np.broadcast_to(source, target.shape)[mine]


def along(axis: int, start: int, stop: int) -> Tuple[slice, ...]:
    """The index that selects the elements start..stop-1 of one dimension and everything of the others."""
    return (slice(None),) * axis + (slice(start, stop),)
