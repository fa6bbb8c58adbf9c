"""Reshaping, reordering, joining and cutting blobs."""

from __future__ import annotations

from typing import List, Sequence

import numpy as np

from exporter.to_tflite.graph import Operand
from exporter.to_tflite.layout import before_reshape, channels_last, held, plain, reshaped
from exporter.to_tflite.rules import Call, Results, rule
from runtime_arm.errors import ExportError
from runtime_arm.operators.layout.caffe import crop_cuts
from runtime_arm.operators.layout.concat import adds_axis, join_axis
from runtime_arm.operators.layout.pad import padding_of
from runtime_arm.operators.layout.transpose import grouped_shapes, permutation_of
from runtime_arm.registry.schema import lookup


@rule("view", "caffe.Reshape", "caffe.Flatten")
def view(call: Call) -> Results:
    """The elements of the first input in another shape.

    The reshape is left to whoever reads the result: a fully connected layer can read the picture itself.
    """
    call.refuse_outputs_from(1)
    operand, spec = call.operand(), call.outputs[0]
    if spec.shape == operand.spec.shape:
        return operand._replace(spec=spec)
    if operand.flattened is not None:
        return Operand(spec, flattened=operand.flattened)
    if operand.tensor is None:
        return Operand(spec, call.graph.reshaped(call.take(), spec.shape), plain(spec.ndim))
    order = reshaped(operand.order, operand.spec.shape, spec.shape)
    if order is not None:
        return call.result(call.graph.reshaped(operand.tensor, held(spec.shape, order)), order)
    order = channels_last(spec.ndim)
    before = before_reshape(order, operand.spec.shape, spec.shape) if order != plain(spec.ndim) else None
    if before is not None:
        return call.result(call.graph.reshaped(call.take(0, before), held(spec.shape, order)), order)
    return Operand(spec, flattened=operand)


@rule("Transpose", "onnx.Transpose", "NCHW2NHWC", "NHWC2NCHW")
def transpose(call: Call) -> Results:
    """Only the order changes that is noted for the tensor."""
    operand, rank = call.operand(), call.spec().ndim
    axes = tuple(permutation_of(call.op, rank))
    if operand.flattened is not None or operand.tensor is None:
        tensor, order = call.take(), plain(rank)
    else:
        tensor, order = operand.tensor, operand.order
    return call.result(tensor, tuple(axes.index(axis) for axis in order))


@rule("Concat", "DepthConcat")
def concat(call: Call) -> Results:
    call.refuse_outputs_from(1)
    axis = join_axis(call.op, call.spec().ndim + adds_axis(call.op))
    count = len(call.operands)
    if adds_axis(call.op):
        parts = [call.take(index) for index in range(count)]
        y = call.emit("PACK", parts, call.outputs[0].shape, ValuesCount=count, Axis=axis)
        return call.result(y)
    order = call.joint_order(range(count))
    parts = [call.take(index, order) for index in range(count) if call.spec(index).size]
    if len(parts) == 1:
        return call.result(parts[0], order)
    quantization = next((call.graph.rescaled[n] for n in parts if n in call.graph.rescaled), None)
    quantization = quantization or call.graph[parts[0]].quantization
    y = call.emit("CONCATENATION", parts, call.shape_in(order), quantization=quantization, Axis=order.index(axis))
    return call.result(y, order)


@rule("Split", "DepthSplit", "SplitByLengths", "onnx.Split", "Slice", "onnx.Slice")
def parts(call: Call) -> Results:
    """Each output is a part of the first input."""
    parts_of, inputs = lookup(call.op).splits, [None if one is None else one.spec for one in call.operands]
    assert parts_of is not None
    places = parts_of(call.op, inputs, call.outputs)
    found: List[Operand] = []
    for index, (place, spec) in enumerate(zip(places, call.outputs)):
        order = call.order()
        whole = tuple(place) + (slice(None),) * (call.spec().ndim - len(place))
        tensor = _cut(call, call.as_held(), [whole[axis] for axis in order])
        if spec.ndim == len(order):
            found.append(call.result(tensor, order, index))
        else:
            plainly = call.graph.turned(tensor, [order.index(axis) for axis in range(len(order))])
            found.append(call.result(call.graph.reshaped(plainly, spec.shape), None, index))
    return found


def _cut(call: Call, x: int, place: Sequence[slice]) -> int:
    """The part of a tensor that the slices select."""
    sizes = call.graph[x].shape
    bounds = [cut.indices(n) for cut, n in zip(place, sizes)]
    shape = [len(range(*bound)) for bound in bounds]
    if all(bound == (0, n, 1) for bound, n in zip(bounds, sizes)):
        return x
    quantization = call.graph[x].quantization
    if all(step == 1 for _, _, step in bounds):
        begin = [start for start, _, _ in bounds]
        return call.emit("SLICE", [x, call.ints(*begin), call.ints(*shape)], shape, quantization=quantization)
    mask = sum(1 << axis for axis, (_, stop, step) in enumerate(bounds) if step < 0 and stop < 0)
    numbers = [call.ints(*column) for column in zip(*bounds)]
    return call.emit("STRIDED_SLICE", [x, *numbers], shape, quantization=quantization, EndMask=mask)


@rule("caffe.Crop")
def crop(call: Call) -> Results:
    """Crops to the size of the second input, from ``axis`` on."""
    order = call.order()
    cuts = crop_cuts(call.op, call.spec(0).shape, call.spec(1).shape)[1:]
    place = [slice(None)] * (len(order) - len(cuts)) + list(cuts)
    return call.result(_cut(call, call.as_held(), [place[axis] for axis in order]), order)


@rule("PadImage", "onnx.Pad", "CenterCropPad", "onnx.CenterCropPad")
def pad(call: Call) -> Results:
    """Negative pads cut; others are constant or reflect."""
    extra = [call.spec(i) if call.has(i) else None for i in range(1, len(call.operands))]
    padding, order = padding_of(call.op, call.spec(), extra), call.order()
    heads, tails = held(padding.heads, order), held(padding.tails, order)
    x = call.as_held()
    sizes = call.graph[x].shape
    x = _cut(call, x, [slice(max(-head, 0), n - max(-tail, 0)) for n, head, tail in zip(sizes, heads, tails)])
    pads = np.array([[max(head, 0), max(tail, 0)] for head, tail in zip(heads, tails)], np.int32)
    if not pads.any():
        return call.result(x, order)
    inputs, quantization = [x, call.graph.constant(pads)], call.graph[x].quantization
    if padding.mode == "reflect":
        y = call.emit("MIRROR_PAD", inputs, call.shape_in(order), quantization=quantization, Mode=0)
        return call.result(y, order)
    if padding.mode != "constant":
        raise ExportError(f"TFLite does not pad by mode {padding.mode!r}")
    value = call.op.get_float("value", 0.0) if call.op.type == "PadImage" else 0.0
    given = call.value(2) if call.op.type == "Pad" and call.has(2) else None
    value = value if given is None else float(given.reshape(()))
    if value == (0 if quantization is None else quantization.zero_point[0]):
        return call.result(call.emit("PAD", inputs, call.shape_in(order), quantization=quantization), order)
    return call.result(call.emit("PADV2", [*inputs, call.number(value)], call.shape_in(order)), order)


@rule("ChannelShuffle")
def channel_shuffle(call: Call) -> Results:
    """Splits the channels into (group, each), swaps these two and restores the shape."""
    grouped, _, axis = grouped_shapes(call.op, call.spec().shape)
    order, group = call.order(), grouped[axis]
    x = call.as_held()
    at, shape = order.index(axis), call.graph[x].shape
    y = call.graph.reshaped(x, (*shape[:at], group, shape[at] // group, *shape[at + 1 :]))
    swapped = list(range(len(shape) + 1))
    swapped[at : at + 2] = [at + 1, at]
    return call.result(call.graph.reshaped(call.graph.turned(y, swapped), shape), order)


@rule("onnx.DepthToSpace", "onnx.SpaceToDepth")
def space(call: Call) -> Results:
    """TFLite's have the order of ONNX's mode DCR."""
    deep, block = call.op.type == "DepthToSpace", call.op.get_int("blocksize")
    if deep and call.op.get_str("mode", "DCR") != "DCR":
        return _columns_first(call, block)
    order = (0, 2, 3, 1)
    type = "DEPTH_TO_SPACE" if deep else "SPACE_TO_DEPTH"
    return call.result(call.emit(type, [call.take(0, order)], call.shape_in(order), BlockSize=block), order)


def _columns_first(call: Call, block: int) -> Operand:
    """Mode CRD: the channels of the input are reordered to those of mode DCR."""
    channels = call.spec().shape[1]
    wanted = np.arange(channels, dtype=np.int32).reshape(channels // block**2, block, block).transpose(1, 2, 0)
    order = (0, 2, 3, 1)
    x = call.take(0, order)
    shape = call.graph[x].shape
    y = call.emit("GATHER", [x, call.graph.constant(wanted.reshape(-1))], shape, Axis=3)
    return call.result(call.emit("DEPTH_TO_SPACE", [y], call.shape_in(order), BlockSize=block), order)


@rule("Tile", "onnx.Tile", "NumpyTile", "Expand", "onnx.Expand")
def repeat(call: Call) -> Results:
    """Repeats along dimensions; the numbers follow from the shapes."""
    order, sizes = call.order(), call.spec().shape
    target = call.outputs[0].shape
    wide = (1,) * (len(target) - len(sizes)) + sizes
    if call.op.type == "Expand":
        if wide == target:
            return call.result(call.graph.reshaped(call.take(), target))
        x = call.graph.reshaped(call.take(), wide)
        y = call.emit("BROADCAST_TO", [x, call.ints(*target)], target)
        return call.result(y)
    times = [n // size if size else 1 for n, size in zip(held(target, order), held(sizes, order))]
    return call.result(call.emit("TILE", [call.as_held(), call.ints(*times)], call.shape_in(order)), order)
