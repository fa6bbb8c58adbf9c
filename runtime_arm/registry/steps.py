"""The building blocks of kernels: NumPy calls with all arguments bound, run one after the other."""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import Any, Callable, Iterator, List, Sequence

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.registry.kernel import Phases, Run

Step = Callable[[], Any]

LINE = 64  # bytes of a cache line
MOST_ITEM = 1024  # bytes; longer runs of numbers are copied as fast one by one
VIEWS_LINES = np.lib.NumpyVersion(np.__version__) >= "1.23.0"  # as items of another size, even with gaps between them
FEW = 1 << 13  # elements that are written in less time than a call takes
_CLIP = getattr(getattr(getattr(np, "_core", None), "umath", None), "clip", None)  # of NumPy 2
EINSUM = getattr(np.einsum, "__wrapped__", np.einsum)  # without the check for other kinds of arrays
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
    """target[...] = source, of a type that the target can hold.

    Numbers that are contiguous in both are copied as one item: NumPy runs a loop of its own for every few numbers, but
    an item of any size takes only a call.
    """
    assert source.dtype == target.dtype or np.can_cast(source.dtype, target.dtype, "same_kind")
    if target.shape == source.shape and target.dtype == source.dtype and not target.dtype.hasobject:
        run = _run(target, source)
        if 1 < run < target.size and run * target.itemsize <= MOST_ITEM:
            target, source = _in_items(target, run), _in_items(source, run)
    return partial(target.__setitem__, Ellipsis, source)


def _run(target: Array, source: Array) -> int:
    """How many numbers are contiguous along the last axes of both arrays, which have one shape and type."""
    run, step = 1, target.itemsize
    for count, of_target, of_source in zip(target.shape[::-1], target.strides[::-1], source.strides[::-1]):
        if count != 1 and not of_target == of_source == run * step:
            break
        run *= count
    return run


def _in_items(array: Array, run: int) -> Array:
    """A view in which this many contiguous numbers are one item without a type of its own."""
    axis, rest = array.ndim, run
    while rest > 1:
        axis -= 1
        rest //= array.shape[axis]
    lines: Array = array.reshape(*array.shape[:axis], run)
    return lines.view(_item(run * array.itemsize))[..., 0] if VIEWS_LINES else lines


@lru_cache(None)
def _item(nbytes: int) -> np.dtype:
    return np.dtype((np.void, nbytes))


def into(ufunc: np.ufunc, a: Array, b: Array, out: Array) -> Step:
    """out = ufunc(a, b). Passing ``out`` by position takes 0.2 us less, but two ufuncs warn about it."""
    if ufunc in (np.maximum, np.minimum):
        return partial(ufunc, a, b, out=out)
    return partial(ufunc, a, b, out)


def clip(x: Array, low: float, high: float, out: Array) -> Step:
    """out = x limited to two numbers. The method takes 1.1 us longer than its ufunc, which has no public name."""
    bounds = np.array(low, x.dtype), np.array(high, x.dtype)
    return partial(x.clip, *bounds, out=out) if _CLIP is None else partial(_CLIP, x, *bounds, out)


def shaped(buffer: Array, *shape: int) -> Array:
    """The beginning of a scratch buffer as an array of this shape."""
    return buffer[: math.prod(shape)].reshape(shape)


def multiply(a: Array, b: Array, out: Array) -> Step:
    """out = a @ b; leading dimensions broadcast.

    Two matrices are multiplied by the method ``dot``, whose call takes a third of the time of ``np.matmul``. But it
    writes zeros first, so large results use ``np.matmul``. A matrix of one row or column is passed to ``dot`` as a
    vector, because BLAS multiplies that without packing.
    """
    if out.size > FEW:
        return partial(np.matmul, a, b, out=out)
    x, y, to = (array.reshape(array.shape[-2:]) if _is_matrix(array) else array for array in (a, b, out))
    plain = x.ndim == y.ndim == to.ndim == 2 and x.dtype == y.dtype == to.dtype and x.dtype.kind == "f" and x.size > 0
    if plain and to.flags.c_contiguous and x.flags.forc and y.flags.forc:
        if len(x) == 1:
            return partial(x[0].dot, y, to[0])
        return partial(x.dot, y[:, 0], to[:, 0]) if y.shape[1] == 1 else partial(x.dot, y, to)
    return partial(np.matmul, a, b, out=out)


def _is_matrix(array: Array) -> bool:
    """Whether it is one matrix, perhaps with leading dimensions of 1."""
    return array.ndim >= 2 and all(size == 1 for size in array.shape[:-2])


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
