"""Pictures of another size on integers: padding, resizing, transposed convolutions, means, picked elements."""

from __future__ import annotations

from typing import Any, Dict, Optional

import numpy as np

from optimize.layers.pictures import (
    HEIGHT,
    WIDTH,
    constants_behind,
    interpolations,
    resized_axes,
    transposed_padding,
)
from optimize.quantization.integers.net import TO_LAST, IntegerNet
from optimize.quantization.integers.products import add_product
from optimize.quantization.integers.rules import rule
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.resampling import Resampled
from runtime_arm.operators.conv.transposed import transposed_of
from runtime_arm.operators.layout.pad import Padding, padding_of
from runtime_arm.operators.quantised.tflite.resize import ONE
from runtime_arm.registry.schema import axis_of
from runtime_arm.registry.specs import TensorSpec

_FLOAT = "its operand is a float"
_COARSEST = 0.1  # by how much a weight in fixed point may differ


def _spec(net: IntegerNet, name: str) -> Optional[TensorSpec]:
    """What is known of a blob whose sizes are not open."""
    specs = net.program.specs(name)
    return specs[0] if specs and len({None if one is None else one.shape for one in specs}) == 1 else None


# Padding


@rule("PadImage", "onnx.Pad")
def pad(net: IntegerNet, op: OperatorDef) -> Optional[str]:
    """By zeros, which are the zero point, or by elements that there are."""
    if op.input[0] not in net.twins:
        return _FLOAT
    specs = [spec for spec in net.program.specs(op.input[0]) if spec is not None]
    constants = constants_behind(net.program, op)
    if any(name and one is None for name, one in zip(op.input[1:], constants)) or not specs:
        return "its padding is not constant"
    found = {_hashable(padding_of(op, spec, constants)) for spec in specs}
    value = op.get_float("value", 0.0) if op.type == "PadImage" else 0.0
    if op.domain and len(constants) > 1 and constants[1] is not None and constants[1].value is not None:
        value = float(constants[1].value.reshape(()))
    padding = padding_of(op, specs[0], constants)
    if len(found) > 1 or (value and padding.mode == "constant"):
        return "it pads with a number other than 0, or its padding depends on open sizes"
    last = net.is_last(op.input[0])
    x, scale = net.integer(op.input[0], last)
    heads, tails = ([ends[axis] for axis in TO_LAST] if last else ends for ends in (padding.heads, padding.tails))
    pads = net.weight("pads", np.array([*heads, *tails], np.int64))
    zero = net.weight("zero", np.array(scale.zero_point, net.dtype))
    written = net.write(op.output[0], scale, last)
    net.add("Pad", [x, pads, zero], written, domain="onnx", mode=padding.mode)
    return None


def _hashable(padding: Padding) -> Any:
    return tuple(padding.heads), tuple(padding.tails), padding.mode


# Resizing


@rule("ResizeNearest", "UpsampleNearest", "UpsampleBilinear", "onnx.Resize")
def resize(net: IntegerNet, op: OperatorDef) -> Optional[str]:
    spec = _spec(net, op.input[0])
    if op.input[0] not in net.twins:
        return _FLOAT
    if spec is None or spec.ndim != 4 or op.get_str("order", "NCHW") != "NCHW":
        return "its input is not a picture (N, C, H, W) of known size"
    moved = resized_axes(net.program, op, spec)
    if moved is None:
        return "it resizes more than the height and width"
    if all(one.weights is None for one in moved.values()):
        return _nearest(net, op, spec, moved)
    sizes = [moved[axis].size if axis in moved else spec.shape[axis] for axis in (HEIGHT, WIDTH)]
    for arguments, elsewhere in interpolations(list(moved.values()), spec.shape, np.int8):
        if all(share <= _most_elsewhere(one) for one, share in zip(moved.values(), elsewhere)):
            x, scale = net.integer(op.input[0], True)
            size = net.weight("size", np.array(sizes, np.int32))
            net.add("QuantizedResizeBilinear", [x, size], net.write(op.output[0], scale, True), **arguments)
            return None
    return "TensorFlow Lite has no such interpolation"


def _most_elsewhere(one: Resampled) -> float:
    """Each step of the fixed point is rounded by half a unit."""
    return min((1 + one.size / 2) / ONE, _COARSEST)


def _nearest(net: IntegerNet, op: OperatorDef, spec: TensorSpec, moved: Dict[int, Resampled]) -> Optional[str]:
    """Each pixel repeated, channels last; otherwise as the operator does it, channels first."""
    times = {axis: one.size // spec.shape[axis] for axis, one in moved.items()}
    repeated = all(
        one.size == times[axis] * spec.shape[axis]
        and np.array_equal(one.indices[0], np.arange(one.size) // times[axis])
        for axis, one in moved.items()
    )
    x, scale = net.integer(op.input[0], repeated)
    written = net.write(op.output[0], scale, repeated)
    if not repeated:
        net.keep_as(op, x, written)
        return None
    scales = {"height_scale": float(times.get(2, 1)), "width_scale": float(times.get(3, 1))}
    net.add("ResizeNearest", [x], written, domain="", order="NHWC", **scales)
    return None


# Transposed convolutions


@rule("ConvTranspose", "onnx.ConvTranspose")
def transposed_convolution(net: IntegerNet, op: OperatorDef) -> Optional[str]:
    """(C, M, kh, kw) becomes (M, kh, kw, C). TensorFlow Lite pads by its two rules alone."""
    weights, spec = net.constant(op.input[1]), _spec(net, op.input[0])
    bias = net.constant(op.input[2]) if len(op.input) > 2 and op.input[2] else None
    if weights is None or weights.ndim != 4 or (len(op.input) > 2 and op.input[2] and bias is None):
        return "its weights are not constant, or its input is not a picture"
    if spec is None:
        return "the size of its result is open"
    found = transposed_of(op, spec, TensorSpec.known(weights))
    window = found.window
    if found.group != 1 or found.channels_last or set(window.dilation) != {1}:
        return "it has groups or dilations, or its channels come last"
    auto_pad = transposed_padding(window)
    if auto_pad is None:
        return "TensorFlow Lite has no such padding"
    size = net.weight("size", np.array(window.image, np.int32))
    arguments = {"strides": list(window.stride), "auto_pad": auto_pad}
    add_product(net, op, "QuantizedConvTranspose", (weights, _filters_first), bias, True, arguments, [size])
    return None


def _filters_first(weights: Array) -> Array:
    """(C, M, kh, kw) as (M, kh, kw, C)."""
    return np.asarray(weights.transpose(1, 2, 3, 0))


# Means and picked elements


@rule("ReduceMean", "onnx.ReduceMean")
def mean(net: IntegerNet, op: OperatorDef) -> Optional[str]:
    rank = net.rank(op.input[0])
    if op.input[0] not in net.twins:
        return _FLOAT
    given = net.program.value(op.input[1]) if len(op.input) > 1 and op.input[1] else None
    if rank is None or (len(op.input) > 1 and op.input[1] and given is None):
        return "its axes are not known"
    asked = [int(axis) for axis in given.reshape(-1)] if given is not None else list(op.get_ints("axes"))
    axes = sorted({axis_of(op, axis, rank) for axis in asked} or range(rank))
    keep = op.get_bool("keepdims", True)
    last = net.is_last(op.input[0]) and (keep or axes == [2, 3])
    x, scale = net.integer(op.input[0], last)
    y_scale = net.scales[op.output[0]]
    written = net.write(op.output[0], y_scale, last and keep)
    along = sorted(TO_LAST.index(axis) for axis in axes) if last else axes
    net.add("QuantizedMean", [x], written, axes=along, keepdims=int(keep), **scale.of("X"), **y_scale.of("Y"))
    return None


@rule("Gather", "onnx.Gather", "onnx.Slice", "Slice")
def picked(net: IntegerNet, op: OperatorDef) -> Optional[str]:
    """Along whatever dimension, in the order of the floats; channels last where one vector picks from a picture."""
    if op.input[0] not in net.twins:
        return _FLOAT
    rank = net.rank(op.input[0])
    along = op.type == "Gather" and rank == 4 and net.rank(op.input[1]) == 1 and net.is_last(op.output[0])
    x, scale = net.integer(op.input[0], bool(along))
    written = net.write(op.output[0], scale, bool(along))
    moved = op.with_args(axis=TO_LAST.index(axis_of(op, op.get_int("axis", 0), 4))) if along else op
    net.keep_as(moved, x, written)
    return None
