"""Gradient operators."""

from __future__ import annotations

from typing import Any, Dict, Iterator

import numpy as np

from device_tests.host.golden_cases.case import Case, case, own


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
    yield from case("SoftmaxWithLoss", "4x5", labels, "pos 4", outputs=2, scale=2.0)
    yield from case("SoftmaxWithLossGradient", "4x5", labels, "pos 4x5", "1")


def layout_gradients() -> Iterator[Case]:
    """Gradients of operators that move elements, and of resizing."""
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


def _gradients(types: str) -> str:
    return " ".join(f"{type}Gradient" for type in types.split())
