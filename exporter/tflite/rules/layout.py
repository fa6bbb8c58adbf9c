"""Reshaping, joining and reordering tensors of any type: elements are only moved."""

from __future__ import annotations

from typing import List, Optional, Tuple

import numpy as np

from exporter.tflite.node import Node
from exporter.tflite.rules import rule
from runtime_arm.errors import ExportError
from runtime_arm.netdef import Array
from runtime_arm.netdef.dtypes import INT32, INT64


def integers(node: Node, index: int) -> str:
    """The blob of an input of indices, sizes or counts, as int64."""
    value = node.value(index)
    if value is not None:
        return node.constant(f"{node.tensor(index).name}_int64", value.astype(np.int64))
    if node.dtype(index) == np.int64:
        return node.input(index)
    wide = node.between("int64")
    node.add("Cast", [node.input(index)], [wide], domain="onnx", to=INT64)
    return wide


@rule("RESHAPE", any_type=True)
def reshape(node: Node) -> None:
    """A 0 in the shape is an empty dimension; the shape is an input or, in old files, an option."""
    shape = node.constant_integers(1) if node.has(1) else node.option_integers("new_shape")
    if shape is None and not node.has(1):
        raise ExportError("the new shape is not given")
    if shape is None or 0 in shape:
        sizes = integers(node, 1) if shape is None else node.constant("shape", np.array(shape, np.int64))
        node.add("Reshape", [node.input(0), sizes], [node.output()], domain="onnx", allowzero=1)
        return ranked_by_length(node, 1)
    reshaped(node, shape)


def ranked_by_length(node: Node, index: int) -> None:
    """The output has as many dimensions as an input of sizes has elements, if that number is known."""
    length = node.dims(index)
    if length is not None and len(length) == 1 and length[0] is not None:
        node.ranked(length[0])


def reshaped(node: Node, shape: List[int]) -> None:
    """Input 0 in another shape, which may contain one -1."""
    node.add("Reshape", [node.input(0)], [node.output(), node.between("old_shape")], shape=shape)


@rule("SQUEEZE", any_type=True, complex=True)
def squeeze(node: Node) -> None:
    """Drops the dimensions that are given; without them all that are 1, which an open size may be at one run."""
    dims, given = node.dims(0), node.option_integers("squeeze_dims") or []
    if given:
        axes = sorted({node.axis(axis, False, node.known_rank(0)) for axis in given})
    elif dims is None or None in dims:
        return node.add("Squeeze", [node.input(0)], [node.output()], domain="onnx")
    else:
        axes = [axis for axis, n in enumerate(dims) if n == 1]
    if not axes:
        return node.alias(0, node.input(0))
    first = node.is_channels_first(0)
    if first and dims is not None and set(range(1, len(dims) - 1)) <= set(axes):  # (N, C) is left in either layout
        axes = [node.axis(axis, True, len(dims)) for axis in axes]
        return node.add("Squeeze", [node.input(0, True)], [node.output()], dims=sorted(axes))
    node.add("Squeeze", [node.input(0)], [node.output()], dims=axes)


@rule("EXPAND_DIMS", any_type=True, complex=True)
def expand_dims(node: Node) -> None:
    axis = only_integer(node.constant_integers(1), "the axis")
    at = node.axis(axis, False, node.known_rank(0) + 1)
    node.add("ExpandDims", [node.input(0)], [node.output()], dims=[at])


@rule("TRANSPOSE", any_type=True)
def transpose(node: Node) -> None:
    axes = node.constant_integers(1)
    if axes is None:
        raise ExportError("the permutation must be constant")
    rank = len(axes)
    node.add("Transpose", [node.input(0)], [node.output()], axes=[node.axis(axis, False, rank) for axis in axes])


@rule("CONCATENATION")
def concatenation(node: Node) -> None:
    joined(node)


def joined(node: Node) -> None:
    """The inputs concatenated along the node's axis, and its fused activation."""
    first, inputs = _alike(node)
    axis = node.axis(node.option("axis"), first, node.known_rank(0))
    with node.activated(first) as output:
        node.add("Concat", inputs, [output, node.between("lengths")], axis=axis)


def _alike(node: Node) -> Tuple[bool, List[str]]:
    """All inputs in the same layout; True: channels first."""
    ranks = {node.rank(index) for index in range(node.input_count)}
    first = any(node.is_channels_first(index) for index in range(node.input_count)) and len(ranks) == 1
    return first, node.inputs(first)


@rule("PACK", any_type=True)
def pack(node: Node) -> None:
    """The inputs stacked along a new dimension."""
    axis = node.axis(node.option("axis"), False, node.known_rank(0) + 1)
    node.add("Concat", node.inputs(), [node.output(), node.between("lengths")], axis=axis, add_axis=1)


@rule("UNPACK", any_type=True)
def unpack(node: Node) -> None:
    """One output for each element of a dimension, without that dimension."""
    axis, rank = node.option("axis"), node.known_rank(0)
    outputs = [node.output(index) for index in range(node.output_count)]
    node.add("Split", [node.input(0)], outputs, axis=node.axis(axis, False, rank), add_axis=1)


@rule("PAD")
def pad(node: Node) -> None:
    padded(node, node.constant("zero", np.zeros((), node.dtype(0))))


@rule("PADV2")
def pad_v2(node: Node) -> None:
    padded(node, node.input(2))


def padded(node: Node, value: str) -> None:
    """Input 0 padded with the constant in the one-element blob ``value``."""
    first = node.is_channels_first(0)
    node.add(
        "Pad",
        [node.input(0, first), _pads(node, first), _scalar(node, value)],
        [node.output(0, first)],
        domain="onnx",
        mode="constant",
    )


def _scalar(node: Node, blob: str) -> str:
    dims = node.net.dims(blob)
    if dims is None or len(dims) == 0:
        return blob
    flat = node.between("value")
    node.add("Reshape", [blob], [flat, node.between("old_shape")], shape=[])
    return flat


@rule("MIRROR_PAD", any_type=True)
def mirror_pad(node: Node) -> None:
    """Mode REFLECT leaves out the border, SYMMETRIC repeats it."""
    first = node.is_channels_first(0)
    if node.option("mode") == 0:
        return node.add(
            "Pad", [node.input(0, first), _pads(node, first)], [node.output(0, first)], domain="onnx", mode="reflect"
        )
    pads = node.constant_integers(1)
    if pads is None:
        raise ExportError("symmetric padding must be constant")
    blob, whole = node.input(0), _pairs(pads)
    cut = [(axis, before, after) for axis, (before, after) in enumerate(whole) if before or after]
    if min(pads, default=0) < 0 or len(whole) != node.known_rank(0):
        raise ExportError(f"paddings must be one pair per dimension, none of them negative, they are {pads}")
    for axis, before, after in cut:
        ends = [_backwards(node, blob, axis, before - 1, None)] if before else []
        ends += [blob] + ([_backwards(node, blob, axis, -1, -after - 1)] if after else [])
        blob = node.between("mirrored")
        node.add("Concat", ends, [blob, node.between("lengths")], axis=axis)
    node.alias(0, blob)


def _backwards(node: Node, blob: str, axis: int, start: int, end: Optional[int]) -> str:
    """The elements along a dimension from ``start`` down to ``end``, exclusive, or down to the first."""
    part = node.between("part")
    rows = {"starts": start, "ends": np.iinfo(np.int64).min if end is None else end, "axes": axis, "steps": -1}
    names = [node.constant(stem, np.array([number], np.int64)) for stem, number in rows.items()]
    node.add("Slice", [blob, *names], [part], domain="onnx")
    return part


def _pairs(pads: List[int]) -> List[List[int]]:
    return [pads[index : index + 2] for index in range(0, len(pads), 2)]


def _pads(node: Node, first: bool) -> str:
    """TFLite's pairs as ONNX's pads: heads, then tails."""
    value, rank = node.value(1), node.rank(0)
    if value is not None:
        if value.ndim != 2 or value.shape[1] != 2 or (rank is not None and value.shape[0] != rank):
            raise ExportError(f"paddings must be one pair per dimension, their shape is {value.shape}")
        if value.size and value.min() < 0:
            raise ExportError(f"paddings must not be negative, they are {value.tolist()}")
        rows = np.concatenate([value[:1], value[-1:], value[1:-1]]) if first else value
        return node.constant("pads", np.ascontiguousarray(rows.T).reshape(-1).astype(np.int64))
    if first:
        raise ExportError("paddings must be constant")
    turned, flat = node.between("pads_turned"), node.between("pads")
    node.add("Transpose", [integers(node, 1)], [turned], axes=[1, 0])
    node.add("Reshape", [turned], [flat, node.between("old_shape")], shape=[-1])
    return flat


@rule("TILE", any_type=True)
def tile(node: Node) -> None:
    node.add("Tile", [node.input(0), integers(node, 1)], [node.output()], domain="onnx")


@rule("BROADCAST_TO", any_type=True)
def broadcast_to(node: Node) -> None:
    node.add("Expand", [node.input(0), integers(node, 1)], [node.output()], domain="onnx")


@rule("SHAPE", any_type=True)
def shape(node: Node) -> None:
    dims = node.dims(0)
    dtype = node.result_dtype()
    if dims is not None and None not in dims:
        return define(node, np.array(dims, dtype))
    wide = node.between("int64")
    node.add("Shape", [node.input(0)], [wide])
    node.add("Cast", [wide], [node.output()], domain="onnx", to=INT64 if dtype == np.int64 else INT32)
    node.ranked(1)


@rule("RANK", any_type=True, complex=True)
def rank(node: Node) -> None:
    define(node, np.array(node.known_rank(0), np.int32))


def define(node: Node, value: Array, index: int = 0) -> None:
    """Make an output this constant."""
    node.alias(index, node.constant(node.result(index).name, value))


def only_integer(values: Optional[List[int]], what: str) -> int:
    """The one element of a constant."""
    if values is None or len(values) != 1:
        raise ExportError(f"{what} must be one constant number, it is {values}")
    return values[0]
