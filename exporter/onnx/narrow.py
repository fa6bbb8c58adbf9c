"""Nodes that read or write types that NumPy lacks: bfloat16, floats of 8 and 4 bits, integers of 4 and 2 bits.

A blob holds such numbers in a dtype that can represent them all (``weights.BLOB_DTYPES``), so operators need no change.
The results of a node of such a type are rounded to the type afterwards. Weights are stored as codes.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional

from exporter.common.builder import NetBuilder
from exporter.onnx.node import Node
from exporter.onnx.protos import NodeProto, TensorProto, ValueInfoProto
from exporter.onnx.structure import subgraphs
from exporter.onnx.weights import NARROW, Weights
from runtime_arm.errors import ExportError
from runtime_arm.netdef import OperatorDef

# These write only numbers that they have read.
_MOVES = """
    Compress Constant ConstantOfShape Expand EyeLike Flatten Identity If Loop Max MaxPool Min Relu Reshape Scan
    Squeeze Tile TopK Transpose Trilu Concat DepthToSpace Gather GatherElements GatherND OneHot ReverseSequence Scatter
    ScatterElements ScatterND Slice SpaceToDepth Split TensorScatter Unique Unsqueeze Where"""
# The input that has the type of the result, if it is not the first; None if the result's type is always the same.
_TYPED_BY: Dict[str, Optional[int]] = {
    **dict.fromkeys(("CastLike", "DequantizeLinear", "Where"), 1),
    **dict.fromkeys(("GatherBlockQuantized", "OneHot"), 2),
    **dict.fromkeys(["ArgMax", "ArgMin", "NonZero", "NonMaxSuppression", "Shape", "Size"]),
    **dict.fromkeys(["Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual", "Not"]),
    **dict.fromkeys(["DynamicQuantizeLinear", "MatMulInteger", "ConvInteger"]),
}
# All outputs of these have the type of the result; of other operators only the first has it.
_ALL_ALIKE = ("Attention", "GRU", "LSTM", "RNN", "Split")


class Narrowed(NamedTuple):
    """A node that computes in blobs' dtypes, and the operators that round what it writes."""

    node: Node
    rounding: List[OperatorDef]


def format_of(value: ValueInfoProto) -> Optional[str]:
    """The format of a declared value, or None."""
    tensor = value.type.tensor_type
    return None if tensor is None else NARROW.get(tensor.elem_type)


def store(net: NetBuilder, name: str, tensor: TensorProto, weights: Weights, what: str) -> None:
    """Make the blob a weight that is stored as codes."""
    format, packed = NARROW[tensor.data_type], net.fresh(f"{name}_codes")
    codes = weights.codes(tensor, what)
    if format == "bfloat16":
        net.constant(packed, codes.reshape(tuple(tensor.dims)))
        net.add(OperatorDef.of("UnpackBfloat16", [packed], [name], domain="armnet"))
    else:
        net.constant(packed, codes)
        shape = [int(size) for size in tensor.dims]
        net.add(OperatorDef.of("UnpackNumbers", [packed], [name], domain="armnet", format=format, shape=shape))
    net.note_format(name, format, packed)


def round_to(net: NetBuilder, source: str, target: str, format: str, **how: Any) -> OperatorDef:
    """The operator that rounds a blob to a format."""
    net.note_format(target, format)
    return OperatorDef.of("RoundNumbers", [source], [target], domain="armnet", format=format, **how)


def narrowed(node: Node, proto: NodeProto) -> Narrowed:
    """The node, changed if it reads or writes narrow types."""
    read = [node.net.format(name) if name else None for name in node.inputs]
    formats = _results(node, proto, read)
    quantised = formats[0] if node.type == "QuantizeLinear" else read[0] if node.type == "DequantizeLinear" else None
    if quantised and (node.type == "QuantizeLinear" or quantised.startswith("float")):
        node = node.replace(attributes={**node.attributes, "format": quantised})
    moves, rounding, outputs = node.type in (*_MOVES.split(), "QuantizeLinear"), [], list(node.outputs)
    for index, (name, format) in enumerate(zip(node.outputs, formats)):
        if not name or not format:
            continue
        if moves:
            node.net.note_format(name, format)
            continue
        if node.caffe2_compatible:
            raise ExportError(f"Caffe2 has no {format}")
        outputs[index] = node.net.fresh(f"{name}_wide")
        rounding.append(round_to(node.net, outputs[index], name, format, **_how(node, format)))
    return Narrowed(node.replace(outputs=tuple(outputs)), rounding)


def _how(node: Node, format: str) -> Dict[str, Any]:
    """How a cast rounds; by default the powers of two of float8e8m0 upwards."""
    if node.type not in ("Cast", "CastLike"):
        return {}
    how: Dict[str, Any] = {"saturate": node.get_int("saturate", 1)}
    return {**how, "round_mode": node.get_str("round_mode", "up")} if format == "float8e8m0" else how


def _results(node: Node, proto: NodeProto, read: List[Optional[str]]) -> List[Optional[str]]:
    """The format of each output."""
    count = len(node.outputs)
    inner = next((graph for graph in subgraphs(proto)), None)
    if inner is not None:
        found = [format_of(value) for value in inner.output[1 if node.type == "Loop" else 0 :]]
        return [*found, *[None] * count][:count]
    first = _result(node, proto, read)
    return [first] * count if node.type in _ALL_ALIKE else [first, *[None] * (count - 1)]


def _result(node: Node, proto: NodeProto, read: List[Optional[str]]) -> Optional[str]:
    """The format of the first output: that of an attribute, else that of the input that decides."""
    tensors = [attribute.t for attribute in proto.attribute if attribute.t is not None]
    if tensors and node.type in ("Constant", "ConstantOfShape"):
        return NARROW.get(tensors[0].data_type)
    for name in ("to", "output_dtype", "dtype"):
        number = node.attributes.get(name, 0)
        if isinstance(number, int) and number:
            return NARROW.get(number)
    if node.type == "QuantizeLinear":
        return read[2] if len(read) > 2 else None
    place = _TYPED_BY.get(node.type, 0)
    return read[place] if place is not None and place < len(read) else None
