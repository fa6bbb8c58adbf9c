"""Activations: scalar formulas, engines, allocations, refusals."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel
from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import ArgumentError, ShapeError
from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.blocks import BLOCK
from runtime_arm.registry.schema import lookup
from tests.support.allocation import NUMPY_NBYTES, allocated_nbytes
from tests.support.in_place import run_in_place
from tests.support.operands import caffe2, onnx, random


def logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def gelu(x: float) -> float:
    return x * (1 + math.erf(x / math.sqrt(2))) / 2


def gelu_tanh(x: float) -> float:
    return x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2


SCALAR: Dict[OperatorDef, Callable[[float], float]] = {
    caffe2("Clip", "X"): lambda x: x,
    caffe2("Clip", "X", min=-0.5, max=2.0): lambda x: min(max(x, -0.5), 2.0),
    onnx("Celu", "X", alpha=2.0): lambda x: x if x > 0 else 2 * (math.exp(x / 2) - 1),
    caffe2("Elu", "X", alpha=1.5): lambda x: x if x > 0 else 1.5 * (math.exp(x) - 1),
    caffe2("Gelu", "X"): gelu,
    caffe2("Gelu", "X", fast_gelu=1): gelu_tanh,
    onnx("Gelu", "X", approximate="tanh"): gelu_tanh,
    caffe2("HardSigmoid", "X"): lambda x: min(max(0.2 * x + 0.5, 0), 1),
    onnx("HardSwish", "X"): lambda x: x * min(max(x / 6 + 0.5, 0), 1),
    caffe2("LeakyRelu", "X"): lambda x: x if x > 0 else 0.01 * x,
    caffe2("LeakyRelu", "X", alpha=1.5): lambda x: x if x > 0 else 1.5 * x,
    caffe2("LeakyRelu", "X", alpha=-0.5): lambda x: x if x > 0 else -0.5 * x,
    caffe2("Logit", "X", eps=0.25): lambda x: math.log(min(max(x, 0.25), 0.75) / (1 - min(max(x, 0.25), 0.75))),
    caffe2("Mish", "X"): lambda x: x * math.tanh(math.log1p(math.exp(x))),
    caffe2("Relu", "X"): lambda x: max(x, 0),
    caffe2("ReluN", "X"): lambda x: min(max(x, 0), 6),
    caffe2("Selu", "X", alpha=2.0, scale=1.5): lambda x: 1.5 * (x if x > 0 else 2 * (math.exp(x) - 1)),
    onnx("Selu", "X", alpha=2.0, gamma=0.5): lambda x: 0.5 * (x if x > 0 else 2 * (math.exp(x) - 1)),
    caffe2("Sigmoid", "X"): logistic,
    caffe2("Softplus", "X"): lambda x: math.log1p(math.exp(x)),
    onnx("Softplus", "X"): lambda x: math.log1p(math.exp(x)),
    caffe2("Softsign", "X"): lambda x: x / (1 + abs(x)),
    caffe2("Swish", "X"): lambda x: x * logistic(x),
    onnx("Swish", "X", alpha=1.5): lambda x: x * logistic(1.5 * x),
    caffe2("Tanh", "X"): math.tanh,
}
OPERATORS = [pytest.param(op, id=" ".join([op.full_type, *(a.name for a in op.arg)])) for op in SCALAR]
AWKWARD = np.array([np.nan, np.inf, -np.inf, 0, -0.0, 1e-38, 3e38, -3e38, 89, -89, 20, -20, 6, 0.5], np.float32)


@pytest.mark.parametrize("op", OPERATORS)
@given(st.lists(st.integers(-1920, 1920).map(lambda n: n / 64), min_size=1, max_size=20))
@settings(max_examples=15)
def test_computes_its_formula(op: OperatorDef, numbers: Any) -> None:
    x = np.array(numbers, np.float32)
    expected = np.array([SCALAR[op](float(number)) for number in x]).astype(np.float32)
    assert_close(run_kernel(op, [x])[0], expected)


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("size", [0, 1, BLOCK, 2 * BLOCK + 5])
def test_engines_agree_whatever_the_size(op: OperatorDef, size: int) -> None:
    assert assert_engines_match_reference(op, [random((size,), offset=0.3) * 5]) == ["NUMPY"]


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("number", AWKWARD)
def test_engines_agree_on_awkward_numbers(op: OperatorDef, number: np.float32) -> None:
    x = np.full((2, 3), number)
    terms = np.nanmin([abs(number), 100.0]), np.nan_to_num(np.abs(run_kernel(op, [x])[0][0, 0]), posinf=0.0), 1.0
    assert_engines_match_reference(op, [x], magnitude=max(terms))


@pytest.mark.parametrize("op", [param for param in OPERATORS if lookup(param.values[0]).inplace])
def test_overwrites_its_input(op: OperatorDef) -> None:
    x = random((2, 3, 100, 100)) * 3
    np.testing.assert_array_equal(run_in_place(op, [x], "NUMPY"), run_kernel(op, [x], "NUMPY")[0])


@pytest.mark.parametrize("op", OPERATORS)
def test_allocates_nothing_of_the_size_of_a_blob(op: OperatorDef) -> None:
    assert allocated_nbytes(op, [random((1 << 20,))], "NUMPY") < NUMPY_NBYTES


@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize("type", sorted({op.type for op in SCALAR if op.domain}))
def test_onnx_takes_every_float(type: str, dtype: str) -> None:
    assert_engines_match_reference(onnx(type, "X"), [random((2, 50), dtype=dtype)])


def test_onnx_relu_takes_integers() -> None:
    x = np.array([-128, -1, 0, 1, 127], np.int8)
    np.testing.assert_array_equal(run_kernel(onnx("Relu", "X"), [x], "NUMPY")[0], np.array([0, 0, 0, 1, 127], np.int8))


def test_softplus_overflows_in_caffe2_and_not_in_onnx() -> None:
    x = np.array([100.0], np.float32)
    assert run_kernel(caffe2("Softplus", "X"), [x], "NUMPY")[0] == np.inf
    assert run_kernel(onnx("Softplus", "X"), [x], "NUMPY")[0] == 100


@pytest.mark.parametrize(
    ("op", "word"),
    [
        (caffe2("ReluN", "X", n=0.0), "n must be greater than 0, got 0"),
        (caffe2("Selu", "X", scale=1.0), "scale must be"),
        (caffe2("Clip", "X", min=0), "min"),
        (onnx("Gelu", "X", approximate="erf"), "'none' or 'tanh', got 'erf'"),
    ],
)
def test_refuses_arguments(op: OperatorDef, word: str) -> None:
    with pytest.raises(ArgumentError, match=word):
        run_kernel(op, [np.ones(3, np.float32)])


@pytest.mark.parametrize("type", sorted({op.type for op in SCALAR if not op.domain}))
def test_refuses_integers(type: str) -> None:
    with pytest.raises(ShapeError, match=rf"{type}\(X\) -> Y: input 'X' must be float32.*; got int32\[3\]"):
        run_kernel(caffe2(type, "X"), [np.ones(3, np.int32)])


@pytest.mark.parametrize("type", ["Swish", "Mish", "Gelu"])
def test_refuses_to_overwrite_what_caffe2_does_not(type: str) -> None:
    with pytest.raises(ShapeError, match="output 'X' must not overwrite"):
        run_kernel(caffe2(type, "X", "X"), [np.ones(3, np.float32)])


@pytest.mark.parametrize("type", ["Erf", "Gelu"])
def test_the_error_function_saturates(type: str) -> None:
    x = np.concatenate([np.linspace(3.9, 60, 20000), np.geomspace(60, 3e38, 5000), [np.inf]]).astype(np.float32)
    op = onnx(type, "x", "y")
    for sign in (1, -1):
        (y,), (expected,) = (run_kernel(op, [sign * x], engine) for engine in ("NUMPY", "REFERENCE"))
        assert_close(y, expected, magnitude=np.maximum(np.abs(expected), 4))  # X erf(X) cancels below 4
