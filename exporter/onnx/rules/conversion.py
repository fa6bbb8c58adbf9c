"""Conversions between reals and quantised integers, whose scales are checked here: at run time it is late."""

from __future__ import annotations

import numpy as np

from exporter.onnx.node import Node, Operators
from exporter.onnx.rules import rule
from runtime_arm.errors import ExportError


@rule("QuantizeLinear", "DequantizeLinear", "com.microsoft.QuantizeLinear", "com.microsoft.DequantizeLinear")
def conversion(node: Node) -> Operators:
    """ONNX's. ExportError if a constant scale is not positive and finite: the integers then stand for no numbers.

    onnxruntime computes with such scales, in C++ casts of NaN to integers, which differ between processors.
    """
    scale = node.value(1)
    if scale is not None and scale.dtype.kind == "f":
        bad = scale[~(np.isfinite(scale) & (scale > 0))]
        if bad.size:
            finite = "" if np.isfinite(bad[0]) else "; the tensor must be finite, so a mask needs -1e4 instead of -inf"
            raise ExportError(
                f"the scale {node.input(1)!r} must be positive and finite, it is {bad[0]}. "
                f"Quantize the model again{finite}"
            )
    return [node.as_onnx()]
