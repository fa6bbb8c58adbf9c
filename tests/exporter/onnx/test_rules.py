"""The translation of each ONNX operator, which computes what onnxruntime computes."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Sequence

import numpy as np
import pytest

from exporter import export
from exporter.onnx.export import from_onnx
from runtime_arm import Predictor
from runtime_arm.errors import ArmnetError
from runtime_arm.netdef import Array
from tests.exporter.onnx.models import named, one_node, operators


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
    case("Cast", [X], "Cast(a) -> y  to=10", to=7),
    case("Cast", [X], "onnx.Cast(a) -> y  to=12", to=10),
    case("Dropout", [X], "Copy(a) -> y"),
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
    case("Concat", [X, X], "Concat(a, b) -> y, y_split_info  axis=3", axis=-1),
    case("Reshape", [X, ints(0, -1)], "Reshape(a) -> y, y_old_shape  shape=[0, -1]", constants=(1,)),
    case("Reshape", [X, ints(0, -1)], "Reshape(a, b) -> y, y_old_shape"),
    case("Reshape", [floats(0, 3), ints(3, 0)], "onnx.Reshape(a, b) -> y  allowzero=1", constants=(1,), allowzero=1),
    case("Flatten", [X], "Flatten(a) -> y  axis=2", axis=2),
    case("Flatten", [X], "Flatten(a) -> y  axis=3", axis=-1),
    case("Transpose", [X], "Transpose(a) -> y  axes=[0, 2, 3, 1]", perm=[0, 2, 3, 1]),
    case("Squeeze", [X], "Squeeze(a) -> y  dims=[0]", opset=11, axes=[0]),
    case("Squeeze", [X], "Squeeze(a) -> y  dims=[0]"),
    case("Squeeze", [floats(2, 1), ints(-1)], "Squeeze(a) -> y  dims=[1]", constants=(1,)),
    case("Unsqueeze", [X, ints(-1, 0)], "ExpandDims(a) -> y  dims=[0, 5]", constants=(1,)),
    case("Unsqueeze", [X, ints(-1, 0)], "onnx.Unsqueeze(a, b) -> y"),
    case("Shape", [X], "Shape(a) -> y", shapes=[["n", 4, 6, 6]]),
    case("Shape", [X], ""),
    case("Shape", [X], "onnx.Shape(a) -> y  start=1", start=1, shapes=[["n", 4, 6, 6]]),
    case("Split", [X, ints(1, 3)], "Split(a) -> y, z  axis=1  split=[1, 3]", constants=(1,), axis=1, outputs=2),
    case("Split", [X], "Split(a) -> y, z  axis=1  split=[2, 2]", opset=11, axis=1, outputs=2),
    case("Split", [floats(7)], "Split(a) -> y, z  axis=0  split=[4, 3]", num_outputs=2, outputs=2),
    case(
        "Slice",
        [X, ints(1), ints(3), ints(1)],
        "Slice(a) -> y  starts=[0, 1, 0, 0]  ends=[-1, 3, -1, -1]",
        constants=(1, 2, 3),
    ),
    case(
        "Slice",
        [X],
        "Slice(a) -> y  starts=[0, 0, 1, 0]  ends=[-1, -1, -1, -1]",
        opset=9,
        starts=[1],
        ends=[2**31 - 1],
        axes=[2],
    ),
    case(
        "Slice",
        [X, ints(-2), ints(2**63 - 1), ints(-1)],
        "Slice(a) -> y  starts=[0, 0, 0, 4]  ends=[-1, -1, -1, -1]",
        constants=(1, 2, 3),
    ),
    case("Slice", [X, ints(1, 1), ints(3, 3), ints(1, 2)], "onnx.Slice(a, b, c, d) -> y", constants=(1, 2, 3)),
    case("Slice", [X, ints(0), ints(6), ints(2), ints(2)], "onnx.Slice(a, b, c, d, e) -> y", constants=(1, 2, 3, 4)),
    case(
        "Slice",
        [X, ints(1), ints(2**63 - 1), ints(1)],
        "Slice(a) -> y  starts=[0, 1, 0, 0]  ends=[-1, -1, -1, -1]",
        constants=(1, 2, 3),
        shapes=[["n", "c", 6, 6], None, None, None],
    ),
    case("Slice", [X, ints(0), ints(9), ints(1)], "Copy(a) -> y", constants=(1, 2, 3)),
    case("Gather", [X, ints(0, 1)], "Gather(a, b) -> y  axis=1  wrap_indices=1", constants=(1,), axis=1),
    case("Gather", [X, ints(0)], "Gather(a, b) -> y", constants=(1,)),
    case("ReduceMean", [X], "ReduceMean(a) -> y  axes=[2, 3]  keepdims=0", opset=13, axes=[2, -1], keepdims=0),
    case("ReduceSum", [X, ints(1)], "ReduceSum(a) -> y  axes=[1]  keepdims=1", constants=(1,)),
    case("ReduceMax", [X], "ReduceMax(a) -> y  keepdims=1"),
    case("ReduceMin", [X], "ReduceMin(a) -> y  axes=[1]  keepdims=1", opset=13, axes=[1], shapes=[["n", 4, "h", "w"]]),
    case("ReduceMin", [X], "onnx.ReduceMin(a, y_axes) -> y", opset=13, axes=[2], shapes=[["n", 4, "h", "w"]]),
    case("ReduceMax", [floats(2, 0, 3)], "onnx.ReduceMax(a) -> y"),
    case("ReduceSum", [ints(1, 2)], "ReduceSum(a) -> y  keepdims=1"),
    case("ReduceProd", [X], "onnx.ReduceProd(a) -> y"),
    case("ArgMax", [X], "ArgMax(a) -> y  axis=1  keepdims=1", axis=1),
    case("ArgMax", [X], "onnx.ArgMax(a) -> y  axis=1  select_last_index=1", axis=1, select_last_index=1),
    case(
        "Resize",
        [X, None, DOUBLE],
        "ResizeNearest(a) -> y  height_scale=2.0  width_scale=2.0",
        constants=(2,),
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    ),
    case(
        "Resize",
        [X, None, None, ints(1, 4, 12, 18)],
        "ResizeNearest(a) -> y  height_scale=2.0  width_scale=3.0",
        constants=(3,),
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    ),
    case("Resize", [X, None, DOUBLE], 'onnx.Resize(a, "", c) -> y  mode="linear"', constants=(2,), mode="linear"),
    case("Resize", [X, DOUBLE], "ResizeNearest(a) -> y  height_scale=2.0  width_scale=2.0", constants=(1,), opset=10),
    case("Upsample", [X, DOUBLE], "ResizeNearest(a) -> y  height_scale=2.0  width_scale=2.0", constants=(1,), opset=9),
    case(
        "Upsample",
        [X],
        "ResizeNearest(a) -> y  height_scale=2.0  width_scale=3.0",
        opset=7,
        scales=[1.0, 1.0, 2.0, 3.0],
    ),
    case(
        "Pad",
        [X, ints(0, 0, 1, 1, 0, 0, 2, 2)],
        'PadImage(a) -> y  pad_t=1  pad_l=1  pad_b=2  pad_r=2  mode="constant"  value=0.0',
        constants=(1,),
    ),
    case(
        "Pad",
        [X],
        'PadImage(a) -> y  pad_t=1  pad_l=1  pad_b=2  pad_r=2  mode="reflect"',
        opset=2,
        pads=[0, 0, 1, 1, 0, 0, 2, 2],
        mode="reflect",
    ),
    case("Pad", [X, ints(0, 1, 1, 1, 0, 0, 2, 2)], "onnx.Pad(a, b) -> y", constants=(1,)),
    case("TopK", [X, ints(2)], "TopK(a) -> y, z  k=2  axis=3", constants=(1,), outputs=2),
    case("Where", [X > 0.5, X, X], "Where(a, b, c) -> y"),
    case("Tile", [X, ints(1, 2, 1, 1)], "Tile(a) -> y  tiles=2  axis=1", constants=(1,)),
    case("Expand", [floats(6), ints(2, 6)], "Expand(a, b) -> y", constants=(1,)),
    case("TopK", [X], "TopK(a) -> y, z  k=2  axis=3", opset=9, k=2, outputs=2),
    case("TopK", [X, ints(2)], "onnx.TopK(a, b) -> y, z", constants=(1,), outputs=2, shapes=[[1, 4, 6, "w"], None]),
    case("TopK", [X, ints(2)], "onnx.TopK(a, b) -> y, z  largest=0", constants=(1,), largest=0, outputs=2),
    case("Cast", [X], "Cast(a) -> y  to=10", opset=5, to="INT64"),
    case("Reshape", [X], "Reshape(a) -> y, y_old_shape  shape=[4, -1]", opset=4, shape=[4, -1]),
    case("Concat", [X, X], "Concat(a, b) -> y, y_split_info  axis=1", opset=3),
    case(
        "Pad",
        [X],
        'PadImage(a) -> y  pad_t=1  pad_l=1  pad_b=2  pad_r=2  mode="constant"  value=0.0',
        opset=1,
        paddings=[0, 0, 1, 1, 0, 0, 2, 2],
    ),
    case(
        "Upsample",
        [X],
        "ResizeNearest(a) -> y  height_scale=2.0  width_scale=3.0",
        opset=6,
        height_scale=2.0,
        width_scale=3.0,
    ),
    case(
        "Resize",
        [X, floats(0), floats(0), ints(1, 4, 12, 9)],
        'onnx.Resize(a, "", "", d) -> y  mode="linear"',
        constants=(1, 2, 3),
        opset=11,
        mode="linear",
    ),
    case(
        "Resize",
        [X, np.array([1, 1, 0.6, 0.6], np.float32)],
        'onnx.Resize(a, "", b) -> y  mode="nearest"  coordinate_transformation_mode="asymmetric"  nearest_mode="ceil"',
        constants=(1,),
        opset=10,
    ),
    case("Dropout", [X], "Copy(a) -> y", opset=7, ratio=0.3),
    case(
        "Scatter",
        [X, ints(1).reshape(1, 1, 1, 1), floats(1, 1, 1, 1)],
        "onnx.ScatterElements(a, b, c) -> y  axis=1",
        opset=9,
        axis=1,
    ),
    case(
        "RoiAlign",
        [X, floats(1, 4), ints(0)],
        "onnx.RoiAlign(a, b, c) -> y  output_height=2  output_width=2  "
        'coordinate_transformation_mode="output_half_pixel"',
        opset=10,
        output_height=2,
        output_width=2,
    ),
    case(
        "GridSample",
        [X, floats(1, 2, 2, 2) - 0.5],
        'onnx.GridSample(a, b) -> y  mode="linear"',
        opset=16,
        mode="bilinear",
    ),
    case(
        "Hardmax",
        [X],
        "Flatten(a) -> y_rows  axis=2; onnx.Hardmax(y_rows) -> y_of_rows  axis=-1; ResizeLike(y_of_rows, a) -> y",
        opset=11,
        axis=2,
    ),
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
    case("CastLike", [X, ints(1)], "Cast(a) -> y  to=10"),
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
    case(
        "Reshape",
        [X, ints(0, -1)],
        "Reshape(a) -> y, y_old_shape  shape=[0, -1]",
        constants=(1,),
        shapes=[["n", 4, 6, 6], None],
    ),
    case("Reshape", [X, ints(0, -1)], "onnx.Reshape(a, b) -> y", constants=(1,), shapes=[["n", 4, "h", "w"], None]),
    case("Reshape", [X, ints(0, -1)], "onnx.Reshape(a, b) -> y", shapes=[["n", 4, 6, 6], [2]]),
    case(
        "Hardmax",
        [X],
        "onnx.Flatten(a) -> y_rows  axis=-2; onnx.Hardmax(y_rows) -> y_of_rows  axis=-1; ResizeLike(y_of_rows, a) -> y",
        opset=11,
        axis=-2,
        shapes=[None],
    ),
]
IDS = [f"{index}-{case.type}" for index, case in enumerate(CASES)]


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_translation(case: Case) -> None:
    assert "; ".join(operators(one_node(case.type, case.inputs, **case.options))) == case.expected


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_numbers(case: Case) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    if case.options.get("opset", 18) < 7:
        pytest.skip("onnxruntime knows no opset before 7")
    proto = one_node(case.type, case.inputs, **case.options)
    feeds = {value.name: named(case.inputs)[value.name] for value in proto.graph.input}
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    with Predictor(from_onnx(proto)) as predictor:
        for result, expected in zip(predictor.run(feeds).values(), session.run(None, feeds)):
            assert result.dtype == expected.dtype
            np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shapes", [None, [[1, 4, 6, "w"], None]])
def test_top_k_of_fewer_elements_is_refused(shapes: Any) -> None:
    proto = one_node("TopK", [X, ints(7)], constants=(1,), outputs=2, shapes=shapes)
    with pytest.raises(ArmnetError, match="K must be from 0 to 6, got 7"):
        Predictor(from_onnx(proto)).run([X])


@pytest.mark.parametrize(("type", "of_nothing"), [("ReduceMax", -np.inf), ("ReduceMin", np.inf)])
def test_the_maximum_and_minimum_of_nothing_are_infinite(type: str, of_nothing: float) -> None:
    pair = from_onnx(one_node(type, [floats(2, 3)], opset=13, axes=[0], shapes=[["n", 3]]))
    assert Predictor(pair).run([np.zeros((0, 3), np.float32)])["y"].tolist() == [[of_nothing] * 3]


@pytest.mark.parametrize(
    ("shape", "wanted", "expected"),
    [
        ((0, 4), (0, 0), (0, 4)),
        ((4, 0), (0, 0), (4, 0)),
        ((2, 0, 8), (0, -1, 4), (2, 0, 4)),
        ((0, 4), (0, 2, 2), (0, 2, 2)),
    ],
)
def test_zeros_in_a_shape_copy_dimensions_of_empty_blobs(shape: Any, wanted: Any, expected: Any) -> None:
    for constants, declared in (((1,), [list("nchw"[: len(shape)]), None]), ((1,), None), ((), None)):
        predictor = Predictor(
            from_onnx(
                one_node("Reshape", [np.zeros(shape, np.float32), ints(*wanted)], constants=constants, shapes=declared)
            )
        )
        feeds = [np.zeros(shape, np.float32), *([] if constants else [ints(*wanted)])]
        assert predictor.run(feeds)["y"].shape == expected


def test_groups_of_scales_that_are_not_known_are_normalised() -> None:
    x, scale, bias = floats(2, 4, 3), floats(2), floats(2)
    proto = one_node("GroupNormalization", [x, scale, bias], opset=18, num_groups=2, shapes=[["n", "c", 3], None, None])
    grouped = x.reshape(2, 2, 6)
    normal = (grouped - grouped.mean(axis=2, keepdims=True)) / np.sqrt(grouped.var(axis=2, keepdims=True) + 1e-5)
    expected = normal.reshape(2, 2, 2, 3) * scale.reshape(1, 2, 1, 1) + bias.reshape(1, 2, 1, 1)
    with Predictor(from_onnx(proto)) as predictor:
        y = predictor.run([x, scale, bias])["y"]
    np.testing.assert_allclose(y, expected.reshape(x.shape), rtol=1e-5, atol=1e-5)


def test_outputs_saved_for_the_backward_pass_are_dropped() -> None:
    proto = one_node("BatchNormalization", [X, *[floats(4)] * 4], opset=9, outputs=5, constants=(1, 2, 3, 4))
    del proto.graph.output[1:]
    mean, variance = (f(X, axis=(0, 2, 3), keepdims=True) for f in (np.mean, np.var))
    expected = (X - mean) / np.sqrt(variance + 1e-5) * floats(4, 1, 1) + floats(4, 1, 1)
    with Predictor(from_onnx(proto)) as predictor:
        np.testing.assert_allclose(predictor.run([X])["y"], expected, rtol=1e-5, atol=1e-5)


def test_caffe2_compatible_nets_keep_caffe2s_operators() -> None:
    for type, inputs, shapes in (("ReduceMax", [X], [[1, 4, 6, "w"]]), ("TopK", [X, ints(2)], [[1, 4, 6, "w"], None])):
        proto = one_node(type, inputs, constants=(1,) if len(inputs) > 1 else (), outputs=len(inputs), shapes=shapes)
        assert [op.domain for op in export(proto, caffe2_compatible=True).predict_net.op] == [""]
