"""Makes nodes: ``make("LeakyRelu", ["x"], ["y"], alpha=0.1)``."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from exporter.onnx.protos import AttributeProto, NodeProto
from exporter.onnx.schema import ATTRIBUTE_TYPES


def make(type: str, inputs: Sequence[str], outputs: Sequence[str], domain: str = "", **attributes: Any) -> NodeProto:
    """A node, of ONNX's domain unless another is named; attributes that are None are left out."""
    given = tuple(_attribute(name, value) for name, value in attributes.items() if value is not None)
    return NodeProto(tuple(inputs), tuple(outputs), op_type=type, attribute=given, domain=domain)


def _attribute(name: str, value: Any) -> AttributeProto:
    """An attribute that holds an int, a float, a string, or a list of one of these; an empty list is one of ints."""
    if isinstance(value, int):
        return AttributeProto(name, type=ATTRIBUTE_TYPES.index("INT"), i=int(value))
    if isinstance(value, float):
        return AttributeProto(name, type=ATTRIBUTE_TYPES.index("FLOAT"), f=value)
    if isinstance(value, str):
        return AttributeProto(name, type=ATTRIBUTE_TYPES.index("STRING"), s=value.encode())
    items = list(value)
    if all(isinstance(item, int) for item in items):
        return AttributeProto(name, type=ATTRIBUTE_TYPES.index("INTS"), ints=np.array(items, np.int64))
    if all(isinstance(item, (int, float)) for item in items):
        return AttributeProto(name, type=ATTRIBUTE_TYPES.index("FLOATS"), floats=np.array(items, np.float32))
    strings = tuple(item.encode() for item in items)
    return AttributeProto(name, type=ATTRIBUTE_TYPES.index("STRINGS"), strings=strings)
