"""Products of matrices that are added to what lies in their place already, by the OpenBLAS that NumPy has loaded.

NumPy's own products overwrite their place, so what is added to them takes a pass of its own; ``cblas_sgemm`` with a
beta of one adds (BLAS Technical Forum Standard, 2.8.8). It is called through ctypes, under the name and with the
integers of this build of the library.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache, partial
from typing import Any, Optional

import numpy as np

from runtime_arm.machine import blas
from runtime_arm.netdef import Array
from runtime_arm.records import NamedTuple
from runtime_arm.registry.steps import Step

ROW_MAJOR, AS_IT_IS, TRANSPOSED = 101, 111, 112  # of cblas.h


class _Sgemm(NamedTuple):
    """The function, and its type of integers. It is given numbers of C's types: ctypes takes longer to convert others
    than a small product takes."""

    function: Any
    integer: Any


class _Matrix(ctypes.c_void_p):
    """Where a matrix begins, which keeps its memory."""

    matrix: Array

    @classmethod
    def of(cls, matrix: Array) -> _Matrix:
        found = cls(matrix.ctypes.data)
        found.matrix = matrix
        return found


@lru_cache(None)
def _sgemm() -> Optional[_Sgemm]:
    """The function, None where there is none."""
    library = blas.loaded()
    if library is None:
        return None
    name = library.spelling.replace("openblas_", "cblas_").format("sgemm")
    function: Any = getattr(ctypes.CDLL(library.path), name, None)
    if function is None:
        return None
    function.restype = None
    return _Sgemm(function, ctypes.c_int64 if "USE64BITINT" in library.config else ctypes.c_int32)


def can_add() -> bool:
    """Whether this BLAS can be asked to add a product."""
    return _sgemm() is not None


def add_product(a: Array, b: Array, out: Array) -> Step:
    """The function that does out += a @ b, with float32 matrices; ``can_add`` must hold.

    The rows of ``b`` and ``out`` are contiguous, those of ``a`` or its columns. All three must stay where they are.
    """
    sgemm = _sgemm()
    assert sgemm is not None
    (rows, depth), columns = a.shape, b.shape[1]
    turned = depth > 1 and a.strides[1] != a.itemsize
    assert (depth, columns) == b.shape
    assert out.shape == (rows, columns)
    assert all(array.dtype == np.float32 for array in (a, b, out))
    kinds = map(ctypes.c_int, (ROW_MAJOR, TRANSPOSED if turned else AS_IT_IS, AS_IT_IS))
    sizes = map(sgemm.integer, (rows, columns, depth))
    of_a, of_b, of_out = ((_Matrix.of(m), sgemm.integer(_apart(m.T if m is a and turned else m))) for m in (a, b, out))
    one = ctypes.c_float(1)
    return partial(sgemm.function, *kinds, *sizes, one, *of_a, *of_b, one, *of_out)


def _apart(rows: Array) -> int:
    """How many numbers lie from the begin of one row to that of the next."""
    assert rows.strides[1] == rows.itemsize or rows.shape[1] == 1
    return int(max(rows.strides[0] // rows.itemsize, rows.shape[1]))
