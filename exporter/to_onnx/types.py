"""ONNX's own shape inference, which also handles open sizes and operators whose shapes depend on data."""

from __future__ import annotations

from typing import Dict, Mapping, Optional, Sequence, Tuple, Union

import onnx
from onnx import helper, numpy_helper

from runtime_arm.netdef import Array

Dims = Tuple[Optional[int], ...]
LARGEST_DATA = 64  # elements of a constant that may be a shape


class Types:
    """The known types of a model's blobs, by their names in the graph."""

    def __init__(self, opset: int):
        self._opset = opset
        self._found: Dict[str, onnx.TypeProto] = {}
        self._data: Dict[str, onnx.TensorProto] = {}

    def declare(self, name: str, number: int, dims: Optional[Sequence[Union[int, str, None]]]) -> None:
        """Declare the type of a blob, such as an input."""
        self._found[name] = helper.make_tensor_type_proto(number, dims)

    def declare_constant(self, name: str, value: Array) -> None:
        """Declare a constant's type, and its content if it is small."""
        if value.dtype != object:
            self.declare(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
            if value.size <= LARGEST_DATA:
                self._data[name] = numpy_helper.from_array(value)

    def rename(self, names: Mapping[str, str]) -> None:
        """Rename blobs."""
        for old, new in names.items():
            if old in self._found:
                self._found[new] = self._found.pop(old)

    def learn(self, nodes: Sequence[onnx.NodeProto]) -> None:
        """Infer the output types of these nodes; pass each node once."""
        for node in nodes:
            if not node.domain and onnx.defs.has(node.op_type, self._opset):
                self._found.update(self._inferred(node))

    def _inferred(self, node: onnx.NodeProto) -> Mapping[str, onnx.TypeProto]:
        schema = onnx.defs.get_schema(node.op_type, self._opset)
        types = {name: self._found[name] for name in node.input if name in self._found}
        data = {name: self._data[name] for name in node.input if name in self._data}
        try:
            found: Mapping[str, onnx.TypeProto] = onnx.shape_inference.infer_node_outputs(
                schema, node, types, data, opset_imports=[helper.make_opsetid("", self._opset)]
            )
        except Exception:  # onnx's C++ exceptions have no common base; the types stay unknown
            return {}
        return found

    def dims(self, name: str) -> Optional[Dims]:
        """The shape of a blob, with None for open sizes; None if the rank is unknown."""
        kind = self._found.get(name)
        if kind is None or not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
            return None
        return tuple(dim.dim_value if dim.HasField("dim_value") else None for dim in kind.tensor_type.shape.dim)

    def dtype(self, name: str) -> int:
        """ONNX's number of a blob's data type, 0 if it is unknown."""
        kind = self._found.get(name)
        return 0 if kind is None else kind.tensor_type.elem_type

    def suit(self, node: onnx.NodeProto, schema: onnx.defs.OpSchema) -> bool:
        """Whether the operator accepts the node's inputs, as far as their types are known."""
        formal = schema.inputs
        for index, name in enumerate(node.input):
            number = self.dtype(name)
            if number and formal[min(index, len(formal) - 1)].types.isdisjoint({_text(number)}):
                return False
        return True


def _text(number: int) -> str:
    """A tensor type in the notation of schemas."""
    return f"tensor({onnx.TensorProto.DataType.Name(number).lower()})"
