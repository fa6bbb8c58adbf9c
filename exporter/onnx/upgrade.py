"""Converts nodes of older opsets to the newest form: attributes that became inputs, operators that were renamed."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from exporter.onnx.node import Node
from exporter.onnx.schema import DATA_TYPES
from runtime_arm.errors import ExportError

Upgrade = Callable[[Node], Node]
_UPGRADES: Dict[str, List[Tuple[int, Upgrade]]] = {}
_REDUCTIONS = (
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSumSquare",
)


def upgraded(node: Node) -> Node:
    """The node in the form of the newest opset; ``version`` is still the opset that it came from."""
    if node.domain:
        return node
    done = set()
    while node.type not in done:  # a renamed node still has the upgrades of its new name ahead of it
        done.add(node.type)
        for before, upgrade in _UPGRADES.get(node.type, ()):
            if node.version < before:
                node = upgrade(node)
    return node


def _upgrade(before: int, *types: str) -> Callable[[Upgrade], Upgrade]:
    def register(function: Upgrade) -> Upgrade:
        for type in types:
            _UPGRADES.setdefault(type, []).append((before, function))
            _UPGRADES[type].sort(key=lambda entry: entry[0])
        return function

    return register


def _with_inputs(node: Node, first: int, attributes: Sequence[str], values: Sequence[Optional[Any]]) -> Node:
    """Move attributes to inputs from index ``first`` on; an absent attribute becomes a missing input."""
    names = [node.constant(name, value) if value is not None else "" for name, value in zip(attributes, values)]
    kept = (*node.inputs[:first], *[""] * (first - len(node.inputs)))
    return node.replace(inputs=(*kept, *names), attributes=node.without(*attributes))


def _ints(node: Node, name: str) -> Optional[np.ndarray[Any, Any]]:
    return np.array(node.get_ints(name), np.int64) if name in node.attributes else None


@_upgrade(4, "Concat")
def _concat(node: Node) -> Node:
    return node.replace(attributes={"axis": 1, **node.attributes})


@_upgrade(5, "Reshape")
def _reshape(node: Node) -> Node:
    return _with_inputs(node, 1, ("shape",), [_ints(node, "shape")])


@_upgrade(6, "Cast")
def _cast(node: Node) -> Node:
    name = node.get_str("to")
    return node.replace(attributes={"to": DATA_TYPES.index(name) if name in DATA_TYPES else 0})


@_upgrade(7, "Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor")
def _legacy_broadcast(node: Node) -> Node:
    """``broadcast`` aligns the second input at ``axis``, or at the end; the newest form cannot say so."""
    if node.get_int("broadcast", 0):
        return node.replace(type=f"Legacy{node.type}")
    return node.replace(attributes=node.without("broadcast", "axis"))


@_upgrade(7, "PRelu")
def _slope_of_channels(node: Node) -> Node:
    return node.replace(type="ChannelwisePRelu")


@_upgrade(11, "Clip")
def _clip(node: Node) -> Node:
    dtype = node.dtype_of_input(0) or np.dtype(np.float32)
    bounds = [np.array(node.get_float(name), dtype) if name in node.attributes else None for name in ("min", "max")]
    return _with_inputs(node, 1, ("min", "max"), bounds)


@_upgrade(10, "Slice")
def _slice(node: Node) -> Node:
    names = ("starts", "ends", "axes")
    return _with_inputs(node, 1, names, [_ints(node, name) for name in names])


@_upgrade(13, "Squeeze", "Unsqueeze", "ReduceSum")
@_upgrade(18, *_REDUCTIONS)
def _axes(node: Node) -> Node:
    return _with_inputs(node, 1, ("axes",), [_ints(node, "axes")])


@_upgrade(13, "Split")
def _split(node: Node) -> Node:
    return _with_inputs(node, 1, ("split",), [_ints(node, "split")])


@_upgrade(18, "Split")
def _split_count(node: Node) -> Node:
    return node if node.has(1) else node.replace(attributes={**node.attributes, "num_outputs": len(node.outputs)})


@_upgrade(2, "Pad")
def _paddings(node: Node) -> Node:
    return node.replace(attributes={**node.without("paddings"), "pads": node.get_ints("paddings")})


@_upgrade(11, "Pad")
def _pad(node: Node) -> Node:
    dtype = node.dtype_of_input(0) or np.dtype(np.float32)
    value = np.array(node.get_float("value", 0.0), dtype)
    return _with_inputs(node, 1, ("pads", "value"), [_ints(node, "pads"), value])


@_upgrade(12, "Dropout")
def _dropout(node: Node) -> Node:
    return _with_inputs(node, 1, ("ratio",), [np.array(node.get_float("ratio", 0.5), np.float32)])


@_upgrade(10, "TopK")
def _top_k(node: Node) -> Node:
    return _with_inputs(node, 1, ("k",), [np.array([node.get_int("k")], np.int64)])


@_upgrade(7, "Upsample")
def _upsample_sides(node: Node) -> Node:
    scales = [1.0, 1.0, node.get_float("height_scale"), node.get_float("width_scale")]
    return node.replace(attributes={**node.without("height_scale", "width_scale"), "scales": scales})


@_upgrade(9, "Upsample")
def _upsample_scales(node: Node) -> Node:
    scales = node.attributes.get("scales")
    return _with_inputs(node, 1, ("scales",), [np.array(scales, np.float32)])


@_upgrade(99, "Upsample")
@_upgrade(11, "Resize")
def _resize_by_scales(node: Node) -> Node:
    """Scales only. Pixels lie at their corners; the nearest is the previous pixel, or the next if a picture shrinks."""
    scales = node.value(1)
    shrinks = node.type == "Resize" and scales is not None and bool((scales < 1).any())
    attributes = {
        "mode": node.get_str("mode", "nearest"),
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": "ceil" if shrinks else "floor",
    }
    return node.replace(type="Resize", inputs=(node.input(0), "", node.input(1)), attributes=attributes, version=11)


@_upgrade(99, "Resize")
def _resize_empty_inputs(node: Node) -> Node:
    """An empty tensor as an input means that the input is left out."""

    def kept(index: int) -> str:
        value = node.value(index)
        return "" if not node.has(index) or (value is not None and not value.size) else node.inputs[index]

    return node.replace(inputs=(node.input(0), *(kept(index) for index in range(1, len(node.inputs)))))


@_upgrade(99, "Scatter")
def _scatter(node: Node) -> Node:
    return node.replace(type="ScatterElements")


@_upgrade(9, "BatchNormalization")
def _batch_normalization(node: Node) -> Node:
    if node.get_int("spatial", 1) != 1:
        raise ExportError("spatial=0 is not supported")
    return node.replace(attributes=node.without("spatial", "is_test"))


@_upgrade(14, "BatchNormalization")
def _batch_normalization_mode(node: Node) -> Node:
    """Training mode if more outputs than Y are wanted; outputs 3 and 4, saved for the backward pass, are dropped."""
    training = len([name for name in node.outputs if name]) > 1
    return node.replace(outputs=node.outputs[:3], attributes={**node.attributes, "training_mode": int(training)})


@_upgrade(16, "RoiAlign")
def _roi_align(node: Node) -> Node:
    return node.replace(attributes={**node.attributes, "coordinate_transformation_mode": "output_half_pixel"})


@_upgrade(20, "GridSample")
def _grid_sample(node: Node) -> Node:
    mode, renamed = node.get_str("mode", "bilinear"), {"bilinear": "linear", "bicubic": "cubic"}
    return node.replace(attributes={**node.attributes, "mode": renamed.get(mode, mode)})


@_upgrade(20, "DFT")
def _dft(node: Node) -> Node:
    return _with_inputs(node, 2, ("axis",), [np.array(node.get_int("axis", 1), np.int64)])


@_upgrade(21, "GroupNormalization")
def _group_normalization(node: Node) -> Node:
    """Repeats the scale and bias of each group for its channels; if they are unknown, ONNX's function does it."""
    dims, groups = node.dims(0), node.get_int("num_groups")
    scale, bias = node.value(1), node.value(2)
    if dims is None or len(dims) < 2 or dims[1] is None or scale is None or bias is None or groups < 1:
        return node.replace(type="GroupwiseNormalization")
    repeated = [np.repeat(value, dims[1] // groups) for value in (scale, bias)]
    names = [node.constant(stem, value) for stem, value in zip(("scale", "bias"), repeated)]
    return node.replace(inputs=(node.input(0), *names))


@_upgrade(13, "Softmax", "LogSoftmax", "Hardmax")
def _flattening_softmax(node: Node) -> Node:
    """Softmax over the rows of the input flattened at ``axis``; the newest form cannot say so."""
    return node.replace(type=f"Flattening{node.type}")


@_upgrade(9, "Scan")
def _scan(node: Node) -> Node:
    """The first form has a batch dimension, and an input for the lengths of sequences."""
    if node.has(0):
        raise ExportError("Scan of opset 8 with lengths of sequences is not supported")
    return node.replace(type="BatchedScan", inputs=node.inputs[1:])
