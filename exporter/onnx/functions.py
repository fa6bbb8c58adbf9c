"""Operators that are defined by other operators: ONNX's function operators and the functions in a model file."""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np
import onnx

from exporter.common.builder import Dims
from exporter.onnx.microsoft import OPSET, definition
from exporter.onnx.node import Node
from exporter.onnx.structure import every_node
from exporter.onnx.weights import DTYPES
from runtime_arm.errors import ExportError, first_line

_MOST_NODES = 1 << 18  # in a model after its functions are inlined
_NUMBERS = {dtype: number for number, dtype in DTYPES.items()}


class Body(NamedTuple):
    """The nodes that replace a call, over formal inputs and outputs, with the opsets that they use."""

    inputs: Tuple[str, ...]
    outputs: Tuple[str, ...]
    nodes: Sequence[onnx.NodeProto]
    opsets: Dict[str, int]


def function_body(node: Node, proto: onnx.NodeProto) -> Optional[Body]:
    """The function that defines the node's operator, or None. Some functions depend on the types of the inputs."""
    composed = definition(node)
    if composed is not None:
        return Body(*composed, {"": OPSET})
    try:
        schema: Any = onnx.defs.get_schema(node.type, node.version, node.domain)
        if schema.has_function:
            data = schema.get_function_with_opset_version(_version(schema.function_opset_versions, node.version))
        elif schema.has_context_dependent_function:
            version = _version(schema.context_dependent_function_opset_versions, node.version)
            types = [_type_of(node, index).SerializeToString() for index in range(len(node.inputs))]
            data = schema.get_context_dependent_function_with_opset_version(version, proto.SerializeToString(), types)
        else:
            return None
    except Exception:  # onnx's C++ exceptions have no common base; a function that onnx cannot give does not exist
        return None
    defaults = [attribute.default_value for attribute in schema.attributes.values() if attribute.default_value.name]
    return _body(onnx.FunctionProto.FromString(data), [*defaults, *proto.attribute]) if data else None


def _version(versions: Iterable[int], wanted: int) -> int:
    older = [version for version in versions if version <= wanted]
    return max(older) if older else min(versions)


def _type_of(node: Node, index: int) -> onnx.TypeProto:
    dtype = node.dtype_of_input(index)
    if dtype is None:
        return onnx.TypeProto()
    dims: Optional[Dims] = node.dims(index)
    return onnx.helper.make_tensor_type_proto(_NUMBERS[np.dtype(dtype)], None if dims is None else list(dims))


def _body(function: onnx.FunctionProto, attributes: Iterable[onnx.AttributeProto]) -> Body:
    """The function with these attributes; the last of equal names counts."""
    given = {attribute.name: attribute for attribute in [*function.attribute_proto, *attributes]}
    nodes = [_bound(node, given) for node in function.node]
    opsets = {opset.domain: opset.version for opset in function.opset_import}
    return Body(tuple(function.input), tuple(function.output), nodes, opsets)


def _bound(node: onnx.NodeProto, given: Dict[str, onnx.AttributeProto]) -> onnx.NodeProto:
    """The node with references to the caller's attributes resolved; those that the caller lacks are left out."""
    bound = onnx.NodeProto()
    bound.CopyFrom(node)
    del bound.attribute[:]
    for attribute in node.attribute:
        source = given.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute
        if source is None:
            continue
        copy = bound.attribute.add()
        copy.CopyFrom(source)
        copy.name = attribute.name
        for graph in [copy.g] if copy.HasField("g") else []:
            inner = [_bound(child, given) for child in graph.node]
            del graph.node[:]
            graph.node.extend(inner)
    return bound


def inline_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its functions inlined. ExportError if they call each other in circles or too often."""
    if not model.functions:
        return model
    _refuse_recursion(model)
    try:
        from onnx import inliner
    except ImportError as error:
        raise ExportError("a model with functions of its own needs onnx 1.16 or newer") from error
    _give_defaults(model)
    try:
        inlined: onnx.ModelProto = inliner.inline_local_functions(model, True)
    except Exception as error:  # onnx's C++ exceptions have no common base
        raise ExportError(f"the model's functions cannot be inlined: {first_line(error)}") from error
    return inlined


def _give_defaults(model: onnx.ModelProto) -> None:
    """Write default attributes into the calls that leave them out: onnx's inliner ignores defaults."""
    defaults = {(f.domain, f.name, f.overload): f.attribute_proto for f in model.functions}
    for body in [model.graph, *model.functions]:
        for node in every_node(body):
            given = {attribute.name for attribute in node.attribute}
            missing = defaults.get((node.domain, node.op_type, node.overload), ())
            node.attribute.extend(attribute for attribute in missing if attribute.name not in given)


def _refuse_recursion(model: onnx.ModelProto) -> None:
    """ExportError if functions call each other in circles, or if inlining them gives more than _MOST_NODES nodes."""
    called = {(f.domain, f.name): _types(f) for f in model.functions}
    sizes: Dict[Tuple[str, str], int] = {}  # nodes of a function after all calls in it are inlined
    while True:
        ready = [
            name
            for name, types in called.items()
            if name not in sizes and not (types.keys() & called.keys()) - sizes.keys()
        ]
        if not ready:
            break
        sizes.update({name: _size(called[name], sizes) for name in ready})
    circle: List[str] = sorted(f"{domain}.{name}" for domain, name in called.keys() - sizes.keys())
    if circle:
        raise ExportError(f"the functions {', '.join(circle)} call each other in circles")
    size = _size(_types(model.graph), sizes)
    if size > _MOST_NODES:
        raise ExportError(f"its functions expand to {size} nodes; the limit is {_MOST_NODES}")


def _types(body: Union[onnx.GraphProto, onnx.FunctionProto]) -> Mapping[Tuple[str, str], int]:
    """The number of nodes of each domain and type, inner graphs included."""
    return Counter((node.domain, node.op_type) for node in every_node(body))


def _size(types: Mapping[Tuple[str, str], int], sizes: Mapping[Tuple[str, str], int]) -> int:
    return sum(count * sizes.get(type, 1) for type, count in types.items())
