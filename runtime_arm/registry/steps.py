"""The building blocks of kernels: NumPy calls with all arguments bound, run one after the other."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Callable, Iterator, List, Sequence

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.registry.kernel import Phases, Run

Step = Callable[[], Any]

LINE = 64  # bytes of a cache line
ZERO, ONE = np.zeros((), np.float32), np.ones((), np.float32)


def barrier() -> None:
    """A step that does nothing itself: the steps after it may read what other workers wrote before theirs."""


def in_turn(steps: Sequence[Step]) -> Run:
    """One function that runs the steps in order."""
    fixed = tuple(steps)
    if len(fixed) == 1:
        return fixed[0]

    def run() -> None:
        for step in fixed:
            step()

    return run


def in_phases(steps: Sequence[Step], in_turn: Callable[[Sequence[Step]], Run] = in_turn) -> Run:
    """The same, with a phase before each ``barrier`` and one after the last."""
    ends = [at for at, step in enumerate(steps) if step is barrier]
    if not ends:
        return in_turn(steps)
    bounds = zip([0, *(end + 1 for end in ends)], [*ends, len(steps)])
    return Phases([in_turn(steps[begin:end]) for begin, end in bounds])


def copy(target: Array, source: Array) -> Step:
    return partial(np.copyto, target, source)


def shaped(buffer: Array, *shape: int) -> Array:
    """The beginning of a scratch buffer as an array of this shape."""
    return buffer[: math.prod(shape)].reshape(shape)


def multiply(a: Array, b: Array, out: Array) -> Step:
    """out = a @ b; leading dimensions broadcast."""
    return partial(np.matmul, a, b, out=out)


def margins(target: Array, inside: Sequence[slice]) -> Iterator[Array]:
    """The elements outside ``inside``, which indexes the last dimensions, as views that do not overlap."""
    rest: List[Any] = [slice(None)] * target.ndim
    for axis, kept in enumerate(inside, target.ndim - len(inside)):
        for margin in (slice(0, kept.start), slice(kept.stop, target.shape[axis])):
            if margin.start < margin.stop:
                rest[axis] = margin
                yield target[tuple(rest)]
        rest[axis] = kept


def in_lines(array: Array) -> Array:
    """A contiguous copy that starts at a cache line: if rows are whole vectors, no vector straddles two lines."""
    memory = np.empty(array.size + LINE // array.itemsize, array.dtype)
    begin = -memory.ctypes.data % LINE // array.itemsize
    copied: Array = memory[begin : begin + array.size].reshape(array.shape)
    copied[...] = array
    return copied
