"""Gradient makers of the operators that move elements about."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import numpy as np

from runtime_arm.errors import GradientError
from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.gradients import Backward, Forward, gradient, no_gradient


@gradient("Alias", "EnsureDense")
def alias(forward: Forward) -> Backward:
    """The gradient is the output's, by name."""
    return forward.result([], {0: forward.gradient()})


@gradient("Copy", "CopyFromCPUInput")
def copy(forward: Forward) -> Backward:
    return forward.by("CopyOnDeviceLike", [forward.gradient(), forward.like(0)], [0], copy=False)


@gradient("NegateGradient")
def negate_gradient(forward: Forward) -> Backward:
    return forward.by("Negative", [forward.gradient()], [0], copy=False)


@gradient("Reshape")
def reshape(forward: Forward) -> Backward:
    """Back to the old shape, which the operator's second output holds."""
    dx = forward.name(0)
    back = forward.make("Reshape", [forward.gradient(), forward.output(1)], [dx, f"_{dx}_dims"], copy=False)
    return forward.result([back], {0: dx})


@gradient("Flatten", "FlattenToVec")
def flatten(forward: Forward) -> Backward:
    return forward.by("ResizeLike", [forward.gradient(), forward.like(0)], [0])


@gradient("Squeeze")
def squeeze(forward: Forward) -> Backward:
    return forward.by("ExpandDims", [forward.gradient()], [0])


@gradient("ExpandDims")
def expand_dims(forward: Forward) -> Backward:
    return forward.by("Squeeze", [forward.gradient()], [0])


@gradient("PrependDim")
def prepend_dim(forward: Forward) -> Backward:
    return forward.by("MergeDim", [forward.gradient()], [0], copy=False)


@gradient("Transpose")
def transpose(forward: Forward) -> Backward:
    """The inverse permutation; without ``axes`` the same one, which turns all dimensions round."""
    axes = forward.op.get_ints("axes")
    inverse: Dict[str, Any] = {"axes": [int(axis) for axis in np.argsort(axes)]} if axes else {}
    return forward.by("Transpose", [forward.gradient()], [0], copy=False, **inverse)


@gradient("NHWC2NCHW")
def channels_first(forward: Forward) -> Backward:
    return forward.by("NCHW2NHWC", [forward.gradient()], [0])


@gradient("NCHW2NHWC")
def channels_last(forward: Forward) -> Backward:
    return forward.by("NHWC2NCHW", [forward.gradient()], [0])


@gradient("Concat", "DepthConcat")
def concat(forward: Forward) -> Backward:
    """The parts, cut apart again at the sizes that the operator's second output holds."""
    given = [forward.gradient(), forward.output(1)]
    return forward.by("Split", given, range(len(forward.op.input)))


@gradient("Split", "DepthSplit", "SplitByLengths")
def split(forward: Forward) -> Backward:
    """The parts' gradients side by side; zeros for a part that has none."""
    return _joined(forward)


def _joined(forward: Forward, axis: Optional[int] = None) -> Backward:
    """A Concat of the outputs' gradients, along an axis or as the operator's arguments say."""
    dx = forward.name(0)
    parts: List[str] = []
    ops: List[OperatorDef] = []
    for index, part in enumerate(forward.op.output):
        if forward.has_gradient(index):
            parts.append(forward.gradient(index))
        else:
            parts.append(f"_{part}_no_grad")
            ops.append(forward.make("ConstantFill", [part], parts[-1:], copy=False, value=0.0))
    joined = forward.make("Concat", parts, [dx, f"_{dx}_dims"], copy=False)
    joined = joined.replace(arg=forward.op.arg) if axis is None else joined.with_args(axis=axis)
    return forward.result([*ops, joined], {0: dx})


@gradient("Dropout")
def dropout(forward: Forward) -> Backward:
    mask = [] if forward.op.get_bool("is_test") else [forward.output(1)]
    return forward.by("DropoutGrad", [forward.gradient(), *mask], [0])


@gradient("Slice")
def slice_(forward: Forward) -> Backward:
    bounds = [forward.input(index) for index in range(1, len(forward.op.input))]
    return forward.by("SliceGradient", [forward.like(0), *bounds, forward.gradient()], [0])


@gradient("Tile")
def tile(forward: Forward) -> Backward:
    given = [forward.input(index) for index in range(1, len(forward.op.input))]
    return forward.by("TileGradient", [forward.gradient(), *given], [0])


@gradient("ChannelShuffle", "PadImage")
def rearrangement(forward: Forward) -> Backward:
    return forward.by(f"{forward.op.type}Gradient", [forward.gradient()], [0])


@gradient("BatchToSpace")
def batch_to_space(forward: Forward) -> Backward:
    return forward.by("SpaceToBatch", [forward.gradient()], [0])


@gradient("SpaceToBatch")
def space_to_batch(forward: Forward) -> Backward:
    return forward.by("BatchToSpace", [forward.gradient()], [0])


@gradient("FloatToHalf")
def float_to_half(forward: Forward) -> Backward:
    return forward.by("HalfToFloat", [forward.gradient()], [0], copy=False)


no_gradient("StopGradient", "EnsureCPUOutput", stops=True)
no_gradient("ResizeLike")


@gradient("ZeroGradient")
def zero_gradient(forward: Forward) -> Backward:
    return forward.by("ConstantFill", [forward.like(0)], [0], value=0.0)


@gradient("NanCheck")
def nan_check(forward: Forward) -> Backward:
    return forward.by("NanCheck", [forward.gradient()], [0])


@gradient("SequenceMask")
def sequence_mask(forward: Forward) -> Backward:
    return forward.by("SequenceMask", [forward.gradient(), *[n for n in forward.given(1) if n]], [0], grad=1)


@gradient("Reshape", "Flatten", "Squeeze", "Unsqueeze", domain="onnx")
def onnx_reshape(forward: Forward) -> Backward:
    return forward.by("ResizeLike", [forward.gradient(), forward.like(0)], [0], copy=False)


@gradient("Expand", domain="onnx")
def onnx_expand(forward: Forward) -> Backward:
    return forward.by("SumLike", [forward.gradient(), forward.like(0)], [0], copy=False, domain="armnet")


@gradient("Tile", domain="onnx")
def onnx_tile(forward: Forward) -> Backward:
    return forward.by("TileGradient", [forward.gradient(), forward.input(1)], [0], domain="armnet")


@gradient("Slice", domain="onnx")
def onnx_slice(forward: Forward) -> Backward:
    bounds = forward.given(*range(1, len(forward.op.input)))
    return forward.by("SliceGradient", [forward.like(0), *bounds, forward.gradient()], [0], domain="armnet")


@gradient("Pad", domain="onnx")
def onnx_pad(forward: Forward) -> Backward:
    pads = forward.given(*range(1, len(forward.op.input)))
    return forward.by("PadGradient", [forward.gradient(), forward.like(0), *pads], [0], domain="armnet")


@gradient("Split", domain="onnx")
def onnx_split(forward: Forward) -> Backward:
    """The parts' gradients side by side; zeros for a part that has none."""
    return _joined(forward, forward.op.get_int("axis", 0))


@gradient("DepthToSpace", domain="onnx")
def depth_to_space(forward: Forward) -> Backward:
    return forward.by("SpaceToDepth", [forward.gradient()], [0], domain="onnx")


@gradient("SpaceToDepth", domain="onnx")
def space_to_depth(forward: Forward) -> Backward:
    return forward.by("DepthToSpace", [forward.gradient()], [0], domain="onnx")


@gradient("Trilu", domain="onnx")
def trilu(forward: Forward) -> Backward:
    return forward.by("Trilu", [forward.gradient(), *[k for k in forward.given(1) if k]], [0], domain="onnx")


@gradient("Dropout", domain="onnx")
def onnx_dropout(forward: Forward) -> Backward:
    """Outside of training the gradient is the output's, by name."""
    if any(forward.given(2)):
        raise GradientError(forward.op, "there is a gradient only without training_mode: use Caffe2's Dropout to train")
    return forward.result([], {0: forward.gradient()})


@gradient("Expand")
def expand(forward: Forward) -> Backward:
    return forward.by("ExpandGradient", [forward.gradient(), forward.like(0)], [0])


@gradient("CopyCPUToCPU")
def from_device(forward: Forward) -> Backward:
    return forward.by("CopyFromCPUInput", [forward.gradient()], [0], copy=False)


@gradient("HalfToFloat")
def half_to_float(forward: Forward) -> Backward:
    return forward.by("FloatToHalf", [forward.gradient()], [0], copy=False)
