"""Convolutions, pools and products of matrices."""

from __future__ import annotations

from typing import Iterator

from device_tests.host.golden_cases.case import Case, case, onnx


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
        apart = [1, stride, stride]
        yield from case("Conv3D", "1x6x5x9x12", "!12x1x3x3x3", kernels=[3] * 3, pads=[1] * 6, strides=apart, group=6)
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
