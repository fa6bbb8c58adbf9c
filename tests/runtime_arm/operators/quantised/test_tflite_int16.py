"""TensorFlow Lite's operators on int16: every engine equals the reference kernel, and what cannot be is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel
from runtime_arm.errors import OperatorError
from runtime_arm.netdef import OperatorDef
from runtime_arm.netdef.dtypes import INT32

_rng = np.random.default_rng(4)
SCALES = {"X_scale": 0.001, "Y_scale": 0.5, "W_scales": [0.01]}


def whole(dtype: str, *shape: int) -> Any:
    limits = np.iinfo(dtype)
    return _rng.integers(limits.min, limits.max + 1, shape).astype(dtype)


def op(type: str, inputs: int = 1, **arguments: Any) -> OperatorDef:
    return OperatorDef.of(type, list("ABCD"[:inputs]), ["Y"], domain="tflite", **arguments)


BIAS = _rng.integers(-(2**30), 2**30, 6)
WINDOW = {"strides": [2, 1], "auto_pad": "SAME_UPPER"}


@pytest.mark.parametrize(
    ("operator", "inputs", "constants", "engines"),
    [
        (
            op("QuantizedConv", 3, **SCALES, **WINDOW),
            [whole("int16", 2, 7, 9, 4), whole("int8", 6, 3, 3, 4), BIAS],
            [1, 2],
            ["INT8"],
        ),
        (
            op("QuantizedConv", 3, **SCALES, **WINDOW, group=6),
            [whole("int16", 2, 7, 9, 6), whole("int8", 6, 3, 3, 1), BIAS],
            [1, 2],
            ["INT8_DEPTHWISE", "INT8"],
        ),
        (
            op("QuantizedConvTranspose", 4, **SCALES, **WINDOW),
            [whole("int16", 2, 4, 5, 3), whole("int8", 6, 3, 3, 3), np.array([7, 5]), BIAS],
            [1, 2, 3],
            ["INT8"],
        ),
        (
            op("QuantizedFullyConnected", 3, **SCALES),
            [whole("int16", 9, 3000), whole("int8", 6, 3000), BIAS],
            [1, 2],
            ["INT8"],
        ),
        (
            op("QuantizedMatMul", 2, A_scale=0.1, B_scale=0.1, Y_scale=70.0),
            [whole("int16", 2, 9, 300), whole("int16", 300, 5)],
            [],
            ["INT8"],
        ),
        (
            op("QuantizedMatMul", 2, A_scale=0.1, B_scale=0.1, Y_scale=70.0),
            [whole("int16", 2, 9, 300), whole("int8", 300, 5)],
            [1],
            ["INT8"],
        ),
        (
            op("QuantizedAdd", 2, A_scale=0.1, B_scale=0.3, Y_scale=0.5),
            [whole("int16", 200, 300), whole("int16", 300)],
            [],
            ["NUMPY"],
        ),
        (
            op("QuantizedAveragePool", kernel_shape=[3, 2], Y_scale=0.1, **WINDOW),
            [whole("int16", 1, 8, 9, 5)],
            [],
            ["INT8"],
        ),
        (op("QuantizedSoftmax", X_scale=0.01), [whole("int16", 300, 90)], [], ["NUMPY"]),
        (op("QuantizedTanh", X_scale=0.01, Y_scale=2.0**-15), [whole("int16", 300, 90)], [], ["TABLE"]),
        (op("QuantizedResizeBilinear", 2), [whole("int16", 2, 5, 6, 3), np.array([9, 4])], [1], ["NUMPY"]),
        (op("Requantize", X_scale=0.01, Y_scale=0.001, to=INT32), [whole("int16", 300, 90)], [], ["TABLE"]),
    ],
)
def test_engines(operator: OperatorDef, inputs: Any, constants: Any, engines: Any) -> None:
    assert assert_engines_match_reference(operator, inputs, terms=3000, constants=constants) == engines


def test_a_pool_of_many_pixels_is_left_to_the_reference() -> None:
    """Their sum may exceed the 24 bits of float32."""
    operator = op("QuantizedAveragePool", kernel_shape=[20, 20], Y_scale=0.1, strides=[1, 1], auto_pad="VALID")
    assert assert_engines_match_reference(operator, [np.full((1, 20, 21, 1), 32767, np.int16)]) == []


@pytest.mark.parametrize(
    ("operator", "inputs", "reason"),
    [
        (
            op("QuantizedConv", 3, **SCALES),
            [whole("int16", 1, 3, 3, 1), whole("int8", 1, 1, 1, 1), np.zeros(1, np.int32)],
            "the bias must be int64",
        ),
        (
            op("QuantizedConv", 2, **SCALES),
            [whole("int16", 1, 3, 3, 1), whole("int16", 1, 1, 1, 1)],
            "the weights must be int8",
        ),
        (
            op("QuantizedConv", 2, **SCALES, X_zero_point=1),
            [whole("int16", 1, 3, 3, 1), whole("int8", 1, 1, 1, 1)],
            "zero points of int16 must be 0",
        ),
        (
            op("QuantizedConv", 2, X_scale=1.0, W_scales=[2.0**14], Y_scale=1.0),
            [whole("int16", 1, 3, 3, 1), whole("int8", 1, 1, 1, 1)],
            "must be less than 16384",
        ),
        (
            op("QuantizedPRelu", 2, A_scale=1.0, B_scale=1.0, Y_scale=1.0),
            [whole("int16", 4), whole("int16", 4)],
            "the slopes of int16 must be int8",
        ),
        (op("QuantizedTanh", X_scale=1.0, Y_scale=0.1), [whole("int16", 4)], r"Y_scale 2\*\*-15"),
    ],
)
def test_refusals(operator: OperatorDef, inputs: Any, reason: str) -> None:
    with pytest.raises(OperatorError, match=reason):
        run_kernel(operator, inputs, "REFERENCE", list(range(1, len(inputs))))
