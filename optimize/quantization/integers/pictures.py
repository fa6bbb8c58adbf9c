"""Pictures of another size on integers: padding, resizing, transposed convolutions, means, picked elements."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from optimize.quantization.integers.net import TO_LAST, IntegerNet
from optimize.quantization.integers.products import add_product
from optimize.quantization.integers.rules import rule
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.resampling import Resampled
from runtime_arm.operators.common.windows import Window
from runtime_arm.operators.conv.transposed import transposed_of
from runtime_arm.operators.image import caffe2, onnx
from runtime_arm.operators.layout.pad import Padding, padding_of
from runtime_arm.operators.quantised.tflite.resize import ONE, axis_of_size
from runtime_arm.registry.schema import axis_of
from runtime_arm.registry.specs import TensorSpec

_FLOAT = "its operand is a float"
_KINDS: Sequence[Dict[str, Any]] = ({"half_pixel_centers": 1}, {}, {"align_corners": 1})  # of TensorFlow Lite
_COARSEST = 0.1  # by how much a weight in fixed point may differ


def _constants(net: IntegerNet, op: OperatorDef) -> List[Optional[TensorSpec]]:
    """The inputs behind the first, which are constants where they are given."""
    values = [net.program.value(name) if name else None for name in op.input[1:]]
    return [None if value is None else TensorSpec.known(value) for value in values]


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
    constants = _constants(net, op)
    if any(name and one is None for name, one in zip(op.input[1:], constants)) or not specs:
        return "how far it pads is not constant"
    found = {_hashable(padding_of(op, spec, constants)) for spec in specs}
    value = op.get_float("value", 0.0) if op.type == "PadImage" else 0.0
    if op.domain and len(constants) > 1 and constants[1] is not None and constants[1].value is not None:
        value = float(constants[1].value.reshape(()))
    padding = padding_of(op, specs[0], constants)
    if len(found) > 1 or (value and padding.mode == "constant"):
        return "it pads by another number than 0, or as far as open sizes say"
    last = net.is_last(op.input[0])
    x, scale = net.integer(op.input[0], last)
    heads, tails = ([ends[axis] for axis in TO_LAST] if last else ends for ends in (padding.heads, padding.tails))
    pads = net.weight(f"{op.output[0]}_pads", np.array([*heads, *tails], np.int64))
    zero = net.weight(f"{op.output[0]}_zero", np.array(scale.zero_point, net.dtype))
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
        return "it is no picture (N, C, H, W) of a known size"
    axes = (onnx.axes_of if op.domain else caffe2.axes_of)(op, spec, *_constants(net, op))
    moved = {one.axis: one for one in axes if not _is_copy(one, spec.shape[one.axis])}
    if not set(moved) <= {2, 3} or any(one.outside is not None for one in moved.values()):
        return "it resizes more than the height and width"
    if all(one.weights is None for one in moved.values()):
        return _nearest(net, op, spec, moved)
    sizes = [moved[axis].size if axis in moved else spec.shape[axis] for axis in (2, 3)]
    for options in _KINDS:
        kind = OperatorDef.of("QuantizedResizeBilinear", [], [], domain="tflite", **options)
        if all(_reads_the_same(kind, one, spec.shape[one.axis]) for one in moved.values()):
            x, scale = net.integer(op.input[0], True)
            size = net.weight(f"{op.output[0]}_size", np.array(sizes, np.int32))
            net.add("QuantizedResizeBilinear", [x, size], net.write(op.output[0], scale, True), **options)
            return None
    return "TensorFlow Lite has no such interpolation"


def _is_copy(one: Resampled, size: int) -> bool:
    return one.size == size and one.weights is None and np.array_equal(one.indices[0], np.arange(size))


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


def _reads_the_same(kind: OperatorDef, one: Resampled, size: int) -> bool:
    """Whether TensorFlow Lite's kernel weighs the same pixels, but for what its fixed point rounds."""
    if one.weights is None or len(one.indices) > 2:
        return False
    low, high, low_weight, high_weight = axis_of_size(kind, size, one.size, np.int8)
    found = _matrix([low, high], [low_weight / ONE, high_weight / ONE], size)
    far = np.abs(_matrix(one.indices, one.weights, size) - found).max(initial=0)
    return bool(far <= min((1 + one.size / 2) / ONE, _COARSEST))  # each step of its scale is rounded by half a unit


def _matrix(indices: Any, weights: Any, size: int) -> Array:
    """The weights of all inputs for each output: (out, size)."""
    matrix = np.zeros((len(indices[0]), size))
    for taps, shares in zip(indices, weights):
        np.add.at(matrix, (np.arange(len(taps)), taps), shares)
    return matrix


# Transposed convolutions


@rule("ConvTranspose", "onnx.ConvTranspose")
def transposed_convolution(net: IntegerNet, op: OperatorDef) -> Optional[str]:
    """(C, M, kh, kw) becomes (M, kh, kw, C). TensorFlow Lite pads by its two rules alone."""
    weights, spec = net.constant(op.input[1]), _spec(net, op.input[0])
    bias = net.constant(op.input[2]) if len(op.input) > 2 and op.input[2] else None
    if weights is None or weights.ndim != 4 or (len(op.input) > 2 and op.input[2] and bias is None):
        return "its weights are not constant, or it is no picture"
    if spec is None:
        return "the size of its result is open"
    found = transposed_of(op, spec, TensorSpec.known(weights))
    window = found.window
    if found.group != 1 or found.channels_last or set(window.dilation) != {1}:
        return "it has groups, dilations or its channels last"
    same = tuple(
        max((n - 1) * s + k - y, 0) for y, k, s, n in zip(window.image, window.kernel, window.stride, window.output)
    )
    if _is(window, [0] * 2, [max(s - k, 0) for k, s in zip(window.kernel, window.stride)]):
        auto_pad = "VALID"
    elif _is(window, [n // 2 for n in same], [n - n // 2 for n in same]):
        auto_pad = "SAME_UPPER"
    else:
        return "TensorFlow Lite does not pad so"
    size = net.weight(f"{op.output[0]}_size", np.array(window.image, np.int32))
    arguments = {"strides": list(window.stride), "auto_pad": auto_pad}
    add_product(net, op, "QuantizedConvTranspose", (weights, _filters_first), bias, True, arguments, [size])
    return None


def _filters_first(weights: Array) -> Array:
    """(C, M, kh, kw) as (M, kh, kw, C)."""
    return np.asarray(weights.transpose(1, 2, 3, 0))


def _is(window: Window, heads: Sequence[int], tails: Sequence[int]) -> bool:
    """Whether the padding is this one; none is cut from a result that ends before."""
    ends = zip(window.image, window.kernel, window.stride, window.output, heads)
    cut = [(n - 1) * s + k - head - y for y, k, s, n, head in ends]
    return list(window.head) == list(heads) and all(max(one, 0) == max(tail, 0) for one, tail in zip(cut, tails))


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


@rule("Gather", "onnx.Slice", "Slice")
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
