"""onnxruntime's quantised averages against onnxruntime; every engine against the reference; refusals."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np
import pytest

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel, specs_of
from runtime_arm.errors import ArgumentError, ShapeError
from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.schema import lookup
from tests.runtime_arm.operators.quantised.test_microsoft_elementwise import assert_within_a_step, eight_bits, operator
from tests.support.onnx_nodes import onnxruntime_outputs

DTYPES = ["uint8", "int8"]


def operands_of(seed: int, dtype: str, *shape: int) -> List[Any]:
    """X with scale and zero point, and Y's. In every third draw the scales are equal, so that ties are common."""
    rng = np.random.default_rng(seed)
    x_scale = np.float32(rng.uniform(0.01, 0.1))
    y_scale = x_scale if seed % 3 == 0 else np.float32(x_scale * rng.uniform(0.2, 1.5))
    return [eight_bits(rng, dtype, *shape), x_scale, eight_bits(rng, dtype), y_scale, eight_bits(rng, dtype)]


POOLS: Dict[str, Any] = {
    "2x2": ((2, 3, 8, 9), {"kernel_shape": [2, 2], "strides": [2, 2]}),
    "3x3 padded": ((2, 3, 8, 9), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    "counting padding": (
        (1, 2, 7, 7),
        {"kernel_shape": [3, 3], "pads": [1, 0, 2, 1], "strides": [2, 1], "count_include_pad": 1},
    ),
    "rounded up": ((1, 2, 7, 8), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    "same upper": ((1, 2, 7, 8), {"kernel_shape": [3, 2], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    "whole image": ((2, 3, 5, 4), {"kernel_shape": [5, 4]}),
    "1-D": ((2, 3, 11), {"kernel_shape": [4], "strides": [3]}),
    "3-D": ((1, 2, 5, 6, 7), {"kernel_shape": [2, 3, 2], "pads": [1, 0, 0, 0, 1, 1]}),
    "many planes": ((2, 40, 60, 50), {"kernel_shape": [2, 2], "strides": [2, 2]}),
}


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_average_pool(name: str, dtype: str) -> None:
    shape, arguments = POOLS[name]
    for seed in range(6):
        operands = operands_of(seed, dtype, *shape)
        op = operator("QLinearAveragePool", operands, **arguments)
        assert assert_engines_match_reference(op, operands, constants=[1, 2, 3, 4]) == ["NUMPY"]
        np.testing.assert_array_equal(run_kernel(op, operands)[0], onnxruntime_outputs(op, operands, [dtype])[0])


@pytest.mark.parametrize("name", ["2x2", "3x3 padded", "whole image"])
def test_average_pool_with_channels_last(name: str) -> None:
    shape, arguments = POOLS[name]
    operands = operands_of(1, "uint8", *shape)
    operands[0] = np.ascontiguousarray(np.moveaxis(operands[0], 1, -1))
    op = operator("QLinearAveragePool", operands, channels_last=1, **arguments)
    np.testing.assert_array_equal(run_kernel(op, operands)[0], onnxruntime_outputs(op, operands, ["uint8"])[0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2, 3, 4, 4), (1, 7, 5), (1, 17, 7, 7), (2, 3, 2, 3, 2), (0, 3, 4, 4)])
@pytest.mark.parametrize("channels_last", [0, 1])
def test_global_average_pool(dtype: str, shape: tuple[int, ...], channels_last: int) -> None:
    for seed in range(6):
        operands = operands_of(seed, dtype, *shape)
        op = operator("QLinearGlobalAveragePool", operands, channels_last=channels_last)
        assert_engines_match_reference(op, operands, constants=[1, 2, 3, 4])
        y = run_kernel(op, operands)[0]
        np.testing.assert_array_equal(y, onnxruntime_outputs(op, operands, [dtype])[0].reshape(y.shape))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("arguments", "shape"),
    [
        ({"axes": [2, 3], "keepdims": 1}, (2, 3, 1, 1)),
        ({"axes": [-1], "keepdims": 0}, (2, 3, 5)),
        ({"keepdims": 1}, (1, 1, 1, 1)),
        ({"axes": [0, 2], "keepdims": 0}, (3, 4)),
    ],
)
def test_reduce_mean_is_that_of_the_reals(dtype: str, arguments: Dict[str, Any], shape: tuple[int, ...]) -> None:
    """onnxruntime has no CPU kernel for it, so its definition is composed of operators that it has."""
    for seed in range(1, 6):
        x, x_scale, x_zero, y_scale, y_zero = operands = operands_of(seed, dtype, 2, 3, 5, 4)
        op = operator("QLinearReduceMean", operands, **arguments)
        dequantize = OperatorDef.of("DequantizeLinear", "xsz", "y", domain="onnx")
        quantize = OperatorDef.of("QuantizeLinear", "xsz", "y", domain="onnx")
        reduce = OperatorDef.of("ReduceMean", "x", "y", domain="onnx", **arguments)
        reals = onnxruntime_outputs(dequantize, [x, x_scale, x_zero], ["float32"])[0]
        means = onnxruntime_outputs(reduce, [reals], ["float32"], opset=13)[0]
        expected = onnxruntime_outputs(quantize, [means, y_scale, y_zero], [dtype])[0]
        y = run_kernel(op, operands)[0]
        assert y.shape == shape
        assert_within_a_step(y, expected, 0.02)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("opset", "axis"), [(13, -1), (13, 1), (12, 1), (12, 2)])
def test_softmax(dtype: str, opset: int, axis: int) -> None:
    for seed in range(6):
        operands = operands_of(seed, dtype, 2, 5, 7)
        operands[3], operands[4] = np.float32(1 / 256), np.array(np.iinfo(dtype).min, dtype)
        op = operator("QLinearSoftmax", operands, opset=opset, axis=axis)
        assert assert_engines_match_reference(op, operands, constants=[1, 2, 3, 4]) == ["NUMPY"]
        y, expected = run_kernel(op, operands)[0], onnxruntime_outputs(op, operands, [dtype])[0]
        largest = y == np.iinfo(dtype).max  # in onnxruntime, a share of 1 wraps around in int8
        assert_within_a_step(y[~largest], expected[~largest])


Q, ZERO = np.zeros((1, 2, 4, 4), np.uint8), np.zeros((), np.uint8)
ONE, NOUGHT = np.ones((), np.float32), np.zeros((), np.float32)


@pytest.mark.parametrize(
    ("type", "operands", "arguments", "error", "message"),
    [
        ("QLinearAveragePool", [Q, NOUGHT, ZERO, ONE, ZERO], {"kernel_shape": [2, 2]}, ArgumentError, "scale of X"),
        (
            "QLinearAveragePool",
            [Q, ONE, ZERO, ONE, np.int8(0)],
            {"kernel_shape": [2, 2]},
            ShapeError,
            "zero point of Y",
        ),
        ("QLinearAveragePool", [Q, ONE, ZERO, ONE, ZERO], {"kernel_shape": [5, 5]}, ShapeError, "kernel spans"),
        ("QLinearAveragePool", [Q, ONE, ZERO, ONE, ZERO], {}, ArgumentError, "kernel_shape is required"),
        ("QLinearAveragePool", [Q, ONE, ZERO, ONE, ZERO], {"dilations": [2, 2]}, ArgumentError, "dilations"),
        ("QLinearGlobalAveragePool", [Q[..., :0], ONE, ZERO, ONE, ZERO], {}, ShapeError, "must have pixels"),
        ("QLinearGlobalAveragePool", [Q.astype(int), ONE, ZERO, ONE, ZERO], {}, ShapeError, "X must be uint8 or int8"),
        ("QLinearReduceMean", [Q, ONE, ZERO, ONE, ZERO], {"axes": [4]}, ArgumentError, "axes 4 is out of range"),
        ("QLinearReduceMean", [Q[:0], ONE, ZERO, ONE, ZERO], {"axes": [0]}, ShapeError, "mean of no elements"),
        ("QLinearSoftmax", [Q, ONE, ZERO, ONE, ZERO], {}, ArgumentError, "'opset' is required"),
        ("QLinearSoftmax", [Q, ONE, ZERO, -ONE, ZERO], {"opset": 13}, ArgumentError, "scale of Y must be positive"),
    ],
)
def test_refused(type: str, operands: List[Any], arguments: Dict[str, Any], error: type, message: str) -> None:
    op = operator(type, operands, **arguments)
    with pytest.raises(error, match=message):
        lookup(op).infer(op, specs_of([np.asarray(x) for x in operands], range(1, 5)))
