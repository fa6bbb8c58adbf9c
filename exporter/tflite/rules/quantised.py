"""Scales, zero points and activations as arguments, for the translations of quantised operators."""

from __future__ import annotations

from typing import Any, Dict

from exporter.tflite.node import Node
from exporter.tflite.rules.convolution import SAME, VALID, positive
from runtime_arm.errors import ExportError

DOMAIN = "tflite"
_ACTIVATIONS = {0: None, 1: "RELU", 2: "RELU_N1_TO_1", 3: "RELU6"}


def of_input(node: Node, index: int, what: str = "X") -> Dict[str, Any]:
    """Scale and zero point of an input as arguments of the operand ``what``."""
    return _arguments(what, *node.scale(index))


def of_output(node: Node, index: int = 0) -> Dict[str, Any]:
    """Scale and zero point of an output."""
    return _arguments("Y", *node.result_scale(index))


def _arguments(what: str, scale: float, zero_point: int) -> Dict[str, Any]:
    return {f"{what}_scale": scale, f"{what}_zero_point": zero_point}


def activation(node: Node) -> Dict[str, Any]:
    """The fused activation; it limits the integers of the output."""
    number = int(node.option("fused_activation_function"))
    if number not in _ACTIVATIONS:
        raise ExportError(f"the fused activation {number} is not supported on quantised tensors")
    return {"activation": _ACTIVATIONS[number]}


def window(node: Node) -> Dict[str, Any]:
    """Strides and padding of a window over a picture, under ONNX's names."""
    padding = node.option("padding")
    if padding not in (SAME, VALID):
        raise ExportError(f"padding {padding} is neither SAME nor VALID")
    strides = [positive(node, "stride_h"), positive(node, "stride_w")]
    return {"strides": strides, "auto_pad": "SAME_UPPER" if padding == SAME else "VALID"}
