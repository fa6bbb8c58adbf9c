"""Products of matrices that are added to the content of their target, by the OpenBLAS that NumPy has loaded.

NumPy's own products overwrite their target, so an addition takes a pass of its own; ``cblas_sgemm`` with a
beta of one adds (BLAS Technical Forum Standard, 2.8.8). It is called through ctypes, under the name and with the
integers of this build of the library.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache, partial
from typing import Any, Iterator, Optional

import numpy as np

from runtime_arm.machine import blas
from runtime_arm.netdef import Array
from runtime_arm.records import NamedTuple
from runtime_arm.registry.steps import Step

ROW_MAJOR, AS_IT_IS, TURNED = map(ctypes.c_int, (101, 111, 112))  # of cblas.h
STRAIGHT, TRANSPOSED = (ROW_MAJOR, AS_IT_IS, AS_IT_IS), (ROW_MAJOR, TURNED, AS_IT_IS)
ONE = ctypes.c_float(1)


class _Sgemm(NamedTuple):
    """The function, and its type of integers. It is given numbers of C's types: ctypes takes longer to convert others
    than a small product takes."""

    function: Any
    integer: Any


class _Matrix(ctypes.c_void_p):
    """Where a matrix begins, which keeps its memory."""

    memory: Array

    @classmethod
    def of(cls, memory: Array, address: int) -> _Matrix:
        found = cls(address)
        found.memory = memory
        return found


@lru_cache(None)
def _sgemm() -> Optional[_Sgemm]:
    """The function, None where there is none."""
    function = blas.routine("sgemm")
    if function is None:
        return None
    function.restype = None
    return _Sgemm(function, blas.integer())


def can_add() -> bool:
    """Whether this BLAS can be asked to add a product."""
    return _sgemm() is not None


def add_product(a: Array, b: Array, out: Array) -> Step:
    """The function that does out += a @ b, with float32 matrices; ``can_add`` must hold.

    The rows of ``b`` and ``out`` are contiguous, those of ``a`` or its columns. All three must stay where they are.
    """
    return next(add_products(a, b[None], out[None]))


def add_products(a: Array, b: Array, out: Array) -> Iterator[Step]:
    """The functions that do out[i] += a @ b[i], one for each i."""
    sgemm = _sgemm()
    assert sgemm is not None
    (rows, depth), columns = a.shape, b.shape[2]
    turned = depth > 1 and a.strides[1] != a.itemsize
    assert (depth, columns) == b.shape[1:]
    assert out.shape == (len(b), rows, columns)
    assert a.dtype == b.dtype == out.dtype == np.float32
    integer = sgemm.integer
    first = *(TRANSPOSED if turned else STRAIGHT), integer(rows), integer(columns), integer(depth), ONE
    of_a, of_b, of_out = a.ctypes.data, b.ctypes.data, out.ctypes.data
    left = _Matrix.of(a, of_a), integer(_apart(a.T if turned else a))
    apart, out_apart = integer(_apart(b[0])), integer(_apart(out[0]))
    for at in range(len(b)):
        right, target = _Matrix.of(b, of_b + at * b.strides[0]), _Matrix.of(out, of_out + at * out.strides[0])
        yield partial(sgemm.function, *first, *left, right, apart, ONE, target, out_apart)


def _apart(rows: Array) -> int:
    """How many numbers lie from the begin of one row to that of the next."""
    assert rows.strides[1] == rows.itemsize or rows.shape[1] == 1
    return int(max(rows.strides[0] // rows.itemsize, rows.shape[1]))
