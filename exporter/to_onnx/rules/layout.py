"""Reshaping, reordering, joining and cutting blobs."""

from __future__ import annotations

from typing import List, Optional

import numpy as np

from exporter.to_onnx.rules import Call, Results, rule
from runtime_arm.errors import ExportError
from runtime_arm.operators.common.windows import caffe2_list, channels_last

END = np.iinfo(np.int64).max  # behind the last element, for any size


@rule("Alias", "Copy", "CopyCPUToCPU", "CopyFromCPUInput", "EnsureCPUOutput", "EnsureDense", "NanCheck", "StopGradient")
def nothing(call: Call) -> Results:
    """The identity. NanCheck can stop a run of Caffe2 but changes no number."""
    return call.x


@rule("Dropout")
def dropout(call: Call) -> Results:
    """The identity in inference, with a mask of ones."""
    if not call.op.get_bool("is_test"):
        raise ExportError("without is_test, Dropout drops elements at random")
    if not call.wants(1):
        return call.x
    filled = call.node("ConstantOfShape", call.node("Shape", call.x), value=np.ones(1, np.bool_))
    return [call.x, filled]


# Views


@rule("Reshape")
def reshape(call: Call) -> Results:
    """The second output is the old shape."""
    if not call.has(1):
        y, old = call.reshaped(call.x, *call.op.get_ints("shape")), np.dtype(np.int64)
    else:
        y, old = call.node("Reshape", call.x, _as_int64(call, 1)), call.dtype(1)
    if not call.wants(1):
        return y
    return [y, call.node("Cast", call.node("Shape", call.x), to=old)]


def _as_int64(call: Call, index: int) -> str:
    """Numbers as int64, ONNX's type for shapes and lengths."""
    name = call.input(index)
    return name if call.dtype(index) == np.int64 else call.node("Cast", name, to=np.dtype(np.int64))


@rule("ResizeLike")
def resize_like(call: Call) -> Results:
    return call.node("Reshape", call.x, call.node("Shape", call.input(1)))


@rule("Flatten")
def flatten(call: Call) -> Results:
    return call.node("Flatten", call.x, axis=call.op.get_int("axis", 1))


@rule("FlattenToVec")
def flatten_to_vector(call: Call) -> Results:
    return call.reshaped(call.x, -1)


@rule("MergeDim")
def merge_dim(call: Call) -> Results:
    return call.node("Reshape", call.x, _joined(call, [call.ints(-1), call.node("Shape", call.x, start=2)]))


@rule("PrependDim")
def prepend_dim(call: Call) -> Results:
    leading = call.ints(call.op.get_int("dim_size"), -1)
    return call.node("Reshape", call.x, _joined(call, [leading, call.node("Shape", call.x, start=1)]))


def _joined(call: Call, parts: List[str]) -> str:
    return call.node("Concat", *parts, axis=0)


@rule("ExpandDims")
def expand_dims(call: Call) -> Results:
    return call.node("Unsqueeze", call.x, call.ints(*sorted(set(call.op.get_ints("dims")))))


@rule("Squeeze")
def squeeze(call: Call) -> Results:
    return call.node("Squeeze", call.x, call.ints(*sorted(set(call.op.get_ints("dims")))))


@rule("caffe.Reshape")
def caffe_reshape(call: Call) -> Results:
    """Replaces ``num_axes`` dimensions from ``axis`` on; a 0 copies the dimension at its place."""
    op, shape = call.op, call.op.get_ints("shape")
    axis, count = op.get_int("axis", 0), op.get_int("num_axes", -1)
    if axis == 0 and count == -1:
        return call.reshaped(call.x, *shape)
    start = axis if axis >= 0 else axis + call.rank() + 1
    middle = [
        call.node("Shape", call.x, start=start + i, end=start + i + 1) if n == 0 else call.ints(n)
        for i, n in enumerate(shape)
    ]
    head = [call.node("Shape", call.x, start=0, end=start)] if start else []
    tail = [call.node("Shape", call.x, start=start + count)] if count != -1 else []
    return call.node("Reshape", call.x, _joined(call, [*head, *middle, *tail]), allowzero=1)


@rule("caffe.Flatten")
def caffe_flatten(call: Call) -> Results:
    rank = call.rank()
    start, end = (call.op.get_int(name, default) for name, default in (("axis", 1), ("end_axis", -1)))
    start, end = (axis + rank if axis < 0 else axis for axis in (start, end))
    if start > end:
        return call.node("Unsqueeze", call.x, call.ints(start))
    tail = [call.node("Shape", call.x, start=end + 1)] if end + 1 < rank else []
    if not tail:
        return call.reshaped(call.x, *[0] * start, -1)
    return call.node("Reshape", call.x, _joined(call, [call.ints(*[0] * start, -1), *tail]))


@rule("caffe.SplitAxis")
def split_axis(call: Call) -> Results:
    leading = call.node("Shape", call.input(1), start=0, end=call.op.get_int("axis"))
    rest = call.node("Shape", call.x, start=1)
    return call.node("Reshape", call.x, _joined(call, [leading, rest]))


# Shapes as blobs


@rule("Shape")
def shape(call: Call) -> Results:
    axes, whole = call.op.get_ints("axes"), call.node("Shape", call.x)
    return call.node("Gather", whole, call.ints(*axes), axis=0) if axes else whole


@rule("Size")
def size(call: Call) -> Results:
    return call.node("Size", call.x)


@rule("IsEmpty")
def is_empty(call: Call) -> Results:
    return call.node("Equal", call.node("Size", call.x), call.constant(0, np.int64))


@rule("HasElements")
def has_elements(call: Call) -> Results:
    total = call.node("Size", call.x)
    for name in call.inputs[1:]:
        total = call.node("Add", total, call.node("Size", name))
    return call.node("Greater", total, call.constant(0, np.int64))


# Order


@rule("Transpose")
def transpose(call: Call) -> Results:
    """Both reverse the dimensions by default."""
    return call.node("Transpose", call.x, perm=list(call.op.get_ints("axes")) or None)


@rule("NCHW2NHWC")
def to_channels_last(call: Call) -> Results:
    return call.channels_last(call.x, call.rank())


@rule("NHWC2NCHW")
def to_channels_first(call: Call) -> Results:
    return call.channels_first(call.x, call.rank())


@rule("ChannelShuffle")
def channel_shuffle(call: Call) -> Results:
    """Splits the channels into (group, each), swaps these two and restores the shape."""
    group, last, rank = call.op.get_int("group", 1), channels_last(call.op), call.rank()
    axis = rank - 1 if last else 1
    if last:
        grouped = call.reshaped(call.x, *[0] * axis, group, -1)
    else:
        grouped = call.node(
            "Reshape",
            call.x,
            _joined(
                call,
                [call.node("Shape", call.x, start=0, end=1), call.ints(group, -1), call.node("Shape", call.x, start=2)],
            ),
        )
    order = list(range(rank + 1))
    order[axis], order[axis + 1] = axis + 1, axis
    return call.node("Reshape", call.transposed(grouped, order), call.node("Shape", call.x))


# Parts


def _join_axis(call: Call) -> int:
    if call.op.has("axis"):
        return call.op.get_int("axis")
    return 3 if channels_last(call.op) else 1


@rule("Concat", "DepthConcat")
def concat(call: Call) -> Results:
    """The second output holds the length of each input."""
    axis, names = _join_axis(call), call.inputs
    stacked = call.op.has("axis") and call.op.get_bool("add_axis")
    if stacked:
        names = [call.node("Unsqueeze", name, call.ints(axis)) for name in names]
    results: List[Optional[str]] = [call.node("Concat", *names, axis=axis), None]
    if call.wants(1):
        lengths = [call.node("Shape", name, start=axis, end=axis + 1 or None) for name in names]
        results[1] = call.node("Cast", call.node("Concat", *lengths, axis=0), to=np.dtype(np.int32))
    return results


@rule("Split", "DepthSplit")
def split(call: Call) -> Results:
    """Parts of given lengths or of equal lengths."""
    axis, count, inputs = _join_axis(call), len(call.op.output), [call.x]
    if call.has(1):
        inputs.append(_as_int64(call, 1))
    elif call.op.get_ints("split"):
        inputs.append(call.ints(*call.op.get_ints("split")))
    parts = call.nodes("Split", inputs, count, axis=axis, num_outputs=count if len(inputs) == 1 else None)
    if call.op.has("axis") and call.op.get_bool("add_axis"):
        return [call.node("Squeeze", part, call.ints(axis)) for part in parts]
    return parts


@rule("Slice")
def slice_(call: Call) -> Results:
    """Negative bounds count from one position after the end: -1 is the end itself."""
    if call.has(1):
        values = [call.value(1), call.value(2)]
        if values[0] is None or values[1] is None:
            raise ExportError("ONNX counts negative bounds differently, so computed bounds are not supported")
        starts, ends = ([int(n) for n in value] for value in values if value is not None)
    else:
        starts, ends = list(call.op.get_ints("starts")), list(call.op.get_ints("ends"))
    cut = [axis for axis, bounds in enumerate(zip(starts, ends)) if bounds != (0, -1)]
    if not cut:
        return call.x
    bounds = [[_bound(numbers[axis]) for axis in cut] for numbers in (starts, ends)]
    return call.node("Slice", call.x, *(call.ints(*numbers) for numbers in bounds), call.ints(*cut))


def _bound(number: int) -> int:
    return number if number >= 0 else END if number == -1 else number + 1


@rule("caffe.Crop")
def crop(call: Call) -> Results:
    """Crops to the size of the second input, from ``axis`` on."""
    rank = call.rank()
    axis = call.op.get_int("axis", 2)
    axis += rank if axis < 0 else 0
    offsets = list(call.op.get_ints("offset")) or [0]
    offsets = offsets * (rank - axis) if len(offsets) == 1 else offsets
    starts = call.ints(*offsets)
    ends = call.node("Add", call.node("Shape", call.input(1), start=axis), starts)
    return call.node("Slice", call.x, starts, ends, call.ints(*range(axis, rank)))


@rule("Tile")
def tile(call: Call) -> Results:
    """Repeats along one dimension."""
    times, axis = call.op.get_int("tiles", 1), call.op.get_int("axis", 0)
    given = [None if not call.has(index) else call.value(index) for index in (1, 2)]
    if any(call.has(index + 1) and value is None for index, value in enumerate(given)):
        raise ExportError("tiles and axis must be constant")
    times, axis = (n if value is None else int(value.reshape(-1)[0]) for n, value in zip((times, axis), given))
    repeats = [1] * call.rank()
    repeats[axis] = times
    return call.node("Tile", call.x, call.ints(*repeats))


@rule("Expand")
def expand(call: Call) -> Results:
    """Sizes below 1 count as 1."""
    return call.node("Expand", call.x, call.node("Max", call.input(1), call.constant(1, np.int64)))


@rule("PadImage")
def pad_image(call: Call) -> Results:
    """Caffe2 also reflects twice, and reflects pixels that negative pads remove; ONNX's runtimes do not."""
    pads = caffe2_list(call.op, "pad", "tlbr") or [0, 0, 0, 0]
    axes = (1, 2) if channels_last(call.op) else (2, 3)
    mode = call.op.get_str("mode", "constant")
    if mode == "reflect":
        for axis, head, tail in zip(axes, pads, pads[2:]):
            n = (call.known_dims() or (None,) * 4)[axis]
            if n is not None and max(head, tail, 0) >= n + min(head, 0) + min(tail, 0):
                raise ExportError(f"pads {pads} reflect further than ONNX allows: less than the pixels that are left")
    value = call.number(call.op.get_float("value", 0.0)) if mode == "constant" else ""
    # pads of all dimensions: onnxruntime moves transpositions past a Pad as if it had no axes
    ends = [size for two in (pads[:2], pads[2:]) for size in ([0, *two, 0] if channels_last(call.op) else [0, 0, *two])]
    return call.node("Pad", call.x, call.ints(*ends), value, mode=mode)


@rule("SpaceToBatch")
def space_to_batch(call: Call) -> Results:
    """Pads, then moves the position in the block to the batch dimension."""
    block, pad, top, image = _block(call)
    height, width = (image[0] + top + pad) // block, (image[1] + 2 * pad) // block
    x = call.node("Pad", call.x, call.ints(0, 0, top, pad, 0, 0, pad, pad))
    channels = call.shape()[1]
    x = call.transposed(call.reshaped(x, -1, channels, height, block, width, block), [3, 5, 0, 1, 2, 4])
    return call.reshaped(x, -1, channels, height, width)


@rule("BatchToSpace")
def batch_to_space(call: Call) -> Results:
    block, pad, top, image = _block(call)
    channels, height, width = call.shape()[1], image[0] * block, image[1] * block
    x = call.transposed(call.reshaped(call.x, block, block, -1, channels, *image), [2, 3, 4, 0, 5, 1])
    x = call.reshaped(x, -1, channels, height, width)
    return call.node("Slice", x, call.ints(top, pad), call.ints(height - pad, width - pad), call.ints(2, 3))


def _block(call: Call) -> tuple[int, int, int, tuple[int, ...]]:
    """block_size, pad, pad_t and the picture's size."""
    pad = call.op.get_int("pad", 0)
    return call.op.get_int("block_size", 2), pad, call.op.get_int("pad_t", pad), call.shape()[2:]
