"""onnxruntime's own operators that can be expressed by ONNX's, by family; ``definitions`` says how one is written."""

from __future__ import annotations

from exporter.onnx.microsoft import activation, adopted, attention, channels_last, normalization, products
from exporter.onnx.microsoft.definitions import DOMAIN, OPSET, Definition, definition

FAMILIES = (activation, adopted, attention, channels_last, normalization, products)

__all__ = ["DOMAIN", "FAMILIES", "OPSET", "Definition", "definition"]
