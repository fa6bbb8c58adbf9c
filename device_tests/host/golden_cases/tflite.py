"""TensorFlow Lite's integer operators, which without floats are bit-exact on every machine."""

from __future__ import annotations

from typing import Any, Dict, Iterator

import numpy as np

from device_tests.host.golden_cases.case import FAR, SPECIAL, Case, tflite
from runtime_arm.netdef.dtypes import INT8, INT32, UINT8

X: Dict[str, Any] = {"X_scale": 0.05, "X_zero_point": 4}
Y: Dict[str, Any] = {"Y_scale": 0.1, "Y_zero_point": -3}
XY: Dict[str, Any] = {**X, **Y}
BYTES: Dict[str, Any] = {"X_scale": 0.05, "X_zero_point": 120, "Y_scale": 0.1, "Y_zero_point": 128}
OPERANDS: Dict[str, Any] = {"A_scale": 0.05, "A_zero_point": 4, "B_scale": 0.07, "B_zero_point": -9}
SAME: Dict[str, Any] = {"auto_pad": "SAME_UPPER"}
BIAS, SCALES = np.arange(-300, 300, 100, dtype=np.int32), [0.01, 0.02, 0.005, 0.03, 0.008, 0.0125]


def layers() -> Iterator[Case]:
    """Convolutions, pools and products of matrices."""
    for activation in ("NONE", "RELU6"):
        how: Dict[str, Any] = {**XY, **SAME, "W_scales": SCALES, "activation": activation}
        yield from tflite("QuantizedConv", "int8 1x7x6x4", "!int8 6x3x3x4", BIAS, **how, strides=[2, 1])
        yield from tflite("QuantizedConv", "int8 1x9x8x6", "!int8 6x3x3x1", BIAS, **how, strides=[2, 2], group=6)
    plain: Dict[str, Any] = {"W_scales": [0.01], "W_zero_point": 50}
    yield from tflite("QuantizedConv", "uint8 1x6x6x4", "!uint8 6x1x1x4", BIAS, **BYTES, **plain)
    yield from tflite("QuantizedFullyConnected", "int8 3x8", "!int8 6x8", BIAS, **XY, W_scales=[0.01])
    yield from tflite("QuantizedFullyConnected", "int8 3x8", "!int8 6x8", BIAS, **XY, W_scales=[0.01], W_zero_point=-7)
    size, up = np.array([8, 10], np.int32), {**XY, **SAME, "W_scales": SCALES, "strides": [2, 2]}
    yield from tflite("QuantizedConvTranspose", "int8 1x4x5x4", "!int8 6x3x3x4", size, BIAS, **up)
    yield from tflite("QuantizedMatMul", "int8 2x3x8", "int8 2x8x5", **OPERANDS, Y_scale=0.2)
    window: Dict[str, Any] = {**SAME, "kernel_shape": [3, 3], "strides": [2, 2]}
    yield from tflite("QuantizedAveragePool", "int8 1x7x6x4", **Y, **window)
    yield from tflite("QuantizedMaxPool", "int8 1x7x6x4", **window)


def elementwise() -> Iterator[Case]:
    """Arithmetic, comparisons, functions and changes of scale."""
    operands = "int8 2x5x3", "int8 1x5x1"
    arithmetic = "QuantizedAdd QuantizedSub QuantizedMul QuantizedPRelu QuantizedSquaredDifference"
    yield from tflite(arithmetic, *operands, **OPERANDS, **Y)
    equalities, orders = "QuantizedEqual QuantizedNotEqual", "QuantizedLess QuantizedLessEqual"
    yield from tflite(f"{equalities} {orders} QuantizedGreater QuantizedGreaterEqual", *operands, **OPERANDS)
    functions = "Relu HardSwish Abs Neg Sqrt Gelu Logistic Tanh Elu Exp Log Rsqrt"
    yield from tflite(" ".join(f"Quantized{name}" for name in functions.split()), "int8 4x50", **XY)
    yield from tflite("RescaleOperand", "int8 4x50", **XY)
    yield from tflite("QuantizedLeakyRelu", "int8 4x50", **XY, alpha=0.3)
    yield from tflite("Quantize", SPECIAL, **Y, to=INT8)
    yield from tflite("Quantize", FAR, **BYTES, to=UINT8)
    yield from tflite("Dequantize", "int8 4x5", **X)
    yield from tflite("Requantize", "int8 4x5", **X, Y_scale=0.03, Y_zero_point=128, to=UINT8)
    yield from tflite("FloorDiv RightShift", "int32 3x4", np.array([1, 2, 3, 4], np.int32))
    yield from tflite("Atan2", "3x4", "pos 4")
    for to in (INT8, UINT8, INT32):
        yield from tflite("Cast", SPECIAL, to=to)
        yield from tflite("Cast", FAR, to=to)
    yield from tflite("Logistic", SPECIAL)
    yield from tflite("Logistic", FAR)


def rows() -> Iterator[Case]:
    """Reductions, softmax, resizing, and operators that move elements."""
    yield from tflite("QuantizedMean QuantizedSum", "int8 2x5x4x3", **X, Y_scale=0.3, axes=[1, 2])
    yield from tflite("QuantizedSoftmax QuantizedLogSoftmax QuantizedL2Normalize", "int8 3x20", **X)
    size = np.array([7, 9], np.int32)
    yield from tflite("QuantizedResizeBilinear", "int8 1x4x5x3", size, half_pixel_centers=1)
    yield from tflite("QuantizedResizeBilinear", "uint8 1x4x5x3", size, align_corners=1)
    block, margins = np.array([2, 3]), np.array([[1, 0], [1, 1]])
    yield from tflite("SpaceToBatchND", "2x5x7x2", block, margins, value=3.0)
    yield from tflite("BatchToSpaceND", "12x3x3x2", block, margins)
    yield from tflite("DynamicUpdateSlice", "4x5x3", "2x1x3", np.array([1, 4, 0], np.int32))


def int16() -> Iterator[Case]:
    """int16 activations with int8 weights, and a bias of 64 bits."""
    bias, wide = np.array([7, -900, 30000, 0, 5, -5]), np.array([2, 7], np.int32)
    xy, one = {"X_scale": 0.001, "Y_scale": 0.002}, {"W_scales": [0.01]}
    window = {**SAME, "strides": [1, 1]}
    yield from tflite("QuantizedConv", "int16 1x5x6x3", "!int8 6x3x3x3", bias, **xy, **window, **one)
    depthwise: Dict[str, Any] = {"group": 6, "W_scales": [-0.02] * 6}
    yield from tflite("QuantizedConv", "int16 1x5x6x6", "!int8 6x3x3x1", bias, **xy, **window, **depthwise)
    yield from tflite("QuantizedConvTranspose", "int16 1x2x7x3", "!int8 6x1x1x3", wide, bias, **xy, **window, **one)
    yield from tflite("QuantizedFullyConnected", "int16 3x8", "!int8 6x8", bias, **xy, **one)
    yield from tflite("QuantizedMatMul", "int16 2x3x8", "int8 2x8x5", A_scale=0.01, B_scale=0.02, Y_scale=0.3)
    arithmetic = "QuantizedAdd QuantizedSub QuantizedMul QuantizedDiv QuantizedLess"
    yield from tflite(arithmetic, "int16 3x9", "int16 9", A_scale=0.01, B_scale=0.03, Y_scale=0.05)
    yield from tflite("QuantizedExp QuantizedGelu QuantizedRelu QuantizedSqrt", "int16 4x9", **xy)
    yield from tflite("QuantizedLogistic QuantizedTanh", "int16 4x9", X_scale=0.01, Y_scale=2.0**-15)
    yield from tflite("QuantizedSoftmax", "int16 3x20", X_scale=0.01)
    yield from tflite("QuantizedProd", "int16 3x4", **xy, axes=[1])
    yield from tflite("Requantize", "int16 4x5", X_scale=0.05, Y_scale=0.03, to=INT32)


def hybrid() -> Iterator[Case]:
    """Float activations with int8 weights, the activations quantised while running."""
    for scales in ([0.01], SCALES):
        how: Dict[str, Any] = {"kernel": 3, "pad": 1, "W_scales": scales}
        yield from tflite("HybridConv", "1x4x6x6", "!int8 6x4x3x3", "!6", **how)
        yield from tflite("HybridDepthwiseConv", "1x6x6x6", "!int8 6x1x3x3", "!6", **how, group=6)
        yield from tflite("HybridFullyConnected", "3x8", "!int8 6x8", "!6", W_scales=scales)


def recurrent() -> Iterator[Case]:
    """LSTM and RNN with int8 weights: of floats, which are quantised while running, and of integers; SVDF."""
    matrices, rest = ("!int8 4x3",) * 4 + ("!int8 4x4",) * 4, ("-", "-")
    floats: Dict[str, Any] = {"outputs": 3, "scales": [0.01] * 24}
    yield from tflite("LSTM", "2x2x3", *matrices, *"---", *("!4",) * 4, *rest, "2x4", "2x4", **floats)
    yield from tflite("RNN", "2x2x3", "!int8 4x3", "!int8 4x4", "!4", "2x4", outputs=2, scales=[0.01] * 5)
    integers: Dict[str, Any] = {"X_scale": 0.02, "H_scale": 0.006, "hidden_scale": 0.006, "C_scale": 2.0**-11}
    integers.update(outputs=3, scales=[0.004] * 24, gate_scales=[0.0] * 4)
    states, biases = ("int8 2x4", "int16 2x4"), ("!int32 4",) * 4
    yield from tflite("QuantizedLSTM", "int8 5x2x3", *matrices, *"---", *biases, *rest, *states, **integers)
    yield from tflite("SVDF", "2x6", "!6x5", "2x30", "!3", outputs=2, rank=2)
    memory: Dict[str, Any] = {"X_scale": 0.02, "W_scale": 0.01, "times_scale": 2.0**-7, "state_scale": 2.0**-9}
    filters = "!int8 6x4", "!int16 6x5", "int16 2x30", "!int32 3"
    yield from tflite("QuantizedSVDF", "int8 2x4", *filters, outputs=2, rank=2, Y_scale=0.05, **memory)
