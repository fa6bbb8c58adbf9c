"""Bound NumPy calls: products of matrices and vectors, and sums, whichever call computes them."""

from __future__ import annotations

import tracemalloc
import warnings
from typing import Any, Tuple

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_close
from runtime_arm.netdef import Array
from runtime_arm.registry.steps import into, multiply

RANDOM = np.random.default_rng(0)


def _numbers(shape: Tuple[int, ...], order: str, dtype: Any) -> Array:
    """An array whose last two dimensions lie in C's or Fortran's order, or apart."""
    wide = tuple(2 * size for size in shape) if order == "apart" else shape
    drawn: Array = RANDOM.standard_normal(wide).astype(dtype)
    if order == "apart":
        return drawn[tuple(slice(None, None, 2) for _ in shape)]
    return np.ascontiguousarray(drawn.swapaxes(-1, -2)).swapaxes(-1, -2) if order == "F" else drawn


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("orders", ["CCC", "FCC", "CFC", "FFC", "CCF", ("apart", "C", "C"), ("C", "C", "apart")])
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 4), (4, 5)),
        ((1, 4), (4, 5)),
        ((3, 4), (4, 1)),
        ((1, 4), (4, 1)),
        ((3, 1), (1, 5)),
        ((3, 0), (0, 5)),
        ((1, 1, 3, 4), (4, 5)),
        ((1, 3, 4), (1, 4, 5)),
        ((2, 3, 4), (2, 4, 5)),
        ((3, 4), (2, 4, 5)),
    ],
)
def test_products_are_those_of_matmul(a: Tuple[int, ...], b: Tuple[int, ...], orders: Any, dtype: Any) -> None:
    x, y = _numbers(a, orders[0], dtype), _numbers(b, orders[1], dtype)
    expected = np.matmul(x, y)
    out = _numbers(expected.shape, orders[2], dtype)
    multiply(x, y, out)()
    if out.dtype.kind == "f":
        sums = np.matmul(np.abs(x), np.abs(y))
        assert_close(out, expected, terms=x.shape[-1], magnitude=sums)
    else:
        np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("rows", [1, 100])
def test_products_allocate_nothing(rows: int) -> None:
    x, y, out = np.ones((rows, 300), np.float32), np.ones((200, 300), np.float32), np.empty((rows, 200), np.float32)
    step = multiply(x, y.T, out)
    step()
    tracemalloc.start()
    step()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < out.itemsize * 200


@pytest.mark.parametrize("ufunc", [np.add, np.multiply, np.maximum, np.minimum])
def test_a_ufunc_writes_where_it_shall_and_warns_of_nothing(ufunc: Any) -> None:
    a, b, out = RANDOM.standard_normal(5), RANDOM.standard_normal(5), np.empty(5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        into(ufunc, a, b, out)()
    np.testing.assert_array_equal(out, ufunc(a, b))
