"""Kernels of quantised operators compute within their buffers: none allocates as much as a blob."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest

from runtime_arm.netdef import OperatorDef
from tests.support.allocation import NUMPY_NBYTES, allocated_nbytes

IMAGE, STEP, ZERO = np.zeros((1, 32, 128, 128), np.uint8), np.float32(0.5), np.uint8(3)  # 512 KB
SHAPES = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}


def filters(*shape: int) -> np.ndarray:
    return np.ones(shape, np.int8)


@pytest.mark.parametrize(
    ("type", "engine", "inputs", "arguments"),
    [
        ("onnx.QuantizeLinear", "NUMPY", [IMAGE.astype(np.float32), STEP, ZERO], {}),
        ("onnx.DequantizeLinear", "NUMPY", [IMAGE, STEP, ZERO], {}),
        ("onnx.DynamicQuantizeLinear", "NUMPY", [IMAGE.astype(np.float32)], {}),
        ("onnx.QLinearConv", "INT8", [IMAGE, STEP, ZERO, filters(32, 32, 3, 3), STEP, np.int8(0), STEP, ZERO], SHAPES),
        ("onnx.QLinearConv", "INT8", [IMAGE, STEP, ZERO, filters(32, 32, 1, 1), STEP, np.int8(0), STEP, ZERO], {}),
        (
            "onnx.QLinearConv",
            "INT8_DEPTHWISE",
            [IMAGE, STEP, ZERO, filters(32, 1, 3, 3), STEP, np.int8(0), STEP, ZERO],
            {**SHAPES, "group": 32},
        ),
        ("onnx.ConvInteger", "INT8", [IMAGE, filters(32, 32, 3, 3), ZERO], SHAPES),
        ("onnx.MatMulInteger", "INT8", [IMAGE.reshape(512, -1), filters(1024, 1024), ZERO], {}),
        (
            "onnx.QLinearMatMul",
            "INT8",
            [IMAGE.reshape(512, -1), STEP, ZERO, filters(1024, 1024), STEP, np.int8(0), STEP, ZERO],
            {},
        ),
        ("com.microsoft.QLinearAdd", "NUMPY", [IMAGE, STEP, ZERO, IMAGE, STEP, ZERO, STEP, ZERO], {}),
        ("com.microsoft.QLinearMul", "NUMPY", [IMAGE, STEP, ZERO, IMAGE[:, :, :1, :1], STEP, ZERO, STEP, ZERO], {}),
        ("com.microsoft.QLinearSigmoid", "NUMPY", [IMAGE, STEP, ZERO, STEP, ZERO], {}),
        ("com.microsoft.QLinearLeakyRelu", "NUMPY", [IMAGE, STEP, ZERO, STEP, ZERO], {}),
        (
            "com.microsoft.QLinearConcat",
            "NUMPY",
            [STEP, ZERO, IMAGE, STEP, ZERO, IMAGE, STEP, np.uint8(9)],
            {"axis": 3},
        ),
        ("com.microsoft.QLinearAveragePool", "NUMPY", [IMAGE, STEP, ZERO, STEP, ZERO], SHAPES),
        ("com.microsoft.QLinearSoftmax", "NUMPY", [IMAGE, STEP, ZERO, STEP, ZERO], {"axis": 1, "opset": 13}),
        ("com.microsoft.QLinearGlobalAveragePool", "NUMPY", [IMAGE, STEP, ZERO, STEP, ZERO], {}),
        (
            "com.microsoft.QGemm",
            "INT8",
            [IMAGE.reshape(512, -1), STEP, ZERO, filters(1024, 1024), STEP, np.int8(0)],
            {},
        ),
        (
            "com.microsoft.MatMulIntegerToFloat",
            "INT8",
            [IMAGE.reshape(512, -1), filters(1024, 1024), STEP, STEP, ZERO],
            {},
        ),
        (
            "com.microsoft.DynamicQuantizeMatMul",
            "INT8",
            [IMAGE.reshape(512, -1).astype(np.float32), filters(1024, 1024), STEP],
            {},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_allocates_less_than_a_blob(type: str, engine: str, inputs: List[Any], arguments: Any) -> None:
    domain, name = type.rsplit(".", 1)
    names = [f"i{index}" for index in range(len(inputs))]
    outputs = ["y", "scale", "zero_point"] if name == "DynamicQuantizeLinear" else ["y"]
    op = OperatorDef.of(name, names, outputs, domain=domain, **arguments)
    blobs = [0, 3] if name in ("QLinearAdd", "QLinearMul") else [2, 5] if name == "QLinearConcat" else [0]
    constants = [index for index in range(len(inputs)) if index not in blobs]
    operands = [np.asarray(operand) for operand in inputs]
    assert allocated_nbytes(op, operands, engine, constants) < NUMPY_NBYTES
