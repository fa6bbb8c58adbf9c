"""Operators that move elements, and resizing."""

from __future__ import annotations

from typing import Iterator

import numpy as np

from device_tests.host.golden_cases.case import Case, case, onnx, own


def layout() -> Iterator[Case]:
    """Data movement: concatenation, slices, padding, gathering, resizing."""
    yield from case("Transpose", "2x3x4x5", axes=[0, 2, 3, 1])
    yield from case("NCHW2NHWC NHWC2NCHW", "2x3x4x5")
    yield from case("Concat DepthConcat", "2x3x4", "2x5x4", axis=1, outputs=2)
    yield from case("Split DepthSplit", "2x6x4", axis=1, outputs=2)
    yield from onnx("Split", "2x6x4", [1, 5], axis=1, outputs=2)
    yield from case("SplitByLengths", "2x5", np.array([2, 3], np.int32), outputs=2)
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
    yield from onnx("Gather", "5x4", [[0, -1], [2, 2]], axis=-1)
    bags = np.array([0, 2, 1, -3]), np.array([2, 3, 5, 7]), np.array([4])
    for reduction in ("Sum", "Mean", "Max"):
        yield from own("ReduceSlices", "5x4", *bags, np.array([4, 0, -1, 2, 2, 1, 3]), "7", reduction=reduction)
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
