"""Powers: shortcuts for small exponents, dtypes, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel
from runtime_arm.errors import ArgumentError, ShapeError
from tests.support.allocation import NUMPY_NBYTES, allocated_nbytes
from tests.support.caffe2_goldens import golden_cases, run_case
from tests.support.exact import assert_same
from tests.support.in_place import run_in_place
from tests.support.operands import caffe2, onnx, random


@pytest.mark.parametrize("case", golden_cases("ops", "ok", ["Pow"]))
def test_the_ufunc_behaves_as_caffe2(case: Any) -> None:
    """By default small exponents are computed as products."""
    run_case(case, engine="NUMPY")


@pytest.mark.parametrize("exponent", [-1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 2.5])
def test_a_constant_exponent_may_be_an_argument_or_a_weight(exponent: float) -> None:
    x = np.append(random((2, 40)).ravel(), np.array([0, -0.0, 1e30, -1e30, np.nan], np.float32))
    engines = ["PRODUCTS", "NUMPY"] if exponent in (-1, 1, 2, 3) else ["NUMPY"]
    argument = caffe2("Pow", "X", exponent=exponent)
    assert assert_engines_match_reference(argument, [x], magnitude=np.abs(run_kernel(argument, [x])[0])) == engines
    weight = np.array([exponent], np.float32)
    assert (
        assert_engines_match_reference(
            onnx("Pow", "X E"), [x, weight], constants=(1,), magnitude=np.abs(run_kernel(argument, [x])[0])
        )
        == engines
    )
    assert assert_engines_match_reference(onnx("Pow", "X E"), [np.abs(x[:9]), weight]) == ["NUMPY"]


@pytest.mark.parametrize("exponent", [-1.0, 1.0, 2.0, 3.0])
def test_shortcuts_overwrite_and_allocate_nothing(exponent: float) -> None:
    op, x = caffe2("Pow", "X", exponent=exponent), random((40000,))
    np.testing.assert_array_equal(run_in_place(op, [x], "PRODUCTS"), run_kernel(op, [x], "PRODUCTS")[0])
    assert allocated_nbytes(op, [random((1 << 20,))], "PRODUCTS") < NUMPY_NBYTES


def test_powers_of_integers_are_integers() -> None:
    x = np.array([2, 3, -2], np.int32)
    for exponents, expected in (
        (np.array([30, 5, 3], np.int64), [1 << 30, 243, -8]),
        (np.array([-1, 0, -2], np.int32), [0, 1, 0]),
        (np.array([0.5, 2, 2], np.float32), [1, 9, 4]),
    ):
        assert_same(run_kernel(onnx("Pow", "X E"), [x, exponents])[0], np.array(expected, np.int32))


@pytest.mark.parametrize(
    ("op", "shapes", "rule"),
    [
        (caffe2("Pow", "X"), [(3,)], "'exponent' is required"),
        (caffe2("Pow", "X", exponent=2), [(3,)], "exponent"),
        (caffe2("Pow", "X E", exponent=2.0), [(3,), (3,)], "either exponent or a second input"),
        (caffe2("Pow", "X E"), [(2, 3), (3,)], "without broadcast=1 the inputs must have the same shape"),
        (caffe2("Pow", "X E", axis=0), [(3,), (3,)], "axis needs broadcast=1"),
    ],
)
def test_refuses(op: Any, shapes: Any, rule: str) -> None:
    with pytest.raises((ArgumentError, ShapeError), match=rule):
        run_kernel(op, [np.ones(shape, np.float32) for shape in shapes])
