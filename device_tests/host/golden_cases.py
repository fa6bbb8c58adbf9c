"""The operators and operands of golden vectors: operators with fast kernels, and those with delicate arithmetic.

    case("Conv Conv2D", "2x4x7x6", "!6x4x3x3", "!6", kernel=3, pad=1)

An operand is spelled ``[!][kind ]shape``:

    2x3              float32, standard normal
    !6x4x3x3         a weight: a constant, divided by the square root of its fan-in
    int8 2x3         of another dtype; integers between -100 and 100
    pos 2x3          positive, 0.2 to 3; ``unit``: -0.9 to 0.9
    q 1x3x4x4        uint8 with scale 1/16 and zero point 120: a QuantizedTensor
    -                left out

Anything else is a constant, converted to a NumPy array; Python's numbers become float32 and int64.
"""

from __future__ import annotations

import math
import re
from typing import Any, Dict, Iterator, List, NamedTuple

import numpy as np

from runtime_arm.netdef import Array, OperatorDef, dtypes
from runtime_arm.registry.specs import QuantizedTensor

QUANTIZED = (0.0625, 120)  # the scale and zero point of operands of kind ``q``
REAL_RANGES = {"pos": (0.2, 3.0), "unit": (-0.9, 0.9)}


class Case(NamedTuple):
    """An operator with its operands, of which those at the indices ``constants`` are known when the net is planned."""

    op: OperatorDef
    inputs: List[Any]
    constants: List[int]


def case(types: str, *operands: Any, domain: str = "", outputs: int = 1, **arguments: Any) -> Iterator[Case]:
    """A case for each operator type in ``types``. Its random operands depend only on the type and its position."""
    for number, type in enumerate(types.split()):
        rng = np.random.default_rng([number, *map(ord, type)])
        inputs = [_operand(operand, rng) for operand in operands]
        names = ["" if value is None else f"x{i}" for i, value in enumerate(inputs)]
        op = OperatorDef.of(type, names, [f"y{i}" for i in range(outputs)], domain=domain, **arguments)
        constants = [i for i, operand in enumerate(operands) if not isinstance(operand, str) or operand[:1] == "!"]
        yield Case(op, inputs, constants)


def onnx(types: str, *operands: Any, outputs: int = 1, **arguments: Any) -> Iterator[Case]:
    """``case`` in ONNX's domain."""
    return case(types, *operands, domain="onnx", outputs=outputs, **arguments)


def microsoft(types: str, *operands: Any, outputs: int = 1, **arguments: Any) -> Iterator[Case]:
    """``case`` in onnxruntime's domain."""
    return case(types, *operands, domain="com.microsoft", outputs=outputs, **arguments)


def _operand(operand: Any, rng: np.random.Generator) -> Any:
    if not isinstance(operand, str):
        return _constant(operand)
    if operand == "-":
        return None
    found = re.fullmatch(r"(!?)(?:(\w+) )?(\d+(?:x\d+)*)", operand)
    assert found is not None, f"{operand!r} is no operand"
    weight, kind, shape = found[1], found[2] or "float32", tuple(map(int, found[3].split("x")))
    if kind == "q":
        return QuantizedTensor(rng.integers(0, 256, shape).astype(np.uint8), *QUANTIZED)
    values = _draw(kind, shape, rng)
    return values / np.float32(math.sqrt(math.prod(shape[1:]))) if weight and kind == "float32" else values


def _constant(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic, QuantizedTensor)):
        return value if isinstance(value, QuantizedTensor) else np.asarray(value)
    array = np.asarray(value)
    return array.astype(np.float32 if array.dtype.kind == "f" else np.int64)


def _draw(kind: str, shape: Any, rng: np.random.Generator) -> Array:
    if kind in REAL_RANGES:
        return np.asarray(rng.uniform(*REAL_RANGES[kind], shape), np.float32)
    dtype = np.dtype(kind)
    if dtype.kind == "f":
        return np.asarray(rng.standard_normal(shape), dtype)
    if dtype.kind == "b":
        return np.asarray(rng.integers(0, 2, shape), dtype)
    limits = np.iinfo(dtype)
    return np.asarray(rng.integers(max(limits.min, -100), min(limits.max, 100), shape), dtype)


FLOAT, INT32, UINT8, INT64 = dtypes.FLOAT, dtypes.INT32, dtypes.UINT8, dtypes.INT64
SPECIAL = np.array([0.0, -0.0, 1e-40, 1e38, -1e38, np.inf, -np.inf, np.nan, 0.5, 1.5, 2.5, -0.5, -1.5], np.float32)
FAR = np.array([300.5, -1.5, 200.0, -200.0, 3e9, -3e9, 1e19, -1e19, np.inf, -np.inf, np.nan], np.float32)
BOXES = np.array([[0, 0, 10, 10], [1, 1, 11, 11], [0, 20, 10, 30], [0, 21, 9, 31], [40, 0, 50, 9]], np.float32)


def elementwise() -> Iterator[Case]:
    """Activations, arithmetic, comparisons, casts."""
    activations = "Elu HardSigmoid LeakyRelu Relu Selu Sigmoid Softplus Softsign Swish Tanh ThresholdedRelu Gelu Mish"
    functions = "Abs Atan Ceil Cos Cosh Erf Exp Floor Reciprocal Sign Sin Sinh Tan"
    yield from case(f"{activations} {functions} Cbrt Cube Negative Sqr ReluN Clip StumpFunc", "3x5x7")
    yield from onnx(f"{activations} {functions} Asinh Celu Clip HardSwish Neg Round Shrink", "3x5x7")
    yield from case("Acos Asin", "unit 3x5x7")
    yield from case("Logit", np.linspace(0.1, 0.9, 50, dtype=np.float32))
    yield from onnx("Acos Asin Atanh", "unit 3x5x7")
    yield from onnx("Acosh", np.linspace(1, 9, 50, dtype=np.float32))
    yield from case("Log Sqrt Rsqrt", "pos 3x5x7")
    yield from onnx("Log Sqrt", "pos 3x5x7")
    yield from case("Relu Sigmoid Tanh Floor Ceil Abs Negative Clip Sign ReplaceNaN", SPECIAL)
    yield from onnx("Round Clip Relu Sign IsNaN IsInf Floor", SPECIAL)
    yield from onnx("Abs Neg Sign", "int32 4x5")
    yield from case("Clip", "3x5x7", min=-0.3, max=0.7)
    yield from case("Scale", "3x5x7", scale=2.5)
    yield from case("Pow", "pos 4x5", exponent=2.5)
    yield from case("Pow", "4x5", exponent=3.0)
    yield from onnx("Pow", "pos 4x5", "4x5")
    yield from onnx("Pow", "4x5", np.float32(2))
    yield from case("PRelu", "2x3x4x5", "!3")
    yield from onnx("PRelu", "2x3x4x5", "!3x1x1")
    yield from case("Add Sub Mul Div LT LE GT GE EQ NE", "2x3x4", "pos 3x1")
    yield from case("Add Sub Mul", "int32 2x3x4", "int32 4")
    yield from case("Add Mul", "2x3x4x5", "3", broadcast=1, axis=1)
    yield from case("And Or Xor", "bool 3x4", "bool 3x4")
    yield from case("BitwiseAnd BitwiseOr BitwiseXor", "int32 3x4", "int32 3x4")
    yield from case("Not", "bool 3x4")
    yield from onnx("Add Sub Mul Div Less LessOrEqual Greater GreaterOrEqual Equal", "2x3x4", "pos 3x1")
    yield from onnx("Mod", "int32 2x3x4", np.array([3, -4, 5, 7], np.int32))
    yield from onnx("Div", "int32 2x3x4", np.array([3, -4, 5, 7], np.int32))
    yield from onnx("And Or Xor", "bool 3x1", "bool 4")
    yield from onnx("BitwiseAnd BitwiseOr BitwiseXor", "uint8 3x1", "uint8 4")
    yield from onnx("Not", "bool 3x4")
    yield from onnx("BitwiseNot", "int8 3x4")
    yield from case("Max Min Sum Mean SumRelu", "3x4", "3x4", "3x4")
    yield from case("SumInt", "int32 3x4", "int32 3x4")
    yield from onnx("Max Min Sum Mean", "3x1", "4", "2x3x4")
    yield from case("Where", "bool 3x4", "3x4", "3x4")
    yield from case("Conditional", "bool 3", "3x4", "3x4")
    yield from onnx("Where", "bool 3x1", "4", "3x4")
    yield from case("Cast", "3x5x7", to="INT32")
    yield from case("FloatToHalf", "3x5x7")
    yield from case("HalfToFloat", "float16 3x5x7")
    for to in (INT32, UINT8, INT64):
        yield from onnx("Cast", FAR, to=to)
    yield from onnx("Cast", "int32 4x5", to=FLOAT)
    yield from onnx("CastLike", FAR, np.int8(0))
    yield from onnx("BitCast", "float32 4x5", to=INT32)
    yield from case("Dropout", "3x4", is_test=1, outputs=2)
    yield from onnx("Dropout", "3x4")
    yield from case("Power", "pos 3x4", domain="caffe", power=2.0, scale=0.5, shift=1.0)


def convolution() -> Iterator[Case]:
    """Convolutions, pooling, matrix products."""
    yield from case("Conv Conv2D ConvRelu", "2x4x9x8", "!6x4x3x3", "!6", kernel=3, pad=1)
    yield from onnx("Conv", "2x4x9x8", "!6x4x3x3", "!6", pads=[1, 1, 1, 1])
    yield from case("Conv", "1x64x24x24", "!64x64x3x3", "!64", kernel=3, pad=1)  # the smallest that WINOGRAD takes
    yield from case("Conv", "1x8x24x24", "!8x8x9x9", "!8", kernel=9, pad=4)  # this and the next one are for FFT
    yield from case("Conv", "1x6x14x14", "!6x1x13x13", "!6", kernel=13, pad=6, group=6)
    yield from case("Conv", "1x8x7x7", "!12x8x1x1", "!12", kernel=1)
    yield from case("Conv", "1x8x7x7", "!12x8x1x1", kernel=1, stride=2)
    for stride in (1, 2):
        yield from case("Conv", "1x8x9x40", "!8x1x3x3", "!8", kernel=3, pad=1, stride=stride, group=8)
    yield from case("Conv", "1x6x9x9", "!4x3x3x2", "!4", kernel_h=3, kernel_w=2, dilation=2, group=2)
    yield from case("Conv", "1x9x8x4", "!6x3x3x4", "!6", kernel=3, order="NHWC")
    yield from case("Conv1D", "2x3x9", "!4x3x3", "!4", kernels=[3])
    yield from case("Conv3D", "1x2x4x5x6", "!3x2x2x2x2", "!3", kernels=[2, 2, 2])
    yield from case("FusedConv", "1x4x8x8", "!6x4x3x3", "!6", "1x6x8x8", domain="armnet", kernel=3, pad=1)
    yield from case(
        "FusedConv", "1x4x8x8", "!6x4x1x1", "!6", "1x6x8x8", "!6x1x1", domain="armnet", kernel=1, activation="onnx.Max"
    )
    yield from case("FusedBatchNorm", "1x4x8x8", "!4", "!4", "!4", "!pos 4", "1x4x8x8", domain="armnet", is_test=1)
    yield from case("ConvTranspose", "1x4x5x5", "!4x3x3x3", "!3", kernel=3, stride=2, pad=1, adj=1)
    yield from case("FusedConvTranspose", "1x4x5x5", "!4x3x2x2", "!3", "1x3x10x10", domain="armnet", kernel=2, stride=2)
    yield from case("FusedFC", "3x8", "!5x8", "!5", "3x5", domain="armnet", activation="Relu")
    yield from case("FusedFCTransposed", "3x8", "!8x5", "!5", "3x5", domain="armnet")
    yield from case("FusedMaxPool", "1x3x9x8", domain="armnet", kernel=3, stride=2, pad=1, activation="Relu")
    yield from onnx("ConvTranspose", "1x4x5x5", "!4x3x3x3", "!3", strides=[2, 2], pads=[1, 1, 1, 1])
    for pool in ("MaxPool", "AveragePool"):
        yield from case(f"{pool} {pool}2D", "1x3x9x8", kernel=3, stride=2, pad=1)
        yield from case(f"{pool}1D", "1x3x9", kernels=[3])
        yield from case(f"{pool}3D", "1x2x5x5x5", kernels=[2, 2, 2], strides=[2, 2, 2])
        yield from case(pool, "1x3x9x8", global_pooling=1)
        yield from onnx(pool, "1x3x9x8", kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1], ceil_mode=1)
    yield from case("FC", "4x12", "!5x12", "!5")
    yield from case("FCTransposed", "4x12", "!12x5", "!5")
    yield from case("MatMul", "4x12", "!12x5")
    yield from case("BatchMatMul", "2x4x12", "2x12x5")
    yield from onnx("MatMul", "2x4x12", "12x5")
    yield from onnx("Gemm", "12x4", "!5x12", "!5", transA=1, transB=1, alpha=0.5, beta=2.0)
    yield from onnx("Einsum", "2x3x4", "2x4x5", equation="bij,bjk->bik")
    yield from case("Im2Col", "1x3x6x6", kernel=3, pad=1)
    yield from case("Col2Im", "1x27x6x6", "1x3x6x6", kernel=3, pad=1)
    yield from onnx("Col2Im", "1x12x9", [4, 4], [2, 2])


def normalisation() -> Iterator[Case]:
    """Normalisations, softmax, reductions, recurrent layers."""
    yield from case("SpatialBN", "2x4x5x5", "!4", "!4", "!4", "!pos 4", is_test=1)
    yield from onnx("BatchNormalization", "2x4x5x5", "!4", "!4", "!4", "!pos 4")
    yield from case("AffineChannel", "2x4x5x5", "!4", "!4")
    yield from case("InstanceNorm", "2x4x5x5", "!4", "!4")
    yield from case("GroupNorm", "2x4x5x5", "!4", "!4", group=2)
    yield from onnx("GroupNormalization", "2x4x5x5", "!4", "!4", num_groups=2)
    yield from case("LayerNorm", "2x4x5", outputs=3)
    yield from onnx("LayerNormalization", "2x4x5", "!5", "!5")
    yield from onnx("RMSNormalization", "2x4x5", "!5")
    yield from case("LRN", "1x9x4x4", size=5, alpha=0.1, beta=0.75, bias=1.0)
    yield from case("Softmax", "3x12", axis=1)
    yield from onnx("Softmax LogSoftmax Hardmax", "2x5x6", axis=1)
    sums = "Sum Mean Max Min L1 L2"
    for name in sums.split():
        yield from case(f"Reduce{name}", "3x4x5", axes=[1])
    for name in (*sums.split(), "Prod", "SumSquare", "LogSumExp"):
        yield from onnx(f"Reduce{name}", "3x4x5", [-1, 0])
    yield from onnx("ReduceLogSum", "pos 3x4x5", [1], keepdims=0)
    yield from case("ReduceBackMax ReduceBackMean ReduceBackSum ReduceFrontMax ReduceFrontMean ReduceFrontSum", "3x4x5")
    yield from case("ReduceTailSum RowwiseMax ColwiseMax AveragedLoss SumElements SumSqrElements", "3x4x5")
    yield from case("SumElementsInt", "int32 3x4")
    yield from onnx("CumSum CumProd", "4x5", np.int64(1))
    gates: Dict[str, int] = {"LSTM": 4, "GRU": 3, "RNN": 1}
    for type, count in gates.items():
        yield from onnx(
            type, "5x2x3", f"!1x{4 * count}x3", f"!1x{4 * count}x4", f"!1x{8 * count}", outputs=2, hidden_size=4
        )


def layout() -> Iterator[Case]:
    """Data movement: concatenation, slices, padding, gathering, resizing."""
    yield from case("Transpose", "2x3x4x5", axes=[0, 2, 3, 1])
    yield from case("NCHW2NHWC NHWC2NCHW", "2x3x4x5")
    yield from case("Concat DepthConcat", "2x3x4", "2x5x4", axis=1, outputs=2)
    yield from case("Split DepthSplit", "2x6x4", axis=1, outputs=2)
    yield from onnx("Split", "2x6x4", [1, 5], axis=1, outputs=2)
    yield from case("SplitByLengths", "5x2", np.array([2, 3], np.int32), outputs=2)
    yield from case("Slice", "4x5", starts=[1, 0], ends=[3, -1])
    yield from onnx("Slice", "4x5", [3, -1], [0, -4], [0, 1], [-1, -2])
    yield from case("Tile", "2x3", tiles=3, axis=1)
    yield from onnx("Tile", "2x3", [2, 2])
    yield from case("NumpyTile", "2x3", np.array([2, 2], np.int32))
    yield from case("Expand", "3x1", [2, 3, 4])
    yield from onnx("Expand", "3x1", [2, 3, 4])
    yield from case("PadImage", "1x2x4x4", pad=1, mode="reflect")
    yield from onnx("Pad", "2x3x4", [0, 1, 2, 0, 1, 1])
    yield from onnx("CenterCropPad", "5x4", [3, 6])
    yield from onnx("Trilu", "4x5", upper=0)
    yield from case("ChannelShuffle", "1x6x3x3", group=3)
    yield from case("SpaceToBatch", "1x2x4x4", block_size=2)
    yield from case("BatchToSpace", "4x2x2x2", block_size=2)
    yield from onnx("SpaceToDepth", "1x2x4x6", blocksize=2)
    yield from onnx("DepthToSpace", "1x8x2x3", blocksize=2, mode="CRD")
    yield from case("Gather", "5x4", np.array([[0, 4], [2, 2]], np.int32))
    yield from case("BatchGather", "2x5x3", np.array([4, 0], np.int32))
    yield from case("ScatterAssign", "5x3", np.array([4, 1], np.int32), "2x3")
    yield from onnx("GatherElements", "3x3", [[2, 0, 1]], axis=0)
    yield from onnx("GatherND", "2x3x4", [[0, 2], [1, 0]])
    yield from onnx("ScatterND", "5x3", [[4], [1]], "2x3")
    yield from case("ResizeNearest", "1x2x4x4", width_scale=2.0, height_scale=1.5)
    yield from case("UpsampleNearest", "1x2x3x3")
    yield from case("ResizeNearest3D", "1x2x2x3x3", temporal_scale=2.0, width_scale=2.0, height_scale=2.0)
    yield from case("UpsampleBilinear", "1x2x4x4", width_scale=2.0, height_scale=2.0)
    for mode in ("nearest", "linear", "cubic"):
        yield from onnx("Resize", "1x2x4x4", "-", "-", [1, 2, 7, 6], mode=mode)
    yield from onnx("GridSample", "1x2x4x4", "unit 1x3x3x2")
    yield from case("ConstantFill", shape=[2, 3], value=0.5)
    yield from case("PackedInt8BGRANHWCToNCHWCStylizerPreprocess", "uint8 1x4x4x4", "3", noise_std=0.0, noise_size=1)
    yield from case("BRGNCHWCToPackedInt8BGRAStylizerDeprocess", "1x3x4x4", "3")


def detection() -> Iterator[Case]:
    """Sorting and boxes, where the last bit of a sum may decide the result."""
    yield from case("ArgMax ArgMin", "3x7", axis=1)
    yield from case("TopK", "3x7", k=3, outputs=2)
    yield from onnx("TopK", "3x7", [2], outputs=2)
    yield from onnx("ArgMax ArgMin", "3x7", axis=0)
    yield from onnx("NonMaxSuppression", BOXES[np.newaxis], "pos 1x2x5", 3, np.float32(0.5))
    yield from onnx("NonZero", np.array([[0, 1], [2, 0]], np.float32))
    yield from onnx("Unique", np.array([3, 1, 3, 2], np.int64), outputs=4)
    regions = np.array([[0, 0, 0, 3, 3], [0, 1, 1, 2.5, 3]], np.float32)
    yield from case("RoIAlign", "1x2x5x5", regions, pooled_h=2, pooled_w=2, sampling_ratio=2)
    yield from onnx("RoiAlign", "1x2x5x5", regions[:, 1:], np.zeros(2, np.int64), output_height=2, output_width=2)
    yield from case("BBoxTransform", BOXES, "unit 5x4", np.array([[60, 60, 1]], np.float32))


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
    yield from onnx("ConvInteger", f"{u8}1x4x6x6", "!int8 6x4x3x3", zero)
    yield from onnx("MatMulInteger", f"{u8}3x8", "!int8 8x5", zero)
    yield from onnx("QLinearMatMul", f"{u8}3x8", scale, zero, "!int8 8x5", scale, np.int8(0), np.float32(0.2), zero)
    yield from microsoft("DynamicQuantizeMatMul", "3x8", "!int8 8x5", scale)
    yield from microsoft("MatMulIntegerToFloat", f"{u8}3x8", "!int8 8x5", scale, scale, zero)
    yield from microsoft("QGemm", f"{u8}3x8", scale, zero, "!int8 8x5", scale, np.int8(0), "-", np.float32(0.2), zero)
    for type in ("QLinearAdd", "QLinearMul"):
        yield from microsoft(type, f"{u8}2x8", scale, zero, f"{u8}2x8", scale, zero, np.float32(0.2), zero)
    yield from microsoft("QLinearLeakyRelu QLinearSigmoid", f"{i8}2x8", scale, np.int8(3), scale, np.int8(-3))
    yield from microsoft("QLinearGlobalAveragePool", f"{u8}1x4x6x6", scale, zero, np.float32(0.02), zero)
    yield from microsoft("QLinearAveragePool", f"{u8}1x4x6x6", scale, zero, scale, zero, kernel_shape=[2, 2])
    yield from microsoft(
        "QLinearConcat", scale, zero, f"{u8}2x3", scale, zero, f"{u8}2x4", np.float32(0.1), zero, axis=1
    )


def tflite(types: str, *operands: Any, **arguments: Any) -> Iterator[Case]:
    """``case`` in TensorFlow Lite's domain."""
    return case(types, *operands, domain="tflite", **arguments)


def tflite_int16() -> Iterator[Case]:
    """int16 activations with int8 weights, and a bias of 64 bits."""
    bias, x, y = np.array([7, -900, 30000, 0, 5, -5]), {"X_scale": 0.001}, {"Y_scale": 0.002}
    wide = np.array([2, 7], np.int32)
    window = {"strides": [1, 1], "auto_pad": "SAME_UPPER"}
    yield from tflite("QuantizedConv", "int16 1x5x6x3", "!int8 6x3x3x3", bias, **x, **y, **window, W_scales=[0.01])
    yield from tflite("QuantizedConv", "int16 1x5x6x6", "!int8 6x3x3x1", bias, **x, **y, group=6, W_scales=[-0.02] * 6)
    yield from tflite(
        "QuantizedConvTranspose", "int16 1x2x7x3", "!int8 6x1x1x3", wide, bias, **x, **y, **window, W_scales=[0.01]
    )
    yield from tflite("QuantizedFullyConnected", "int16 3x8", "!int8 6x8", bias, **x, **y, W_scales=[0.01])
    yield from tflite("QuantizedMatMul", "int16 2x3x8", "int8 2x8x5", A_scale=0.01, B_scale=0.02, Y_scale=0.3)
    pair = {"A_scale": 0.01, "B_scale": 0.03, "Y_scale": 0.05}
    yield from tflite(
        "QuantizedAdd QuantizedSub QuantizedMul QuantizedDiv QuantizedLess", "int16 3x9", "int16 9", **pair
    )
    yield from tflite("QuantizedExp QuantizedGelu QuantizedRelu QuantizedSqrt", "int16 4x9", **x, **y)
    yield from tflite("QuantizedLogistic QuantizedTanh", "int16 4x9", X_scale=0.01, Y_scale=2.0**-15)
    yield from tflite("QuantizedSoftmax", "int16 3x20", X_scale=0.01)
    yield from tflite("QuantizedProd", "int16 3x4", **x, **y, axes=[1])
    yield from tflite("Requantize", "int16 4x5", X_scale=0.05, Y_scale=0.03, to=dtypes.INT32)


def tflite_integers() -> Iterator[Case]:
    """TensorFlow Lite's integer arithmetic, which without floats is bit-exact on every machine."""
    x, y = {"X_scale": 0.05, "X_zero_point": 4}, {"Y_scale": 0.1, "Y_zero_point": -3}
    bytes_ = {"X_scale": 0.05, "X_zero_point": 120, "Y_scale": 0.1, "Y_zero_point": 128}
    pair = {"A_scale": 0.05, "A_zero_point": 4, "B_scale": 0.07, "B_zero_point": -9}
    bias, scales = np.arange(-300, 300, 100, dtype=np.int32), [0.01, 0.02, 0.005, 0.03, 0.008, 0.0125]
    for activation in ("NONE", "RELU6"):
        yield from tflite(
            "QuantizedConv",
            "int8 1x7x6x4",
            "!int8 6x3x3x4",
            bias,
            **x,
            **y,
            W_scales=scales,
            strides=[2, 1],
            auto_pad="SAME_UPPER",
            activation=activation,
        )
        yield from tflite(
            "QuantizedConv",
            "int8 1x9x8x6",
            "!int8 6x3x3x1",
            bias,
            **x,
            **y,
            W_scales=scales,
            strides=[2, 2],
            auto_pad="SAME_UPPER",
            group=6,
            activation=activation,
        )
    yield from tflite(
        "QuantizedConv", "uint8 1x6x6x4", "!uint8 6x1x1x4", bias, **bytes_, W_scales=[0.01], W_zero_point=50
    )
    yield from tflite("QuantizedFullyConnected", "int8 3x8", "!int8 6x8", bias, **x, **y, W_scales=[0.01])
    yield from tflite(
        "QuantizedConvTranspose",
        "int8 1x4x5x4",
        "!int8 6x3x3x4",
        np.array([8, 10], np.int32),
        bias,
        **x,
        **y,
        W_scales=scales,
        strides=[2, 2],
        auto_pad="SAME_UPPER",
    )
    yield from tflite("QuantizedMatMul", "int8 2x3x8", "int8 2x8x5", **pair, Y_scale=0.2)
    yield from tflite(
        "QuantizedAdd QuantizedSub QuantizedMul QuantizedPRelu QuantizedSquaredDifference",
        "int8 2x5x3",
        "int8 1x5x1",
        **pair,
        **y,
    )
    yield from tflite(
        "QuantizedEqual QuantizedNotEqual QuantizedLess QuantizedLessEqual QuantizedGreater QuantizedGreaterEqual",
        "int8 2x5x3",
        "int8 1x5x1",
        **pair,
    )
    yield from tflite(
        "QuantizedRelu QuantizedHardSwish QuantizedAbs QuantizedNeg QuantizedSqrt QuantizedGelu "
        "QuantizedLogistic QuantizedTanh QuantizedElu QuantizedExp QuantizedLog QuantizedRsqrt "
        "RescaleOperand",
        "int8 4x50",
        **x,
        **y,
    )
    yield from tflite("QuantizedLeakyRelu", "int8 4x50", **x, **y, alpha=0.3)
    yield from tflite("Quantize", SPECIAL, **y, to=dtypes.INT8)
    yield from tflite("Quantize", FAR, **bytes_, to=UINT8)
    yield from tflite("Dequantize", "int8 4x5", **x)
    yield from tflite("Requantize", "int8 4x5", X_scale=0.05, X_zero_point=4, Y_scale=0.03, Y_zero_point=128, to=UINT8)
    yield from tflite(
        "QuantizedAveragePool", "int8 1x7x6x4", **y, kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER"
    )
    yield from tflite("QuantizedMaxPool", "int8 1x7x6x4", kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER")
    yield from tflite("QuantizedMean QuantizedSum", "int8 2x5x4x3", **x, Y_scale=0.3, axes=[1, 2])
    yield from tflite("QuantizedSoftmax", "int8 3x20", **x)
    yield from tflite("QuantizedResizeBilinear", "int8 1x4x5x3", np.array([7, 9], np.int32), half_pixel_centers=1)
    yield from tflite("QuantizedResizeBilinear", "uint8 1x4x5x3", np.array([7, 9], np.int32), align_corners=1)
    yield from tflite("FloorDiv RightShift", "int32 3x4", np.array([1, 2, 3, 4], np.int32))
    yield from tflite("Atan2", "3x4", "pos 4")
    yield from tflite_int16()
    yield from tflite("SpaceToBatchND", "2x5x7x2", np.array([2, 3]), np.array([[1, 0], [1, 1]]), value=3.0)
    yield from tflite("BatchToSpaceND", "12x3x3x2", np.array([2, 3]), np.array([[1, 0], [1, 1]]))
    yield from tflite("Logistic", SPECIAL)
    yield from tflite("Logistic", FAR)
    for w_scales in ([0.01], scales):
        yield from tflite("HybridConv", "1x4x6x6", "!int8 6x4x3x3", "!6", kernel=3, pad=1, W_scales=w_scales)
        yield from tflite(
            "HybridDepthwiseConv", "1x6x6x6", "!int8 6x1x3x3", "!6", kernel=3, pad=1, group=6, W_scales=w_scales
        )
        yield from tflite("HybridFullyConnected", "3x8", "!int8 6x8", "!6", W_scales=w_scales)


STUMPS: Dict[str, Any] = {  # two trees of three nodes each
    "nodes_treeids": [0, 0, 0, 1, 1, 1],
    "nodes_nodeids": [0, 1, 2, 0, 1, 2],
    "nodes_featureids": [0, 0, 0, 2, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF", "BRANCH_LT", "LEAF", "LEAF"],
    "nodes_values": [0.0, 0.0, 0.0, 0.5, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 0, 1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0, 2, 0, 0],
}
LEAVES: Dict[str, Any] = {"treeids": [0, 0, 1, 1], "nodeids": [1, 2, 1, 2], "ids": [0] * 4, "weights": [0.5, 1, 2, 4]}


def tabular() -> Iterator[Case]:
    for prefix, type, outputs in (("target", "TreeEnsembleRegressor", 1), ("class", "TreeEnsembleClassifier", 2)):
        leaves = {f"{prefix}_{name}": [float(x) for x in v] if name == "weights" else v for name, v in LEAVES.items()}
        labels = {"classlabels_int64s": [3, 7]} if outputs == 2 else {}
        yield from case(type, "9x3", domain="ai.onnx.ml", outputs=outputs, **STUMPS, **leaves, **labels)
    yield from case(
        "TreeEnsemble",
        "9x3",
        domain="ai.onnx.ml",
        tree_roots=[0],
        nodes_featureids=[1],
        nodes_splits=np.array([0.25], np.float32),
        nodes_modes=np.array([0], np.uint8),
        nodes_truenodeids=[0],
        nodes_falsenodeids=[1],
        nodes_trueleafs=[1],
        nodes_falseleafs=[1],
        leaf_targetids=[0, 0],
        leaf_weights=np.array([1.5, -2.5], np.float32),
    )


def language() -> Iterator[Case]:
    yield from onnx("Attention", "1x4x3x8", "1x2x3x8", "1x2x3x8", "3x8", "1x2x5x8", "1x2x5x8", is_causal=1, outputs=3)
    yield from onnx("Attention", "1x300x24", "1x300x24", "1x300x24", q_num_heads=3, kv_num_heads=3, softcap=3.0)
    yield from onnx("RotaryEmbedding", "2x3x4x8", "9x4", "9x4", np.array([[0, 2, 8, 1], [3, 3, 4, 5]]))
    yield from microsoft("RotaryEmbedding", "2x3x4x8", np.array([4]), "9x4", "9x4", interleaved=1)
    lengths = np.array([3, 2], np.int32)
    yield from microsoft("MultiHeadAttention", "2x3x8", "2x4x8", "2x4x8", "24", lengths, num_heads=2)
    ends, total = np.array([8, 5], np.int32), np.array([9], np.int32)
    grouped = ["2x1x32", "2x1x16", "2x1x16", "2x2x9x8", "2x2x9x8", ends, total, "12x4", "12x4"]
    yield from microsoft(
        "GroupQueryAttention", *grouped, num_heads=4, kv_num_heads=2, do_rotary=1, local_window_size=6, outputs=3
    )


def blocks() -> Iterator[Case]:
    for bits, points in ((4, "-"), (4, "!uint8 6x1"), (8, "!uint8 6x2")):
        operands = ["5x64", f"!uint8 6x2x{4 * bits}", "!6x2", points]
        yield from microsoft("MatMulNBits", *operands, K=64, N=6, bits=bits, block_size=32)


def own(types: str, *operands: Any, outputs: int = 1, **arguments: Any) -> Iterator[Case]:
    """``case`` in armnet's domain."""
    return case(types, *operands, domain="armnet", outputs=outputs, **arguments)


def slopes() -> Iterator[Case]:
    """Gradients of elementwise operators."""
    of_y = "Abs Atan Clip Cos Elu Erf HardSigmoid LeakyRelu Relu ReluN Reciprocal Selu Sigmoid Sin Softplus Softsign"
    yield from case(_gradients(f"{of_y} Tan Tanh ThresholdedRelu Cosh Cube Sinh Gelu"), "2x3x37", "2x3x37")
    yield from case(_gradients("Asin Acos"), "unit 3x7", "3x7")
    yield from case(_gradients("Cbrt Rsqrt"), "3x7", "pos 3x7")
    yield from case("LogitGradient", "pos 3x7", "3x7")
    yield from case(_gradients("Mish Swish"), "3x7", "3x7", "3x7")
    yield from own(_gradients("Asinh Celu HardSwish Swish ThresholdedRelu"), "3x7", "3x7")
    yield from own("AtanhGradient", "unit 3x7", "3x7")
    yield from own("AcoshGradient", np.linspace(1.2, 3, 12).astype(np.float32), "12")
    yield from case(_gradients("Add Sub Mul"), "2x3x4", "2x3x4", "3x1", outputs=2)
    yield from case("DivGradient", "2x3x4", "2x3x4", "pos 3x1", "2x3x4", outputs=2)
    yield from case("MeanGradient", "2x3", outputs=2)
    yield from case(_gradients("Max Min"), "2x3", "2x3", "2x3", "2x3", outputs=2)
    yield from case("PReluGradient", "2x3x4x4", "2x3x4x4", "2x3x4x4", "3", outputs=2)


def _gradients(types: str) -> str:
    return " ".join(f"{type}Gradient" for type in types.split())


def layer_gradients() -> Iterator[Case]:
    """Gradients of products, convolutions and pools."""
    yield from case("FCGradient", "5x7", "6x7", "5x6", outputs=3)
    yield from case("FCTransposedGradient", "5x7", "7x6", "5x6", outputs=3)
    yield from own("MatMulGradient", "2x3x5", "2x3x4", "4x5", outputs=2)
    yield from own("GemmGradient", "3x5", "3x4", "4x5", "5", outputs=3, beta=0.5)
    images = ["2x4x9x8", "6x2x3x3", "2x6x9x8"]
    yield from case(_gradients("Conv Conv2D"), *images, kernel=3, pad=1, group=2, outputs=3)
    yield from own("ConvGradient", *images, pads=[1, 1, 1, 1], group=2, outputs=3)
    yield from case("ConvGradient", "1x4x12x11", "4x1x3x3", "1x4x6x6", kernel=3, stride=2, pad=1, group=4, outputs=3)
    yield from case("Conv1DGradient", "2x3x9", "4x3x3", "2x4x7", kernels=[3], outputs=3)
    yield from case("Conv3DGradient", "1x2x4x4x4", "3x2x2x2x2", "1x3x3x3x3", kernels=[2, 2, 2], outputs=3)
    back = ["2x4x5x4", "4x3x2x2", "2x3x10x8"]
    yield from case("ConvTransposeGradient", *back, kernel=2, stride=2, outputs=3)
    yield from own("ConvTransposeGradient", *back, strides=[2, 2], outputs=3)
    pooled = ["1x2x6x6", "1x2x3x3", "1x2x3x3"]
    yield from case(_gradients("MaxPool MaxPool2D AveragePool AveragePool2D"), *pooled, kernel=2, stride=2)
    yield from own(_gradients("MaxPool AveragePool"), *pooled, kernel_shape=[2, 2], strides=[2, 2])
    line, cube = ["1x2x8", "1x2x4", "1x2x4"], ["1x2x4x4x4", "1x2x2x2x2", "1x2x2x2x2"]
    yield from case(_gradients("MaxPool1D AveragePool1D"), *line, kernels=[2], strides=[2])
    yield from case(_gradients("MaxPool3D AveragePool3D"), *cube, kernels=[2, 2, 2], strides=[2, 2, 2])


def norm_gradients() -> Iterator[Case]:
    """Gradients of normalisations, reductions and losses."""
    x, channels = "2x3x4x4", ["3", "3"]
    yield from case("SpatialBNGradient", x, "3", x, "3", "pos 3", outputs=3, is_test=0)
    yield from case("SpatialBNGradient", x, "3", x, "3", "pos 3", outputs=3, is_test=1)
    yield from case("InstanceNormGradient", x, *channels, x, "2x3", "pos 2x3", outputs=3)
    yield from case("GroupNormGradient", "2x4x3x3", "2x4x3x3", "4", "4", "2x2", "pos 2x2", outputs=3, group=2)
    yield from case("LayerNormGradient", "3x8", "3x8", "3x1", "pos 3x1", "3x8", "8", outputs=3)
    yield from own("LayerNormalizationGradient", "3x8", "3x8", "8", outputs=3)
    yield from own("GroupNormalizationGradient", "2x4x5", "2x4x5", "4", outputs=3, num_groups=2)
    yield from case("LRNGradient", x, x, x, size=3, alpha=0.5, beta=0.75)
    yield from case("SoftmaxGradient", "3x5", "3x5")
    yield from own(_gradients("Softmax LogSoftmax"), "3x5x2", "3x5x2", axis=1)
    yield from case(
        _gradients("ReduceSum ReduceMean ReduceMax ReduceMin ReduceL1 ReduceL2"), "3x1", "3x4", "3x1", axes=[1]
    )
    yield from case(_gradients("ReduceFrontSum ReduceFrontMean"), "4", "3x4")
    yield from case(_gradients("ReduceBackSum ReduceBackMean"), "3", "3x4")
    yield from case("ReduceFrontMaxGradient", "4", "3x4", "4")
    yield from case("ReduceBackMaxGradient", "3", "3x4", "3")
    yield from case("RowwiseMaxGradient", "2x3x4", "2x3", "2x3")
    yield from case("ColwiseMaxGradient", "2x3x4", "2x4", "2x4")
    yield from case(_gradients("AveragedLoss SumElements"), "3x4", "1")
    yield from case(_gradients("SquaredL2Distance L1Distance DotProduct"), "3x4", "3x4", "3", outputs=2)
    labels = np.array([0, 3, 1, 4], np.int32)
    yield from case("SoftmaxWithLossGradient", "4x5", labels, "pos 4x5", "1")


def layout_gradients() -> Iterator[Case]:
    """Gradients of what moves elements about, and of resizing."""
    yield from case("ChannelShuffleGradient", "1x4x3x3", group=2)
    yield from case("DropoutGrad", "2x3", np.array([[True, False, True], [False, True, True]]), ratio=0.25)
    yield from case("ExpandGradient", "2x3x4", "3x1")
    yield from own("SumLike", "2x3x4", "3x1")
    yield from case("PadImageGradient", "1x2x6x6", pad=1, mode="reflect")
    yield from case("SliceGradient", "4x5", "2x5", starts=[1, 0], ends=[3, -1])
    yield from own("SliceGradient", "4x5", np.array([1]), np.array([3]), np.array([0]), "2x5")
    yield from case("TileGradient", "6x4", tiles=2, axis=0)
    yield from own("TileGradient", "6x4", np.array([2, 1]))
    scales: Dict[str, Any] = {"height_scale": 2.0, "width_scale": 2.0}
    yield from case(_gradients("ResizeNearest UpsampleBilinear"), "1x2x6x6", "1x2x3x3", **scales)
    yield from case("ResizeNearest3DGradient", "1x1x4x4x4", "1x1x2x2x2", temporal_scale=2.0, **scales)
    yield from own("ResizeGradient", "1x2x6x6", "1x2x3x3", "-", np.array([1, 1, 2, 2], np.float32), mode="linear")


def training() -> Iterator[Case]:
    """Solvers, and layers that keep bits for the way back."""
    yield from case("Adadelta", "7", "pos 7", "pos 7", "7", "pos 1", outputs=3)
    yield from case("Adagrad", "7", "pos 7", "7", "pos 1", outputs=2)
    yield from case("Adam", "7", "7", "pos 7", "7", "pos 1", np.array([3]), outputs=3)
    yield from case("MomentumSGD", "7", "7", "pos 1", outputs=2, momentum=0.9)
    yield from case("MomentumSGDUpdate", "7", "7", "pos 1", "7", outputs=3, momentum=0.9, nesterov=1)
    yield from case("RmsProp", "7", "pos 7", "7", "pos 1", outputs=3)
    yield from case("RMSProp", "7", "pos 7", "7", "pos 1", domain="caffe", outputs=2)
    x, words = "2x3x4x4", np.array([12345, 54321, 99999], np.int32)
    yield from case("SpatialBNRelu", x, "3", "3", "3", "pos 3", outputs=6, is_test=0)
    yield from case("SpatialBNAddRelu", x, "3", "3", "3", "pos 3", x, outputs=6, is_test=0)
    yield from case("SpatialBNReluGradient", x, "3", x, "3", "pos 3", words, outputs=3, is_test=0)
    yield from case("SpatialBNAddReluGradient", x, "3", x, "3", "pos 3", words, outputs=4, is_test=0)
    yield from own("SpatialBNOutputGradient", x, "pos 3", x, "3", "pos 3", outputs=3)
    yield from own("ReluWithMask", x, outputs=2)
    yield from own("ReluMaskGradient", words, x)
    yield from own("MaxPoolWithOffsets", "1x2x6x6", outputs=2, kernel=2, stride=2)
    offsets = np.arange(18).reshape(1, 2, 3, 3).astype(np.uint8) % 4
    shape = np.array([1, 2, 6, 6])
    yield from own("MaxPoolOffsetsGradient", offsets, "1x2x3x3", shape, kernel=2, stride=2)


def golden_cases() -> List[Case]:
    """All cases, in the order of this file."""
    tables = (tabular, language, blocks)
    gradients = (slopes, layer_gradients, norm_gradients, layout_gradients, training)
    families = (
        elementwise,
        convolution,
        normalisation,
        layout,
        detection,
        quantised,
        tflite_integers,
        *tables,
        *gradients,
    )
    return [found for family in families for found in family()]
