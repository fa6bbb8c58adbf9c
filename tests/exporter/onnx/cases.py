"""What each ONNX operator is translated to: layers, functions of numbers, products."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Sequence

import numpy as np

from runtime_arm.netdef import Array


class Case(NamedTuple):
    """A node with inputs and options (see ``one_node``), and its translation: operators separated by "; "."""

    type: str
    inputs: Sequence[Any]
    expected: str
    options: Dict[str, Any]


def case(type: str, inputs: Sequence[Any], expected: str, **options: Any) -> Case:
    return Case(type, inputs, expected, options)


def floats(*shape: int) -> Array:
    return np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape) / 10


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


X = floats(1, 4, 6, 6)
DOUBLE = np.array([1, 1, 2, 2], np.float32)

CASES = [
    case("Sign", [np.array([-np.inf, -2, 0, np.nan, 3], np.float32)], "onnx.Sign(a) -> y"),
    case("Softplus", [np.array([-100, 0, 100], np.float32)], "onnx.Softplus(a) -> y"),
    case(
        "Conv",
        [X, floats(8, 4, 3, 3), floats(8)],
        "Conv(a, b, c) -> y  kernels=[3, 3]  strides=[2, 1]  pads=[1, 0, 1, 2]",
        constants=(1, 2),
        pads=[1, 0, 1, 2],
        strides=[2, 1],
    ),
    case(
        "Conv",
        [X, floats(8, 2, 3, 3)],
        "Conv(a, b) -> y  kernels=[3, 3]  strides=[2, 2]  pads=[0, 0, 1, 1]  group=2",
        constants=(1,),
        auto_pad="SAME_UPPER",
        strides=[2, 2],
        group=2,
    ),
    case(
        "Conv",
        [X, floats(8, 4, 4, 4)],
        "Conv(a, b) -> y  kernels=[4, 4]  strides=[1, 1]  pads=[2, 2, 1, 1]",
        constants=(1,),
        auto_pad="SAME_LOWER",
    ),
    case(
        "Conv",
        [X, floats(8, 4, 3, 3)],
        "Conv(a, b) -> y  kernels=[3, 3]  strides=[1, 1]  dilations=[2, 1]  pads=[0, 0, 0, 0]",
        constants=(1,),
        auto_pad="VALID",
        dilations=[2, 1],
    ),
    case(
        "Conv",
        [X, floats(8, 4, 3, 3)],
        "Conv(a, b) -> y  kernels=[3, 3]  strides=[1, 1]  legacy_pad=2",
        constants=(1,),
        auto_pad="SAME_UPPER",
        shapes=[["n", 4, "h", "w"], None],
    ),
    case(
        "Conv",
        [X, floats(8, 4, 3, 3)],
        'onnx.Conv(a, b) -> y  auto_pad="SAME_LOWER"',
        constants=(1,),
        auto_pad="SAME_LOWER",
        shapes=[["n", 4, "h", "w"], None],
    ),
    case(
        "Conv",
        [floats(1, 4, 9), floats(2, 4, 3)],
        "Conv(a, b) -> y  kernels=[3]  strides=[1]  pads=[0, 0]",
        constants=(1,),
    ),
    case(
        "ConvTranspose",
        [X, floats(4, 2, 3, 3)],
        "ConvTranspose(a, b) -> y  kernels=[3, 3]  strides=[2, 2]  pads=[0, 0, 0, 0]  adjs=[1, 1]",
        constants=(1,),
        strides=[2, 2],
        output_padding=[1, 1],
    ),
    case(
        "ConvTranspose",
        [X, floats(4, 2, 3, 3)],
        "onnx.ConvTranspose(a, b) -> y  dilations=[2, 2]",
        constants=(1,),
        dilations=[2, 2],
    ),
    case(
        "MaxPool",
        [X],
        "MaxPool(a) -> y  kernels=[2, 2]  strides=[2, 2]  pads=[0, 0, 0, 0]",
        kernel_shape=[2, 2],
        strides=[2, 2],
    ),
    case(
        "MaxPool",
        [X],
        "MaxPool(a) -> y  kernels=[3, 3]  strides=[2, 2]  pads=[0, 0, 0, 0]  legacy_pad=3",
        kernel_shape=[3, 3],
        strides=[2, 2],
        ceil_mode=1,
    ),
    case(
        "AveragePool",
        [X],
        "AveragePool(a) -> y  kernels=[3, 3]  strides=[2, 2]  pads=[1, 1, 1, 1]  legacy_pad=3",
        kernel_shape=[3, 3],
        strides=[2, 2],
        pads=[1, 1, 1, 1],
        ceil_mode=1,
    ),
    case(
        "MaxPool",
        [X],
        "onnx.MaxPool(a) -> y  ceil_mode=1  kernel_shape=[3, 3]  pads=[0, 0, 1, 1]  strides=[2, 2]",
        kernel_shape=[3, 3],
        strides=[2, 2],
        pads=[0, 0, 1, 1],
        ceil_mode=1,
    ),
    case("MaxPool", [X], "onnx.MaxPool(a) -> y, z  kernel_shape=[2, 2]", kernel_shape=[2, 2], outputs=2),
    case(
        "AveragePool",
        [X],
        "AveragePool(a) -> y  kernels=[2, 2]  strides=[1, 1]  pads=[1, 1, 1, 1]",
        kernel_shape=[2, 2],
        pads=[1, 1, 1, 1],
    ),
    case(
        "AveragePool",
        [X],
        "onnx.AveragePool(a) -> y  count_include_pad=1  kernel_shape=[2, 2]  pads=[1, 1, 1, 1]",
        kernel_shape=[2, 2],
        pads=[1, 1, 1, 1],
        count_include_pad=1,
    ),
    case("GlobalAveragePool", [X], "AveragePool(a) -> y  global_pooling=1"),
    case("GlobalMaxPool", [X], "MaxPool(a) -> y  global_pooling=1"),
    case(
        "BatchNormalization",
        [X] + [floats(4)] * 4,
        "SpatialBN(a, b, c, d, e) -> y  is_test=1  epsilon=0.001",
        constants=(1, 2, 3, 4),
        epsilon=1e-3,
    ),
    case(
        "BatchNormalization",
        [X] + [floats(4)] * 4,
        "SpatialBN(a, b, c, d, e) -> y  is_test=1  epsilon=1e-05",
        constants=(1, 2, 3, 4),
        opset=8,
    ),
    case(
        "InstanceNormalization",
        [X, floats(4), floats(4)],
        "InstanceNorm(a, b, c) -> y  epsilon=1e-05",
        constants=(1, 2),
    ),
    case("LRN", [X], "LRN(a) -> y  size=3  alpha=1e-04  beta=0.75  bias=1.0", size=3),
    case("Relu", [X.astype(np.float64)], "onnx.Relu(a) -> y"),
    case("LeakyRelu", [X], "LeakyRelu(a) -> y  alpha=0.01"),
    case("Selu", [X], "Selu(a) -> y  alpha=1.6732632  scale=1.050701"),
    case("PRelu", [X, floats(4, 1, 1)], "PRelu(a, y_slope) -> y", constants=(1,)),
    case("PRelu", [X, floats(6)], "onnx.PRelu(a, b) -> y", constants=(1,)),
    case("Clip", [X, np.float32(0), np.float32(6)], "Clip(a) -> y  min=0.0  max=6.0", constants=(1, 2)),
    case("Clip", [X, None, np.float32(6)], "Clip(a) -> y  max=6.0", constants=(2,)),
    case("Clip", [X, np.float32(0), np.float32(6)], "onnx.Clip(a, b, c) -> y"),
    case("Clip", [ints(1, 2), ints(0)[0], ints(1)[0]], "onnx.Clip(a, b, c) -> y", constants=(1, 2)),
    case("Clip", [X], "Clip(a) -> y  min=0.0  max=6.0", opset=6, min=0.0, max=6.0),
    case("Add", [X, floats(6)], "Add(a, b) -> y", constants=(1,)),
    case("Add", [X, floats(4)], "Add(a, b) -> y  broadcast=1  axis=1", constants=(1,), opset=6, broadcast=1, axis=1),
    case("Div", [ints(1, 2), ints(1, 2)], "Div(a, b) -> y"),
    case("Neg", [X], "Negative(a) -> y"),
    case("Greater", [X, X], "GT(a, b) -> y"),
    case("Sum", [X, X, X], "Sum(a, b, c) -> y"),
    case("Max", [X, floats(6)], "onnx.Max(a, b) -> y"),
    case("Sum", [X], "Copy(a) -> y"),
    case("Pow", [X, np.float32(2)], "Pow(a) -> y  exponent=2.0", constants=(1,)),
    case("Pow", [X, ints(2)[0]], "Pow(a) -> y  exponent=2.0", constants=(1,)),
    case("Pow", [X, X], "onnx.Pow(a, b) -> y"),
    case("MatMul", [floats(2, 3), floats(3, 4)], "MatMul(a, b) -> y", constants=(1,)),
    case("MatMul", [floats(2, 2, 3), floats(3, 4)], "BatchMatMul(a, b) -> y  broadcast=1", constants=(1,)),
    case("MatMul", [floats(2, 3), floats(3)], "onnx.MatMul(a, b) -> y", constants=(1,)),
    case("Gemm", [floats(2, 3), floats(4, 3), floats(4)], "FC(a, b, c) -> y", constants=(1, 2), transB=1),
    case("Gemm", [floats(2, 3), floats(3, 4), floats(4)], "FCTransposed(a, b, c) -> y", constants=(1, 2)),
    case(
        "Gemm",
        [floats(2, 3), floats(3, 4), floats(4)],
        "onnx.Gemm(a, b, c) -> y  alpha=0.5",
        constants=(1, 2),
        alpha=0.5,
    ),
    case("Softmax", [X], "Softmax(a) -> y  axis=3"),
    case("Softmax", [X], "onnx.Softmax(a) -> y  axis=1", axis=1),
    case("Softmax", [X], "Softmax(a) -> y  axis=1", opset=11),
    case("Softmax", [X], "Softmax(a) -> y  axis=3", opset=11, axis=-1),
    case(
        "LogSoftmax",
        [X],
        "Flatten(a) -> y_rows  axis=1; onnx.LogSoftmax(y_rows) -> y_of_rows  axis=-1; ResizeLike(y_of_rows, a) -> y",
        opset=11,
        axis=1,
    ),
    case("LogSoftmax", [X], "onnx.LogSoftmax(a) -> y  axis=-1", opset=11, axis=3),
    case("LogSoftmax", [X], "onnx.LogSoftmax(a) -> y  axis=1", axis=1),
    case(
        "Softmax",
        [X.astype(np.float64)],
        "Flatten(a) -> y_rows  axis=1; onnx.Softmax(y_rows) -> y_of_rows  axis=-1; ResizeLike(y_of_rows, a) -> y",
        opset=11,
    ),
    case(
        "BatchNormalization",
        [X] + [floats(4)] * 4,
        "SpatialBN(a, b, c, d, e) -> y  is_test=1  epsilon=1e-05",
        opset=6,
        is_test=1,
        constants=(1, 2, 3, 4),
    ),
    case(
        "BatchNormalization",
        [X] + [floats(4)] * 4,
        "onnx.BatchNormalization(a, b, c, d, e) -> y, z, u  training_mode=1",
        opset=15,
        training_mode=1,
        outputs=3,
    ),
    case("PRelu", [X, floats(4)], "PRelu(a, b) -> y", opset=6, constants=(1,)),
    case("HardSigmoid", [X], "HardSigmoid(a) -> y  alpha=0.2  beta=0.5"),
    case("Elu", [X], "Elu(a) -> y  alpha=1.0"),
    case("Sum", [X, floats(6)], "Add(a, b) -> y"),
    case(
        "LSTM",
        [floats(3, 1, 2), floats(1, 12, 2), floats(1, 12, 3)],
        "onnx.LSTM(a, b, c) -> y  hidden_size=3",
        constants=(1, 2),
        opset=7,
        hidden_size=3,
    ),
    # Inputs whose shapes are unknown before the net runs.
    case("Conv", [X, floats(8, 4, 3, 3)], "onnx.Conv(a, b) -> y  strides=[2, 1]", shapes=[None, None], strides=[2, 1]),
    case("ConvTranspose", [X, floats(4, 2, 3, 3)], "onnx.ConvTranspose(a, b) -> y", shapes=[None, None]),
    case("Gemm", [floats(2, 3), floats(3, 4), floats(1)], "onnx.Gemm(a, b, c) -> y", shapes=[None, None, ["n"]]),
    case(
        "MatMul",
        [ints(1, 2).reshape(1, 2), ints(3, 4).reshape(2, 1)],
        "onnx.MatMul(a, b) -> y",
        shapes=[["n", 2], [2, "k"]],
    ),
    case(
        "MaxPool", [X.astype(np.uint8)], "onnx.MaxPool(a) -> y  kernel_shape=[2, 2]", shapes=[None], kernel_shape=[2, 2]
    ),
]
