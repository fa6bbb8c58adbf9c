"""Weights that are stored in fewer bits than they are computed with."""

from __future__ import annotations

from typing import Any

import numpy as np

from exporter.tflite.node import Node
from exporter.tflite.reader import Quantization
from exporter.tflite.rules import rule
from runtime_arm.errors import ExportError
from runtime_arm.netdef import Array
from runtime_arm.netdef.dtypes import FLOAT


@rule("DEQUANTIZE")
def dequantize(node: Node) -> None:
    """Constants become floats during the export; computed float16 values are cast."""
    value = node.value(0)
    if value is not None:
        node.alias(0, node.constant(f"{node.tensor(0).name}_float", as_floats(value, node.quantization(0))))
    elif node.dtype(0) == np.float16:
        first, inputs = node.elementwise()
        node.add("Cast", inputs, [node.output(0, first)], domain="onnx", to=FLOAT)
    else:
        raise ExportError(f"tensor {node.tensor(0).name!r} has no scale")


def as_floats(value: Array, quantization: Any) -> Array:
    """The real values of a constant."""
    if quantization is None:
        if value.dtype.kind != "f":
            raise ExportError("integers without a scale have no real values")
        return value.astype(np.float32)
    scale, zero_point = along_axis(quantization, value.ndim)
    floats: Array = ((value.astype(np.float64) - zero_point) * scale).astype(np.float32)
    return floats


def along_axis(quantization: Quantization, ndim: int) -> Any:
    """Scale and zero point in a shape that broadcasts against a tensor of this rank."""
    if not quantization.per_channel:
        return quantization.scale[0], quantization.zero_point[0]
    shape = [1] * ndim
    shape[quantization.axis] = quantization.scale.size
    return quantization.scale.reshape(shape), quantization.zero_point.reshape(shape)


@rule("DENSIFY")
def densify(node: Node) -> None:
    """Sparse weights are expanded when they are read."""
    node.alias(0, node.input(0))
