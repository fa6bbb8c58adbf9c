"""Products of matrices that are added to what lies in their place already, by the OpenBLAS that NumPy has loaded.

NumPy's own products overwrite their place, so what is added to them takes a pass of its own; ``cblas_sgemm`` with a
beta of one adds (BLAS Technical Forum Standard, 2.8.8). It is called through ctypes, under the name and with the
integers of this build of the library.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any, Optional

import numpy as np

from runtime_arm.machine import blas
from runtime_arm.netdef import Array
from runtime_arm.registry.steps import Step

ROW_MAJOR, AS_IT_IS, TRANSPOSED = 101, 111, 112  # of cblas.h


@lru_cache(None)
def _sgemm() -> Optional[Any]:
    """The function, None where there is none."""
    function = blas.routine("sgemm")
    if function is None:
        return None
    integer, matrix, number = blas.integer(), ctypes.c_void_p, ctypes.c_float
    sizes, operand = [integer] * 3, [matrix, integer]
    function.argtypes = [*[ctypes.c_int] * 3, *sizes, number, *operand, *operand, number, *operand]
    function.restype = None
    return function


def can_add() -> bool:
    """Whether this BLAS can be asked to add a product."""
    return _sgemm() is not None


def add_product(a: Array, b: Array, out: Array) -> Step:
    """The function that does out += a @ b, with float32 matrices; ``can_add`` must hold.

    The rows of ``b`` and ``out`` are contiguous, those of ``a`` or its columns. All three must stay where they are.
    """
    function = _sgemm()
    assert function is not None
    (rows, depth), columns = a.shape, b.shape[1]
    turned = depth > 1 and a.strides[1] != a.itemsize
    assert (depth, columns) == b.shape
    assert out.shape == (rows, columns)
    assert all(array.dtype == np.float32 for array in (a, b, out))
    arguments = (
        *(ROW_MAJOR, TRANSPOSED if turned else AS_IT_IS, AS_IT_IS, rows, columns, depth, 1.0),
        *(a.ctypes.data, _apart(a.T if turned else a), b.ctypes.data, _apart(b), 1.0, out.ctypes.data, _apart(out)),
    )

    def run(matrices: object = (a, b, out)) -> None:
        """``matrices`` keeps their memory."""
        function(*arguments)

    return run


def _apart(rows: Array) -> int:
    """How many numbers lie from the begin of one row to that of the next."""
    assert rows.strides[1] == rows.itemsize or rows.shape[1] == 1
    return int(max(rows.strides[0] // rows.itemsize, rows.shape[1]))
