"""Vectors that are added to others in place, by the OpenBLAS that NumPy has loaded if that is faster than NumPy.

Debian's NumPy for 32-bit ARM is built for any ARMv7, so its loops add one number at a time, in 10.3 instructions each;
``cblas_saxpy`` (BLAS Technical Forum Standard, 2.8.3) takes 3.3, and its factor is free.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache, partial
from importlib import import_module
from typing import Any, Iterator, Optional, Sequence

import numpy as np

from runtime_arm.machine import blas
from runtime_arm.netdef import Array
from runtime_arm.records import NamedTuple
from runtime_arm.registry.steps import Step

LEAST = 64  # numbers for which such a call takes less


@lru_cache(None)
def pays() -> bool:
    """Whether BLAS adds faster than NumPy: NumPy was built without vectors."""
    return not _numpy_has_vectors() and _saxpy() is not None


def _numpy_has_vectors() -> bool:
    """Whether NumPy says that all its loops use vectors; those before 1.20 do not say."""
    name = "numpy._core" if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else "numpy.core"
    loops = import_module(f"{name}._multiarray_umath")
    return bool(getattr(loops, "__cpu_baseline__", True))


class _Saxpy(NamedTuple):
    """The function, and the C type of its sizes."""

    function: Any
    integer: Any


@lru_cache(None)
def _saxpy() -> Optional[_Saxpy]:
    function = blas.routine("saxpy")
    if function is None:
        return None
    function.restype = None
    return _Saxpy(function, blas.integer())


def add(out: Array, source: Array) -> Step:
    """The step out += source, of float32 arrays of equal shape that stay where they are, by the faster of the two."""
    joined = out.flags.c_contiguous and source.flags.c_contiguous and out.shape == source.shape
    if joined and source.flags.writeable and out.size >= LEAST and pays():
        return add_multiple(out, 1.0, source)
    return partial(np.add, out, source, out=out)


def add_planes(out: Array, source: Array) -> Iterator[Step]:
    """The same, as steps, for arrays that need not be contiguous in their first dimensions."""
    from runtime_arm.registry.in_place import parts

    apart = out.ndim - 1 if pays() else 0
    while apart and out[(0,) * (apart - 1)].flags.c_contiguous and source[(0,) * (apart - 1)].flags.c_contiguous:
        apart -= 1
    for index in np.ndindex(*out.shape[:apart]):
        to, of = out[index], source[index]
        for part in parts(to):
            yield add(to[part], of[part])


def add_multiple(out: Array, factor: float, source: Array) -> Step:
    """The step out += factor * source, of contiguous, writable float32 arrays of equal size that stay where they
    are; ``pays`` must hold."""
    saxpy = _saxpy()
    assert saxpy is not None
    function, integer = saxpy
    assert out.size == source.size
    assert all(array.dtype == np.float32 and array.flags.c_contiguous for array in (out, source))
    buffers: Sequence[Any] = (source, out)
    x, y = (ctypes.byref(ctypes.c_float.from_buffer(buffer)) for buffer in buffers)  # they keep their memory
    one = integer(1)
    return partial(function, integer(out.size), ctypes.c_float(factor), x, one, y, one)
