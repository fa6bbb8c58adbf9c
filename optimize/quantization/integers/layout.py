"""Pools, and operators that only move numbers: they keep the scale of what they move."""

from __future__ import annotations

from typing import Optional

import numpy as np

from optimize.quantization.integers.net import TO_FIRST, TO_LAST, IntegerNet
from optimize.quantization.integers.rules import VIEWS, rule
from optimize.rewriting.program import Program
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.common.windows import Window
from runtime_arm.operators.pool.caffe2 import Pool, pool_of

SAME_SCALE = (
    *VIEWS,
    "MaxPool",
    "AveragePool",
    "Concat",
    "Transpose",
    "NHWC2NCHW",
    "NCHW2NHWC",
    "ResizeNearest",
    "UpsampleNearest",
    "UpsampleBilinear",
    "PadImage",
    "Gather",
    "Slice",
    "onnx.Gather",
    "onnx.Pad",
    "onnx.Resize",
    "onnx.Slice",
)


def _reach(window: Window) -> Optional[Window]:
    """The window with all the padding that its kernels touch, so that sizes rounded down give the same output."""
    tails = []
    for image, kernel, stride, dilation, head, _, output in zip(*window):
        tails.append(max(0, (output - 1) * stride + dilation * (kernel - 1) + 1 - head - image))
    return window._replace(tail=tuple(tails))


def _pool(net: IntegerNet, op: OperatorDef) -> Optional[Pool]:
    """The pool, the same for every size that is open; None if there is none such."""
    pools = [pool_of(op, spec) for spec in net.program.specs(op.input[0]) if spec is not None]
    windows = {_reach(pool.window) for pool in pools}
    pads = {(window.kernel, window.head, window.tail) for window in windows if window is not None}
    return pools[0] if len(pads) == 1 and not pools[0].channels_last and pools[0].window.ndim == 2 else None


def _why_not_picture(net: IntegerNet, op: OperatorDef) -> Optional[str]:
    if op.input[0] not in net.twins:
        return "its operand is a float"
    return None if net.is_last(op.input[0]) else "its operand is not a picture"


def averages_all(program: Program, op: OperatorDef) -> bool:
    """Whether an operator averages each channel of whole pictures: such means are small beside the largest pixel, and
    have a scale of their own."""
    if op.full_type != "AveragePool" or op.get_bool("global_pooling"):
        return op.full_type == "AveragePool"
    windows = [None if spec is None else pool_of(op, spec).window for spec in program.specs(op.input[0])]
    return bool(windows) and all(
        window is not None and window.ndim == 2 and window.kernel == window.image and not any(window.head + window.tail)
        for window in windows
    )


@rule("MaxPool", "AveragePool")
def pool(net: IntegerNet, op: OperatorDef) -> Optional[str]:
    reason = _why_not_picture(net, op)
    if reason:
        return reason
    if averages_all(net.program, op):
        return _mean(net, op)
    found = _pool(net, op)
    if found is None or len(op.output) > 1:
        return "its window depends on sizes that are open"
    window = found.window
    reached = _reach(window)
    if op.type == "AveragePool" and not np.array_equal(found.divisors, window.counts()):
        return "it counts padding"
    assert reached is not None
    x, scale = net.integer(op.input[0], True)
    net.add(
        f"Quantized{op.type}",
        [x],
        net.write(op.output[0], scale, True),
        kernel_shape=list(window.kernel),
        strides=list(window.stride),
        pads=[*reached.head, *reached.tail],
        **(scale.of("Y") if op.type == "AveragePool" else {}),
    )
    return None


def _mean(net: IntegerNet, op: OperatorDef) -> Optional[str]:
    x, scale = net.integer(op.input[0], True)
    y_scale = net.scales[op.output[0]]
    written = net.write(op.output[0], y_scale, True)
    net.add("QuantizedMean", [x], written, axes=[1, 2], keepdims=1, **scale.of("X"), **y_scale.of("Y"))
    return None


@rule("Concat")
def concat(net: IntegerNet, op: OperatorDef) -> Optional[str]:
    """All operands get the scale of the whole."""
    rank, names = net.rank(op.output[0]), list(op.input)
    if rank is None or op.get_bool("add_axis") or not any(name in net.twins for name in names):
        return "its operands are floats"
    if any(name not in net.scales for name in names):
        return "the range of an operand is not known"
    last, axis = net.is_last(op.output[0]), op.get_int("axis", 1)
    axis %= rank
    scale = net.scales[op.output[0]]
    operands = [net.integer(name, last, scale)[0] for name in names]
    written = net.write(op.output[0], scale, last)
    net.add_with_info("Concat", operands, written, axis=TO_LAST.index(axis) if last else axis)
    return None


@rule(*VIEWS)
def view(net: IntegerNet, op: OperatorDef) -> Optional[str]:
    """Another shape for the same integers, in the order of the floats."""
    if op.input[0] not in net.twins:
        return "its operand is a float"
    x, scale = net.integer(op.input[0], False)
    net.keep_as(op, x, net.write(op.output[0], scale, False))
    return None


@rule("Transpose", "NHWC2NCHW", "NCHW2NHWC")
def transpose(net: IntegerNet, op: OperatorDef) -> Optional[str]:
    """Nothing runs where the integers lie so already."""
    rank = net.rank(op.input[0])
    if rank is None or op.input[0] not in net.scales:
        return "its operand has no known range"
    axes = {"NHWC2NCHW": TO_FIRST, "NCHW2NHWC": TO_LAST}.get(op.type) or tuple(
        op.get_ints("axes", tuple(reversed(range(rank))))
    )
    if rank != 4:
        if op.input[0] not in net.twins:
            return "its operand is a float"
        x, scale = net.integer(op.input[0], False)
        net.keep_as(op, x, net.write(op.output[0], scale, False))
        return None
    if axes == TO_FIRST:
        x, scale = net.integer(op.input[0], False)
        net.alias(op.output[0], True, x, scale)
        return None
    if op.input[0] not in net.twins:
        return "its operand is a float"
    if axes == TO_LAST:
        x, scale = net.integer(op.input[0], True)
        net.alias(op.output[0], False, x, scale)
        return None
    x, scale = net.integer(op.input[0], False)
    net.keep_as(op, x, net.write(op.output[0], scale, False))
    return None
