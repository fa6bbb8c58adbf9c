"""Operators that ONNX itself defines by other operators, as the package onnx knows them, and onnxruntime's."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Iterable, Optional

import numpy as np

from exporter.onnx.functions import Body, body_of
from exporter.onnx.microsoft import OPSET, definition
from exporter.onnx.node import Node
from exporter.onnx.protos import Dimension, NodeProto, TensorShapeProto, TensorType, TypeProto
from exporter.onnx.schema import ATTRIBUTE, FUNCTION, NODE, TYPE
from exporter.onnx.weights import DTYPES
from runtime_arm.netdef.decoder import decode
from runtime_arm.netdef.encoder import encode

_OF_ONE_MACHINE = "com.microsoft.nchwc"
_NUMBERS = {dtype: number for number, dtype in DTYPES.items()}


def function_body(node: Node, proto: NodeProto) -> Optional[Body]:
    """The function that defines the node's operator, or None. Some functions depend on the types of the inputs."""
    composed = definition(node)
    if composed is not None:
        return Body(*composed, {"": OPSET})
    if find_spec("onnx") is None:
        return None
    import onnx.defs

    try:
        schema: Any = onnx.defs.get_schema(node.type, node.version, node.domain)
        if schema.has_function:
            data = schema.get_function_with_opset_version(_version(schema.function_opset_versions, node.version))
        elif schema.has_context_dependent_function:
            version = _version(schema.context_dependent_function_opset_versions, node.version)
            types = [encode(TYPE, _type_of(node, index)) for index in range(len(node.inputs))]
            data = schema.get_context_dependent_function_with_opset_version(version, encode(NODE, proto), types)
        else:
            return None
    except Exception:  # onnx's C++ exceptions have no common base; a function that onnx cannot give does not exist
        return None
    if not data:
        return None
    values = [attribute.default_value for attribute in schema.attributes.values()]
    defaults = [decode(ATTRIBUTE, value.SerializeToString()) for value in values if value.name]
    return body_of(decode(FUNCTION, data), [*defaults, *proto.attribute])


def undefined(node: Node) -> str:
    """What to add to the message that an operator is missing: the package onnx may know how to express it by others."""
    if node.domain == _OF_ONE_MACHINE:
        return (
            ". onnxruntime has optimised this file for one machine, whose order of channels the file does not say: "
            "export the original, or one that onnxruntime has optimised at the level ORT_ENABLE_EXTENDED"
        )
    known = node.domain != "" or find_spec("onnx") is not None
    return "" if known else ". Some are made of others where the package onnx is installed: pip install onnx"


def _version(versions: Iterable[int], wanted: int) -> int:
    older = [version for version in versions if version <= wanted]
    return max(older) if older else min(versions)


def _type_of(node: Node, index: int) -> TypeProto:
    dtype, dims = node.dtype_of_input(index), node.dims(index)
    if dtype is None:
        return TypeProto()
    shape = None if dims is None else TensorShapeProto(tuple(Dimension(size) for size in dims))
    return TypeProto(TensorType(_NUMBERS[np.dtype(dtype)], shape))
