"""QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear: compared with onnxruntime, engines, refusals."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel, specs_of, supporting_engines
from runtime_arm.errors import ArgumentError, ShapeError
from runtime_arm.netdef import OperatorDef
from runtime_arm.netdef.dtypes import FLOAT, FLOAT16, INT8, INT16
from runtime_arm.registry.blocks import BLOCK
from runtime_arm.registry.schema import lookup
from tests.support.onnx_nodes import onnxruntime_outputs

DTYPES = ["uint8", "int8", "uint16", "int16"]


def quantize(inputs: int = 3, domain: str = "onnx", **arguments: Any) -> OperatorDef:
    return OperatorDef.of("QuantizeLinear", ["x", "scale", "zero_point"][:inputs], ["y"], domain=domain, **arguments)


def dequantize(inputs: int = 3, domain: str = "onnx", **arguments: Any) -> OperatorDef:
    return OperatorDef.of("DequantizeLinear", ["x", "scale", "zero_point"][:inputs], ["y"], domain=domain, **arguments)


def reals(seed: int, *shape: int) -> np.ndarray:
    """Normal numbers, with ties, infinities and out-of-range values among them."""
    x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32) * 3
    x.reshape(-1)[:8] = [0.25, 0.75, 1.25, -0.25, 1e30, -1e30, np.inf, -np.inf]
    return x


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (7,), (3, 5, 7), (BLOCK + 11,), (2, BLOCK // 3, 5)])
def test_engines_of_quantize(shape: tuple[int, ...], dtype: str) -> None:
    x = reals(1, *shape) if np.prod(shape) >= 8 else np.full(shape, 1.25, np.float32)
    inputs = [x, np.float32(0.5), np.array(3, dtype)]
    assert "NUMPY" in assert_engines_match_reference(quantize(), inputs, constants=[1, 2])


@pytest.mark.parametrize("dtype", [*DTYPES, "int32"])
@pytest.mark.parametrize("shape", [(), (7,), (BLOCK + 11,), (2, BLOCK // 3, 5)])
def test_engines_of_dequantize(shape: tuple[int, ...], dtype: str) -> None:
    rng = np.random.default_rng(2)
    limits = np.iinfo(dtype)
    x = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    zero_point = np.array(0 if dtype == "int32" else limits.max, dtype)
    inputs = [np.asarray(x), np.float32(0.3), zero_point]
    assert "NUMPY" in assert_engines_match_reference(dequantize(), inputs, constants=[1, 2])


def test_engines_without_a_zero_point() -> None:
    scale = np.array([0.1], np.float32)
    assert assert_engines_match_reference(quantize(2), [reals(3, 40), scale], constants=[1]) == ["NUMPY"]
    x = np.arange(-20, 20, dtype=np.int8)
    assert assert_engines_match_reference(dequantize(2), [x, scale], constants=[1]) == ["NUMPY"]


def test_the_fast_kernel_refuses_what_it_cannot_compute() -> None:
    x, scale, zero_point = reals(3, 4, 6), np.float32(0.5), np.uint8(3)
    assert supporting_engines(quantize(), [x, scale, zero_point]) == []  # not constants
    assert supporting_engines(quantize(), [x, np.full(6, scale), np.full(6, zero_point)], [1, 2]) == []
    assert supporting_engines(quantize(), [np.zeros((4, 6), np.float16), scale, zero_point], [1, 2]) == []


@pytest.mark.parametrize("domain", ["onnx", "com.microsoft"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_quantize_as_onnxruntime(dtype: str, domain: str) -> None:
    rng = np.random.default_rng(4)
    for per_axis in (False, True):
        scale = rng.uniform(0.01, 2, 5 if per_axis else ()).astype(np.float32)
        zero_point = rng.integers(0, 100, scale.shape).astype(dtype)
        axis = {"axis": 1} if per_axis or domain == "onnx" else {}
        op, inputs = quantize(domain=domain, **axis), [reals(5, 3, 5, 400), np.asarray(scale), zero_point]
        np.testing.assert_array_equal(run_kernel(op, inputs)[0], onnxruntime_outputs(op, inputs, [dtype])[0])
        values = rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, (3, 5, 400)).astype(dtype)
        op, inputs = dequantize(domain=domain, **axis), [values, np.asarray(scale), zero_point]
        np.testing.assert_array_equal(run_kernel(op, inputs)[0], onnxruntime_outputs(op, inputs, ["float32"])[0])


@pytest.mark.parametrize("block", [2, 3, 4])
def test_blocked_as_onnxruntime(block: int) -> None:
    rng = np.random.default_rng(6)
    x = rng.standard_normal((3, 10, 7)).astype(np.float32)
    scale = rng.uniform(0.1, 1, (3, -(-10 // block), 7)).astype(np.float32)
    zero_point = rng.integers(0, 200, scale.shape).astype(np.uint8)
    op = quantize(axis=-2, block_size=block)
    y = run_kernel(op, [x, scale, zero_point])[0]
    np.testing.assert_array_equal(y, onnxruntime_outputs(op, [x, scale, zero_point], ["uint8"])[0])
    op, inputs = dequantize(axis=1, block_size=block), [y, scale, zero_point]
    np.testing.assert_array_equal(run_kernel(op, inputs)[0], onnxruntime_outputs(op, inputs, ["float32"])[0])


def test_nan_becomes_the_lowest_integer_in_every_engine() -> None:
    inputs = [np.full(20, np.nan, np.float32), np.float32(1), np.int8(5)]
    for engine in ("REFERENCE", "NUMPY"):
        assert set(run_kernel(quantize(), inputs, engine, [1, 2])[0].tolist()) == {-128}


def test_output_dtype_and_precision_name_types_by_caffe2s_numbers() -> None:
    x, scale = np.array([1.0, 300.0, -40000.0], np.float32), np.float32(1)
    assert run_kernel(quantize(2, output_dtype=INT8), [x, scale])[0].tolist() == [1, 127, -128]
    assert run_kernel(quantize(2, output_dtype=INT16), [x, scale])[0].dtype == np.int16
    y = run_kernel(dequantize(2, output_dtype=FLOAT16), [np.arange(3, dtype=np.int8), scale])[0]
    assert y.dtype == np.float16
    inputs = [np.array([3 * 2047.4], np.float32), np.float32(3)]  # the quotient is 2047, or in float16 2048
    assert run_kernel(quantize(2, precision=FLOAT16, output_dtype=INT16), inputs)[0].tolist() == [2048]
    assert run_kernel(quantize(2, precision=FLOAT, output_dtype=INT16), inputs)[0].tolist() == [2047]


@pytest.mark.parametrize(
    "values", [[0, 0, 0], [1, 2, 3], [-1, -2, -3], [-3, 0, 5], [1e-30, 2e-30, 0], [2.5, -2.5, 0], []]
)
def test_dynamic_quantisation_as_onnxruntime(values: List[float]) -> None:
    op = OperatorDef.of("DynamicQuantizeLinear", ["x"], ["y", "scale", "zero_point"], domain="onnx")
    x = np.array(values, np.float32)
    for actual, expected in zip(run_kernel(op, [x]), onnxruntime_outputs(op, [x], ["uint8", "float32", "uint8"])):
        np.testing.assert_array_equal(actual, expected)
    assert assert_engines_match_reference(op, [x]) == ["NUMPY"]


def test_dynamic_quantisation_of_a_large_blob() -> None:
    op = OperatorDef.of("DynamicQuantizeLinear", ["x"], ["y", "scale", "zero_point"], domain="onnx")
    x = np.random.default_rng(7).standard_normal((3, BLOCK)).astype(np.float32)
    assert assert_engines_match_reference(op, [x]) == ["NUMPY"]
    for actual, expected in zip(run_kernel(op, [x]), onnxruntime_outputs(op, [x], ["uint8", "float32", "uint8"])):
        np.testing.assert_array_equal(actual, expected)


X = np.zeros((2, 3, 4), np.float32)
Q = np.zeros((2, 3, 4), np.uint8)
ONE, ZERO = np.float32(1), np.uint8(0)


@pytest.mark.parametrize(
    ("op", "inputs", "error", "message"),
    [
        (quantize(), [X, np.float32(0), ZERO], ArgumentError, "positive and finite, got 0"),
        (quantize(), [X, np.float32(-1), ZERO], ArgumentError, "positive and finite, got -1"),
        (quantize(), [X, np.float32(np.nan), ZERO], ArgumentError, "positive and finite, got nan"),
        (dequantize(), [Q, np.float32(0), ZERO], ArgumentError, "positive and finite, got 0"),
        (quantize(), [X, ONE, np.int32(0)], ShapeError, "zero point must be uint8 or int8"),
        (dequantize(), [Q, ONE, np.int8(0)], ShapeError, "zero point must have the input's type"),
        (dequantize(), [Q.astype(np.int32), ONE, np.int32(1)], ShapeError, "zero point of int32 must be a constant 0"),
        (dequantize(), [Q.astype(np.int64), ONE, np.int64(0)], ShapeError, "input must be"),
        (quantize(), [X.astype(np.float64), ONE, ZERO], ShapeError, "input must be"),
        (quantize(), [X, np.float64(1), ZERO], ShapeError, "scale must be float32 or float16"),
        (quantize(), [X, np.ones(2, np.float32), np.zeros(2, np.uint8)], ShapeError, "one along axis 1"),
        (quantize(axis=3), [X, np.ones(4, np.float32), np.zeros(4, np.uint8)], ArgumentError, "out of range"),
        (quantize(), [X, np.ones(3, np.float32), np.zeros(4, np.uint8)], ShapeError, "shape of the scale"),
        (quantize(block_size=2), [X, X[:, :1] + 1, Q[:, :1]], ShapeError, r"\[2, 2, 4\]"),
        (quantize(block_size=-1), [X, ONE, ZERO], ArgumentError, "block_size"),
        (quantize(output_dtype=INT8), [X, ONE, ZERO], ShapeError, "output_dtype is int8"),
        (quantize(2, output_dtype=FLOAT), [X, ONE], ArgumentError, "output_dtype must name"),
    ],
)
def test_refused(op: OperatorDef, inputs: List[Any], error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        lookup(op).infer(op, specs_of([np.asarray(x) for x in inputs], [1, 2]))


def test_a_computed_scale_is_refused_when_it_is_known() -> None:
    with pytest.raises(ArgumentError, match="positive"):
        run_kernel(quantize(), [X, np.zeros((), np.float32), ZERO])
