"""Integer operators of Caffe2, ONNX and onnxruntime."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List

import numpy as np

from device_tests.host.golden_cases.case import QUANTIZED, SPECIAL, Case, case, microsoft, onnx, own
from runtime_arm.registry.specs import QuantizedTensor


def quantised() -> Iterator[Case]:
    """Integer arithmetic, which is exact on every machine."""
    out: Dict[str, Any] = {"Y_scale": 0.1, "Y_zero_point": 100}
    nhwc: Dict[str, Any] = {**out, "order": "NHWC"}
    bias = QuantizedTensor(np.arange(-3, 3, dtype=np.int32) * 50, QUANTIZED[0] ** 2, 0)
    yield from case("Int8Quantize", "3x5", **out)
    yield from case("Int8Dequantize", "q 3x5")
    yield from case("Int8Conv Int8ConvRelu", "q 1x6x6x4", "q 6x3x3x4", bias, kernel=3, pad=1, **nhwc)
    yield from case("Int8FC Int8FCRelu", "q 3x8", "q 6x8", bias, **out)
    yield from case("Int8Add Int8AddRelu Int8Sum Int8SumRelu", "q 1x3x3x2", "q 1x3x3x2", **out)
    yield from case("Int8Relu", "q 1x3x3x2", Y_scale=QUANTIZED[0], Y_zero_point=QUANTIZED[1])
    yield from case("Int8LeakyRelu", "q 1x3x3x2", alpha=0.1, **out)
    yield from case("Int8Sigmoid Int8Softmax", "q 3x8", Y_scale=1.0 / 256, Y_zero_point=0)
    yield from case("Int8AveragePool", "q 1x6x6x4", kernel=3, **nhwc)
    kept: Dict[str, Any] = {"Y_scale": QUANTIZED[0], "Y_zero_point": QUANTIZED[1]}
    yield from case("Int8MaxPool", "q 1x6x6x4", kernel=2, stride=2, order="NHWC", **kept)
    yield from case("Int8ResizeNearest", "q 1x3x3x2", width_scale=2.0, height_scale=2.0, order="NHWC", **kept)
    yield from case("Int8Transpose", "q 1x3x4x2", axes=[0, 3, 1, 2], **kept)
    yield from case("Int8Slice", "q 4x5", starts=[1, 0], ends=[3, -1], **kept)
    yield from case("Int8Concat", "q 1x3x3x2", "q 1x3x3x2", axis=3, **kept)
    yield from case("Int8ChannelShuffle", "q 1x3x3x6", group=3, order="NHWC", **kept)
    scale, zero, u8, i8 = np.float32(0.05), np.uint8(120), "uint8 ", "int8 "
    weights: List[Any] = ["!int8 6x4x3x3", scale, np.int8(0)]
    yield from onnx("QuantizeLinear", "3x5", scale, zero)
    yield from onnx("QuantizeLinear", SPECIAL, np.float32(1), zero)
    yield from onnx("DequantizeLinear", f"{u8}3x5", scale, zero)
    yield from microsoft("QuantizeLinear", "3x5", scale, zero)
    yield from microsoft("DequantizeLinear", f"{u8}3x5", scale, zero)
    yield from onnx("DynamicQuantizeLinear", "3x5", outputs=3)
    yield from onnx(
        "QLinearConv", f"{u8}1x4x6x6", scale, zero, *weights, np.float32(0.2), zero, np.arange(6, dtype=np.int32)
    )
    weights[0] = "!int8 4x1x3x3"
    rest: List[Any] = [np.float32(0.2), zero]
    yield from onnx("QLinearConv", f"{u8}1x4x9x12", scale, zero, *weights, *rest, group=4, pads=[1] * 4)
    yield from onnx("ConvInteger", f"{u8}1x4x6x6", "!int8 6x4x3x3", zero)
    yield from onnx("MatMulInteger", f"{u8}3x8", "!int8 8x5", zero)
    yield from onnx("QLinearMatMul", f"{u8}3x8", scale, zero, "!int8 8x5", scale, np.int8(0), np.float32(0.2), zero)
    yield from microsoft("DynamicQuantizeMatMul", "3x8", "!int8 8x5", scale)
    layer: List[Any] = ["!int8 1x3x16", "!int8 1x4x16", "!1x32", "-", "1x2x4", "1x2x4", "-"]
    steps = np.array([0.01], np.float32), np.array([0], np.int8)
    yield from microsoft("DynamicQuantizeLSTM", "5x2x3", *layer, *steps, *steps, outputs=3, hidden_size=4)
    yield from microsoft("MatMulIntegerToFloat", f"{u8}3x8", "!int8 8x5", scale, scale, zero)
    yield from microsoft("QGemm", f"{u8}3x8", scale, zero, "!int8 8x5", scale, np.int8(0), "-", np.float32(0.2), zero)
    table = np.arange(255, -1, -1).astype(np.uint8)
    yield from case("LookUp", f"{i8}3x50", table, domain="armnet")
    for type in ("QLinearAdd", "QLinearMul"):
        yield from microsoft(type, f"{u8}2x8", scale, zero, f"{u8}2x8", scale, zero, np.float32(0.2), zero)
    yield from microsoft("QLinearLeakyRelu QLinearSigmoid", f"{i8}2x8", scale, np.int8(3), scale, np.int8(-3))
    yield from microsoft("QLinearGlobalAveragePool", f"{u8}1x4x6x6", scale, zero, np.float32(0.02), zero)
    yield from microsoft("QLinearAveragePool", f"{u8}1x4x6x6", scale, zero, scale, zero, kernel_shape=[2, 2])
    yield from microsoft("QLinearSoftmax", f"{u8}2x9x4", scale, zero, np.float32(1 / 256), zero, axis=1, opset=13)
    yield from microsoft(
        "QLinearConcat", scale, zero, f"{u8}2x3", scale, zero, f"{u8}2x4", np.float32(0.1), zero, axis=1
    )


def packed() -> Iterator[Case]:
    """Weights of fewer bits, unpacked: scales and palettes as data, shapes as arguments."""
    shape: Dict[str, Any] = {"shape": [6, 11]}
    scales = np.array([0.5, 0.25, 2.0], np.float16)
    yield from own("UnpackBlocks", "uint8 3x16", scales, **shape, block_size=32)
    yield from own("UnpackInt4", "uint8 36", **shape, exponent=120)
    yield from own("UnpackInt4", "uint8 4787", shape=[9, 1001], exponent=110)
    yield from own("UnpackPalette", "uint8 33", "16", **shape)
    yield from own("UnpackBfloat16", "uint16 6x11")
