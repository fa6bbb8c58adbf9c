"""Convolutions, and the windows that pools have too."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

from exporter.common.padding import open_same_pads, same_pads
from exporter.onnx.node import Node, Operators
from exporter.onnx.rules import rule
from runtime_arm.errors import ExportError


def window(node: Node, kernel: Sequence[int]) -> Optional[Dict[str, Any]]:
    """Caffe2's arguments for a window of this kernel: kernels, strides, dilations, pads or legacy_pad.

    None if the padding depends on unknown sizes and Caffe2 has no argument for it.
    """
    count = len(kernel)
    strides = _list(node, "strides", [1] * count)
    arguments: Dict[str, Any] = {"kernels": list(kernel), "strides": strides}
    dilations = _list(node, "dilations", [1] * count)
    if set(dilations) != {1}:
        arguments["dilations"] = dilations
    mode = node.get_str("auto_pad", "NOTSET")
    if mode in ("NOTSET", "VALID", ""):
        pads = _list(node, "pads", [0] * 2 * count) if mode != "VALID" else [0] * 2 * count
        return {**arguments, "pads": pads}
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        raise ExportError(f"auto_pad {mode!r} does not exist")
    dims = node.dims(0)
    if dims is not None and len(dims) == count + 2 and all(n is not None for n in dims[2:]):
        sizes = [n for n in dims[2:] if n is not None]
        return {**arguments, "pads": same_pads(sizes, kernel, strides, dilations, mode == "SAME_LOWER")}
    if mode == "SAME_UPPER" and set(dilations) == {1}:
        padding = open_same_pads(kernel, strides)
        return None if padding is None else {**arguments, **padding}
    return None


def _list(node: Node, name: str, default: List[int]) -> List[int]:
    values = node.get_ints(name, default)
    if len(values) != len(default):
        raise ExportError(f"attribute {name!r} must have {len(default)} values, it has {len(values)}")
    if any(value < (0 if name == "pads" else 1) for value in values):
        raise ExportError(f"attribute {name!r}: {values} is out of range")
    return values


def kernel_of(node: Node) -> Optional[List[int]]:
    """The kernel's size: the attribute, or the last dimensions of the weights (input 1) if they are known."""
    dims = node.dims(1)
    if "kernel_shape" in node.attributes:
        return node.get_ints("kernel_shape")
    if dims is None or len(dims) < 3 or None in dims[2:]:
        return None
    return [n for n in dims[2:] if n is not None]


@rule("Conv")
def conv(node: Node) -> Operators:
    kernel = kernel_of(node)
    arguments = None if kernel is None else window(node, kernel)
    return [node.as_onnx() if arguments is None else node.to("Conv", **arguments, group=_group(node))]


@rule("ConvTranspose")
def conv_transpose(node: Node) -> Operators:
    """Caffe2's ConvTranspose is 2-D, without dilation, and its padding determines the output size."""
    kernel = kernel_of(node)
    beyond = "output_shape" in node.attributes or node.get_str("auto_pad", "NOTSET") not in ("NOTSET", "VALID")
    if kernel is None or len(kernel) != 2 or set(node.get_ints("dilations", [1])) != {1} or beyond:
        return [node.as_onnx()]
    arguments = window(node, kernel)
    adjs = node.get_ints("output_padding", [0, 0])
    return [node.to("ConvTranspose", **arguments or {}, adjs=adjs if any(adjs) else None, group=_group(node))]


def _group(node: Node) -> Optional[int]:
    group = node.get_int("group", 1)
    return group if group != 1 else None
