"""Selection of elements by index or by value."""

from __future__ import annotations

import numpy as np

from exporter.to_onnx.rules import Call, Results, rule
from runtime_arm.errors import ExportError
from runtime_arm.registry.schema import lookup


@rule("Gather", "BatchGather", "onnx.Gather")
def gather(call: Call) -> Results:
    """Negative indices count from the end in ONNX, along every axis."""
    if call.op.get_bool("match_outer"):
        raise ExportError("ONNX cannot express match_outer")
    axis = 1 if call.op.type == "BatchGather" else call.op.get_int("axis", 0)
    return call.node("Gather", call.x, call.input(1), axis=axis)


@rule("BatchPermutation")
def batch_permutation(call: Call) -> Results:
    return call.node("Gather", call.x, call.input(1), axis=0)


@rule("BooleanMask")
def boolean_mask(call: Call) -> Results:
    """The second output holds the indices of the kept elements."""
    kept = call.node("Compress", call.x, call.input(1), axis=0)
    if not call.wants(1):
        return kept
    return [kept, call.reshaped(call.node("NonZero", call.input(1)), -1)]


@rule("OneHot")
def one_hot(call: Call) -> Results:
    return call.node("OneHot", call.x, call.reshaped(call.input(1), 1), call.constant([0, 1], np.float32), axis=-1)


@rule("Bucketize")
def bucketize(call: Call) -> Results:
    """The number of boundaries below each element."""
    boundaries = call.constant(call.op.get_floats("boundaries"), np.float32)
    above = call.node("Less", boundaries, call.node("Unsqueeze", call.x, call.ints(-1)))
    return call.node("ReduceSum", call.node("Cast", above, to=np.dtype(np.int32)), call.ints(-1), keepdims=0)


@rule("Range")
def range_(call: Call) -> Results:
    bounds = [call.reshaped(name, *[]) for name in call.inputs]
    zero, one = call.constant(0, call.dtype()), call.constant(1, call.dtype())
    start, stop, step = [(zero, *bounds, one), (*bounds, one), bounds][len(bounds) - 1]
    if call.dtype().kind in "iu" and len(bounds) == 3:
        raise ExportError("ONNX rounds integer steps differently")
    return call.node("Range", start, stop, step)


@rule("ConstantFill")
def constant_fill(call: Call) -> Results:
    """The shape is that of the input, or the input's content. Without an input it is a constant."""
    op = call.op
    if not call.has(0):
        raise ExportError("its shape is not given")
    shape = call.x if op.get_bool("input_as_shape") else call.node("Shape", call.x)
    if op.has("extra_shape"):
        shape = call.node("Concat", shape, call.ints(*op.get_ints("extra_shape")), axis=0)
    if call.has(1):
        return call.node("Expand", call.reshaped(call.input(1), 1), shape)
    alone = op.replace(input=()).with_args(shape=[1], extra_shape=None, input_as_shape=None)
    return call.node("Expand", call.constant(lookup(alone).evaluate(alone, [])[0]), shape)


@rule("caffe.Embed")
def embed(call: Call) -> Results:
    rows = call.node("Gather", call.input(1), call.node("Cast", call.x, to=np.dtype(np.int64)), axis=0)
    return call.node("Add", rows, call.input(2)) if call.has(2) else rows


@rule("caffe.BatchReindex")
def batch_reindex(call: Call) -> Results:
    return call.node("Gather", call.x, call.node("Cast", call.input(1), to=np.dtype(np.int64)), axis=0)


@rule("caffe.Filter")
def filter_(call: Call) -> Results:
    """The items whose selector is not 0."""
    selector = call.reshaped(call.input(1), -1)
    return call.node("Compress", call.x, call.node("Cast", selector, to=np.dtype(np.bool_)), axis=0)


@rule("tflite.DynamicUpdateSlice")
def dynamic_update_slice(call: Call) -> Results:
    """The update placed in zeros of X's shape, and ones in the same place that mark where it counts."""
    update, start = call.input(1), call.node("Cast", call.input(2), to=np.dtype(np.int64))
    room = call.node("Sub", call.node("Shape", call.x), call.node("Shape", update))
    head = call.node("Max", call.node("Min", start, room), call.constant(0, np.int64))
    pads = call.node("Concat", head, call.node("Sub", room, head), axis=0)
    ones = call.node("Expand", call.constant(1, np.int32), call.node("Shape", update))
    counts = call.node("Cast", call.node("Pad", ones, pads), to=np.dtype(np.bool_))
    return call.node("Where", counts, call.node("Pad", update, pads), call.x)
