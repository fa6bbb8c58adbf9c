"""Writes pairs as ONNX models, so that onnxruntime can run and check any net, optimised or not.

save_onnx(pair, "model.onnx")                  # piece by piece, with external data beyond 2 GB
model = to_onnx(pair)                          # onnx.ModelProto
"""

from __future__ import annotations

from pathlib import Path
from typing import Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import onnx
from onnx import helper

from exporter.common.shapes import Shapes, check_names
from exporter.common.weights import specs_of_weights
from exporter.onnx.weights import DTYPES
from exporter.to_onnx.graph import Constants, Graph
from exporter.to_onnx.operand import ONNX_NUMBERS
from exporter.to_onnx.translator import Translator
from exporter.to_onnx.types import Types
from exporter.to_onnx.writer import LARGEST_MODEL, model_of, with_constants, write_model
from optimize.rewriting.shapes import choices_of
from optimize.rewriting.single_assignment import names_in, names_read, single_assignment
from optimize.rewriting.unpacking import LOAD, with_unpacking
from runtime_arm.errors import ExportError, UsageError
from runtime_arm.files import AnyPath
from runtime_arm.netdef import Array, NetDef
from runtime_arm.pair.metadata import Dim, TensorInfo
from runtime_arm.pair.pair import Pair
from runtime_arm.records import replace

OPSET = 21  # the oldest with every operator that the rules use; nets with newer operators get a newer opset
OPSETS = {"": OPSET, "ai.onnx.ml": 3}  # other domains: the first

QDQ, EXACT = "qdq", "exact"  # how integers are written


def to_onnx(pair: Pair, *, shapes: Optional[Shapes] = None, integers: str = QDQ) -> onnx.ModelProto:
    """The model that computes what the pair does, weights included.

    Inputs and outputs keep names, data types and open dimensions. shapes: for inputs that have no shape in the pair.
    integers: how TFLite's operators on integers are written. "qdq": as ONNX's tools do, with DequantizeLinear and
    QuantizeLinear around operators on floats; a result may be one step of its scale off. "exact": to the last bit, with
    many nodes for each. ExportError or OperatorError, naming the operator, if ONNX has no equivalent.
    """
    model, constants = _translated(pair, shapes or {}, integers)
    return with_constants(model, constants)


def save_onnx(
    pair: Pair,
    path: AnyPath,
    *,
    shapes: Optional[Shapes] = None,
    integers: str = QDQ,
    largest: int = LARGEST_MODEL,
) -> List[Path]:
    """Write the model; weights are not copied on the way. Returns the files, which appear whole or not at all.

    If the model would have more than ``largest`` bytes, the weights go to a second file, ``<path>.data``. Otherwise
    like ``to_onnx``.
    """
    model, constants = _translated(pair, shapes or {}, integers)
    return write_model(path, model, constants, largest)


def _translated(pair: Pair, shapes: Shapes, integers: str) -> Tuple[onnx.ModelProto, Dict[str, Array]]:
    """The model without its initializers, and the initializers by name."""
    if integers not in (QDQ, EXACT):
        raise UsageError(f"integers can be {QDQ} or {EXACT}; got {integers!r}")
    inputs = [_with_shape(info, shapes) for info in pair.check().inputs]
    check_names(shapes, inputs)
    net = with_unpacking(pair.predict_net, LOAD)
    _refuse_sequences(net)
    types = Types(OPSET)
    constants = Constants(names_in(net), types)
    graph = Graph(constants, names_read(net))
    weights = specs_of_weights(pair, net)
    choices = choices_of(single_assignment(net), weights, inputs)
    for info in inputs:
        graph.define(info.name, tuple(choice.inputs[info.name] for choice in choices))
        types.declare(info.name, _number(info), info.shape)
    for name, spec in weights.items():
        graph.define(name, (spec,) * len(choices))
        if spec is not None and spec.value is not None:
            constants.define(name, spec.value)
    Translator(graph, integers == QDQ).add_net(net)
    outputs = [_output(graph, info) for info in pair.outputs]
    proto = helper.make_graph(
        _read_nodes(graph.nodes, net.external_output), net.name or "armnet", [_typed(info) for info in inputs], outputs
    )
    used = set(_names_read(proto))
    kept = {name: value for name, value in constants.values.items() if name in used}
    return model_of(proto, _opsets(proto, types)), kept


_SEQUENCES = ("Optional", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceMap")


def _refuse_sequences(net: NetDef) -> None:
    """ExportError if an output is a sequence of blobs or an optional one, whose type a pair does not state."""
    for name in net.external_output:
        writer = next((op for op in reversed(net.op) if name in op.output), None)
        if writer is not None and writer.type in (*_SEQUENCES, "SplitToSequence"):
            raise ExportError(f"output {name!r} is a sequence of blobs, which is not written to ONNX")
        for sub in writer.subnets() if writer is not None else ():
            _refuse_sequences(sub)


def _with_shape(info: TensorInfo, shapes: Shapes) -> TensorInfo:
    shape = shapes.get(info.name, info.shape)
    if shape is None:
        raise ExportError(
            f"input {info.name!r}: the pair does not say its shape, which ONNX needs: give it "
            f"(--shape {info.name}=1,3,224,224)"
        )
    return replace(info, shape=tuple(shape), dtype=info.dtype or "float32")


def _typed(info: TensorInfo) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(info.name, _number(info), info.shape)


def _number(info: TensorInfo) -> int:
    """ONNX's number of the data type."""
    number = ONNX_NUMBERS.get(np.dtype(info.dtype))
    if number is None:
        raise ExportError(f"{info.name!r} holds strings, which are not exported")
    return number


def _output(graph: Graph, info: TensorInfo) -> onnx.ValueInfoProto:
    """The output with its inferred dimensions; open ones have the pair's names."""
    operand = graph.operand(info.name)
    if operand.name != info.name:
        raise ExportError(f"output {info.name!r} is an input that the net overwrites; ONNX has one name for each")
    specs = [spec for spec in operand.known if spec is not None]
    dims: Optional[Tuple[Dim, ...]] = info.shape
    if specs and len(specs) == len(operand.known) and len({spec.ndim for spec in specs}) == 1:
        names = info.shape if info.shape is not None and len(info.shape) == specs[0].ndim else (None,) * specs[0].ndim
        sizes = zip(*(spec.shape for spec in specs))
        dims = tuple(
            found[0] if len(set(found)) == 1 else name if isinstance(name, str) else None
            for found, name in zip(sizes, names)
        )
    dims = graph.types.dims(operand.name) if dims is None else dims
    if dims is None:
        raise ExportError(f"output {info.name!r}: its number of dimensions is not known, which ONNX needs")
    inferred = DTYPES.get(graph.types.dtype(operand.name))
    dtype = specs[0].dtype if specs else inferred or info.dtype or "float32"
    return _typed(TensorInfo(info.name, dims, str(dtype)))


def _read_nodes(nodes: Sequence[onnx.NodeProto], outputs: Sequence[str]) -> List[onnx.NodeProto]:
    """The nodes without transpositions that nothing reads: others undid them."""
    kept: List[onnx.NodeProto] = []
    read = set(outputs)
    for node in reversed(nodes):
        if node.op_type != "Transpose" or node.output[0] in read:
            kept.append(node)
            read.update(node.input)
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    read.update(_names_read(attribute.g))
    return kept[::-1]


def _names_read(graph: onnx.GraphProto) -> Iterable[str]:
    """Every name that a node reads, inner graphs included, or that is an output."""
    yield from (value.name for value in graph.output)
    for node in graph.node:
        yield from node.input
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _names_read(attribute.g)


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g)


def _opsets(graph: onnx.GraphProto, types: Types) -> Dict[str, int]:
    """For each domain the oldest opset that has every node in this form."""
    needed = {"": OPSET}
    for node in _nodes(graph):
        needed[node.domain] = max(needed.get(node.domain, 1), _since(node, types))
    return needed


def _since(node: onnx.NodeProto, types: Types) -> int:
    """The oldest opset, from OPSETS on, whose operator has the node's attributes and accepts its inputs."""
    oldest, newest = OPSETS.get(node.domain, 1), onnx.defs.onnx_opset_version()
    if node.domain not in OPSETS:
        return oldest
    names = {attribute.name for attribute in node.attribute}
    for version in range(oldest, newest + 1):
        if onnx.defs.has(node.op_type, version, node.domain):
            schema = onnx.defs.get_schema(node.op_type, version, node.domain)
            fits = names <= set(schema.attributes) and len(node.input) <= schema.max_input
            if fits and types.suit(node, schema):
                return version
    with_names = f"{node.op_type} with {', '.join(sorted(names)) or 'no attributes'}"
    raise ExportError(f"ONNX has no operator {with_names} for the types of {', '.join(map(repr, node.input))}")
