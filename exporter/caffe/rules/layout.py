"""Joining, cutting, reshaping and reordering blobs; constants."""

from __future__ import annotations

import math
from typing import Any, List, Sequence

import numpy as np

from exporter.caffe.layer import Layer
from exporter.caffe.rules import rule
from runtime_arm.machine.memory import require_memory

_END = np.iinfo(np.int64).max


@rule("Concat")
def concat(layer: Layer) -> None:
    layer.counts(max(1, len(layer.bottoms)))
    param = layer.param("concat_param")
    layer.require(not (param.HasField("axis") and param.HasField("concat_dim")), "has both axis and concat_dim")
    axis = layer.axis(param.concat_dim if param.HasField("concat_dim") else param.axis)
    layer.add("Concat", outputs=[layer.tops[0], layer.fresh("sizes")], axis=axis)


@rule("Slice")
def slice_(layer: Layer) -> None:
    """Equal parts, or parts between slice points."""
    param, count = layer.param("slice_param"), len(layer.tops)
    layer.require(count >= 1, "needs a top")
    layer.counts(1, count)
    layer.require(not (param.HasField("axis") and param.HasField("slice_dim")), "has both axis and slice_dim")
    axis = layer.axis(param.slice_dim if param.HasField("slice_dim") else param.axis)
    points, dims = list(param.slice_point), layer.dims()
    if not points:
        size = dims[axis] if dims else None
        layer.require(size is None or size % count == 0, f"{size} does not divide into {count} tops")
        layer.add("Split", axis=axis)
        return
    ends = [*points, dims[axis] if dims and dims[axis] is not None else _END]
    layer.require(len(points) == count - 1, f"has {count} tops and {len(points)} slice points")
    rising = all(a < b for a, b in zip([0, *ends], ends))
    layer.require(rising, f"slice points must ascend within the bottom, got {points}")
    for top, start, end in zip(layer.tops, [0, *points], [*points, _END]):
        bounds = [
            layer.constant(stem, np.array([n], np.int64))
            for stem, n in (("start", start), ("end", end), ("axis", axis))
        ]
        layer.onnx("Slice", [*layer.bottoms, *bounds], [top])


@rule("Split")
def split(layer: Layer) -> None:
    """The same blob several times."""
    layer.counts(1, max(1, len(layer.tops)))
    for top in layer.tops:
        layer.add("Copy", outputs=[top])


@rule("Crop")
def crop(layer: Layer) -> None:
    layer.counts(2)
    param = layer.param("crop_param")
    layer.caffe("Crop", axis=layer.axis(param.axis), offset=list(param.offset) or None)


@rule("Reshape")
def reshape(layer: Layer) -> None:
    layer.counts()
    param = layer.param("reshape_param")
    shape = list(param.shape.dim)
    if param.axis == 0 and param.num_axes == -1 and shape and 0 not in shape[layer.rank() or 0 :]:
        layer.require(min(shape) >= -1 and shape.count(-1) <= 1, f"shape may have one -1, no smaller number: {shape}")
        layer.add("Reshape", outputs=[layer.tops[0], layer.fresh("old_shape")], shape=shape)
    else:
        layer.caffe("Reshape", shape=shape, axis=param.axis, num_axes=param.num_axes)


@rule("Flatten")
def flatten(layer: Layer) -> None:
    layer.counts()
    param, rank = layer.param("flatten_param"), layer.rank()
    if (param.axis, param.end_axis) == (1, -1) and (rank is None or rank >= 2):
        layer.add("Flatten", axis=1)
    else:
        layer.caffe("Flatten", axis=param.axis, end_axis=param.end_axis)


@rule("Tile")
def tile(layer: Layer) -> None:
    layer.counts()
    param = layer.param("tile_param")
    layer.require(param.tiles > 0, f"tiles must be positive, got {param.tiles}")
    layer.add("Tile", tiles=param.tiles, axis=layer.axis(param.axis))


@rule("Permute")
def permute(layer: Layer) -> None:
    """From the SSD fork; dimensions that ``order`` does not name come last."""
    layer.counts()
    order, rank = list(layer.param("permute_param").order), layer.rank()
    layer.require(bool(order), "permute_param.order is required")
    count = max(4 if rank is None else rank, len(order))
    axes = [*order, *(axis for axis in range(count) if axis not in order)]
    layer.require(
        sorted(axes) == list(range(count)) and rank in (None, count),
        f"order {order} is not a permutation of the bottom's {rank} dimensions",
    )
    layer.add("Transpose", axes=axes)


@rule("ShuffleChannel")
def shuffle_channel(layer: Layer) -> None:
    """From ShuffleNet's fork."""
    layer.counts()
    group = layer.param("shuffle_channel_param").group
    layer.require(group >= 1, f"shuffle_channel_param.group must be positive, got {group}")
    layer.add("ChannelShuffle", group=group, kernel=1)


@rule("BatchReindex")
def batch_reindex(layer: Layer) -> None:
    layer.counts(2)
    layer.caffe("BatchReindex")


@rule("Filter")
def filter_(layer: Layer) -> None:
    """The items of all other bottoms that the last bottom selects."""
    count = len(layer.tops)
    layer.require(count >= 1, "needs a top")
    layer.counts(count + 1, count)
    for bottom, top in zip(layer.bottoms, layer.tops):
        layer.caffe("Filter", [bottom, layer.bottoms[-1]], [top])


@rule("Parameter")
def parameter(layer: Layer) -> None:
    """A trained blob as a top."""
    layer.counts(0)
    layer.require_blobs(1)
    layer.net.constant(layer.tops[0], layer.trained(0, list(layer.param("parameter_param").shape.dim)))


@rule("DummyData")
def dummy_data(layer: Layer) -> None:
    """Constant blobs; random fillers are only for training."""
    param, count = layer.param("dummy_data_param"), len(layer.tops)
    layer.counts(0, count)
    shapes = [list(shape.dim) for shape in param.shape] or _legacy_shapes(param)
    fillers = list(param.data_filler)
    layer.require(len(shapes) in (1, count), f"has {count} tops and {len(shapes)} shapes")
    layer.require(len(fillers) in (0, 1, count), f"has {count} tops and {len(fillers)} fillers")
    for index, top in enumerate(layer.tops):
        filler = fillers[index if len(fillers) > 1 else 0] if fillers else None
        layer.require(filler is None or filler.type == "constant", "a random filler has no meaning in inference")
        shape = shapes[index if len(shapes) > 1 else 0]
        layer.require(all(n >= 0 for n in shape), f"declares a negative dimension: {shape}")
        require_memory(math.prod(shape) * 4, f"top {top!r} of shape {shape}")
        layer.net.constant(top, np.full(shape, filler.value if filler else 0, np.float32))


def _legacy_shapes(param: Any) -> Sequence[List[int]]:
    return [list(dims) for dims in zip(param.num, param.channels, param.height, param.width)]
