"""Convolutions. The runtime's pictures and weights have their channels first: weights are permuted here."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

import numpy as np

from exporter.common.padding import open_same_pads, same_pads
from exporter.tflite.node import Node
from exporter.tflite.rules import rule
from runtime_arm.errors import ExportError

SAME, VALID = 0, 1  # tflite.Padding


def window(node: Node, data: int, kernel: Sequence[int]) -> Dict[str, Any]:
    """Caffe2's arguments for strides, dilations and padding over the spatial dimensions of input ``data``."""
    names = ("d", "h", "w")[-len(kernel) :]
    strides = [positive(node, f"stride_{name}") for name in names]
    dilations = [_dilation(node, name) for name in names]
    arguments: Dict[str, Any] = {"kernels": list(kernel), "strides": strides}
    if set(dilations) != {1}:
        arguments["dilations"] = dilations
    return {**arguments, **padding(node, data, kernel, strides, dilations)}


def positive(node: Node, option: str) -> int:
    """An option that must be at least 1."""
    value = int(node.option(option))
    if value < 1:
        raise ExportError(f"{option} must be at least 1, it is {value}")
    return value


def _dilation(node: Node, name: str) -> int:
    options = node.operation.options
    option = f"dilation_{name}_factor"
    return positive(node, option) if options is not None and options.knows(option) else 1


def padding(
    node: Node, data: int, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> Dict[str, Any]:
    """Caffe2's pads; SAME padding of unknown sizes is Caffe2's legacy_pad."""
    mode, dims = node.option("padding"), node.dims(data)
    if mode not in (SAME, VALID):
        raise ExportError(f"padding {mode} is neither SAME nor VALID")
    if mode == VALID:
        return {}
    sizes = [None] * len(kernel) if dims is None else dims[1:-1]
    if len(sizes) != len(kernel):
        raise ExportError(f"the input must have {len(kernel) + 2} dimensions, its shape is {dims}")
    if None in sizes:
        if set(dilations) != {1}:
            raise ExportError("SAME padding of a dilated window needs sizes that are known")
        arguments = open_same_pads(kernel, strides)
        if arguments is None:
            window = f"the window {list(kernel)} with strides {list(strides)}"
            raise ExportError(f"SAME padding of {window} needs sizes that are known")
        return arguments
    pads = same_pads([n for n in sizes if n is not None], kernel, strides, dilations)
    return {"pads": pads} if any(pads) else {}


def weights(node: Node, index: int, axes: Sequence[int], stem: str = "weights") -> str:
    """The blob of weights with their dimensions permuted."""
    if node.value(index) is None:
        turned = node.between(stem)
        node.add("Transpose", [node.input(index)], [turned], axes=list(axes))
        return turned
    value = node.constant_value(index, stem)
    if value.ndim != len(axes):
        raise ExportError(f"{stem} {node.tensor(index).name!r} must have {len(axes)} dimensions, not {value.ndim}")
    value = value.view(np.int8) if value.dtype == np.uint8 and node.dtype(0).kind == "f" else value
    return node.constant(f"{node.tensor(index).name}_nchw", np.ascontiguousarray(value.transpose(axes)))


def is_hybrid(node: Node, index: int, old: bool = False) -> bool:
    """Whether the weights are 8-bit integers while the blobs are floats; old: those that old files call UINT8, too."""
    if node.dtype(index).kind == "f":
        return False
    if node.dtype(index) != np.int8 and not (old and node.dtype(index) == np.uint8):
        raise ExportError(f"weights of type {node.tensor(index).type} cannot be combined with float inputs")
    return True


def signed_weights(node: Node, index: int) -> str:
    """The blob of 8-bit weights for floats. LiteRT's kernels read the bytes of UINT8 as int8, and so does this."""
    if node.dtype(index) == np.int8:
        return node.input(index)
    value = node.constant_value(index, "8-bit weights")
    return node.constant(f"{node.tensor(index).name}_int8", value.view(np.int8))


def weight_scales(node: Node, index: int) -> List[float]:
    """The scales of 8-bit weights for floats: one, or one per filter, of any sign; there are no zero points."""
    quantization = node.quantization(index)
    if quantization is None:
        raise ExportError(f"the weights {node.tensor(index).name!r} have no scale")
    if quantization.zero_point.any():
        raise ExportError(f"the weights {node.tensor(index).name!r} must have the zero point 0")
    return [float(scale) for scale in quantization.scale]


def only_scale(node: Node, index: int) -> float:
    """The scale of 8-bit weights, of any sign."""
    scales = weight_scales(node, index)
    if len(scales) != 1:
        raise ExportError(f"tensor {node.tensor(index).name!r} must have one scale")
    return scales[0]


def bias(node: Node, index: int) -> List[str]:
    """The bias, if there is one, as further inputs."""
    return [node.input(index)] if node.has(index) else []


def _channels(node: Node) -> int:
    dims = node.dims(0)
    if dims is None or len(dims) < 3 or dims[-1] is None:
        raise ExportError(f"the channels of {node.tensor(0).name!r} must be known")
    return dims[-1]


@rule("CONV_2D")
def conv_2d(node: Node) -> None:
    """Filters: (M, kh, kw, C / groups)."""
    filters = node.known_dims(1)
    if len(filters) != 4 or filters[3] < 1 or _channels(node) % filters[3]:
        raise ExportError(f"filters of shape {filters} do not fit {_channels(node)} channels")
    _convolve(node, [0, 3, 1, 2], filters[1:3], _channels(node) // filters[3])


@rule("DEPTHWISE_CONV_2D")
def depthwise_conv_2d(node: Node) -> None:
    """Filters: (1, kh, kw, C * multiplier); each channel has ``multiplier`` filters, one after another."""
    filters, channels = node.known_dims(1), _channels(node)
    if len(filters) != 4 or filters[0] != 1 or channels < 1 or filters[3] % channels:
        raise ExportError(f"filters of shape {filters} do not fit {channels} channels")
    _convolve(node, [3, 0, 1, 2], filters[1:3], channels)


@rule("CONV_3D")
def conv_3d(node: Node) -> None:
    """Filters: (kd, kh, kw, C, M)."""
    filters = node.known_dims(1)
    if len(filters) != 5 or filters[3] < 1 or _channels(node) % filters[3]:
        raise ExportError(f"filters of shape {filters} do not fit {_channels(node)} channels")
    _convolve(node, [4, 3, 0, 1, 2], filters[:3], _channels(node) // filters[3])


def _convolve(node: Node, axes: Sequence[int], kernel: Sequence[int], group: int) -> None:
    hybrid = is_hybrid(node, 1, old=node.type == "CONV_2D")
    type = "Conv" if not hybrid else "HybridDepthwiseConv" if node.type == "DEPTHWISE_CONV_2D" else "HybridConv"
    more: Dict[str, Any] = {"domain": "tflite"} if hybrid else {}
    if hybrid:
        more["W_scales"] = weight_scales(node, 1) if node.dtype(1) == np.int8 else [only_scale(node, 1)]
    inputs = [node.input(0, channels_first=True), weights(node, 1, axes), *bias(node, 2)]
    with node.activated(channels_first=True) as output:
        node.add(type, inputs, [output], **window(node, 0, kernel), group=group if group != 1 else None, **more)
