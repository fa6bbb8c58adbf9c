"""Vectors are added in place, by BLAS or by NumPy, with the same bits."""

from __future__ import annotations

import platform

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_close
from runtime_arm.engines.conv import axpy
from runtime_arm.machine import blas

asks_blas = pytest.mark.skipif(blas.routine("saxpy") is None, reason="NumPy's BLAS is none that can be asked")


def _normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


@asks_blas
@pytest.mark.parametrize("factor", [1.0, -2.5])
@pytest.mark.parametrize("count", [1, 63, 1000])
def test_a_multiple_is_added(count: int, factor: float) -> None:
    source, whole = _normal(count), _normal(count + 4)
    expected = whole.copy()
    expected[2:-2] += np.float32(factor) * source
    axpy.add_multiple(whole[2:-2], factor, source)()
    assert_close(whole, expected, terms=2)
    np.testing.assert_array_equal(whole[[0, 1, -2, -1]], expected[[0, 1, -2, -1]])


@asks_blas
@pytest.mark.parametrize("pays", [False, True])
@pytest.mark.parametrize("cut", [slice(None), slice(3, 90)])
def test_planes_are_added_with_the_bits_of_numpy(pays: bool, cut: slice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(axpy, "pays", lambda: pays)
    out, source = _normal(2, 3, 100), _normal(3, 2, 100).swapaxes(0, 1)
    expected = out.copy()
    expected[..., cut] += source[..., cut]
    steps = list(axpy.add_planes(out[..., cut], source[..., cut]))
    for step in steps:
        step()
    np.testing.assert_array_equal(out, expected)
    assert len(steps) == (6 if pays else 1)


@pytest.mark.parametrize(
    ("vectors", "library", "pays"), [(True, True, False), (False, True, True), (False, False, False)]
)
def test_blas_adds_where_numpy_has_no_vectors(
    vectors: bool, library: bool, pays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(axpy, "_numpy_has_vectors", lambda: vectors)
    monkeypatch.setattr(axpy, "_saxpy", lambda: object() if library else None)
    axpy.pays.cache_clear()
    try:
        assert axpy.pays() == pays
    finally:
        axpy.pays.cache_clear()


def test_numpy_for_32_bit_arm_has_no_vectors_and_others_have() -> None:
    assert axpy._numpy_has_vectors() == (platform.machine() not in ("armv6l", "armv7l"))
