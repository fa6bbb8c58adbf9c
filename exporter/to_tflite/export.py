"""Writes pairs as TFLite models, for phones and for microcontrollers.

save_tflite(pair, "model.tflite")
content = to_tflite(pair)                      # bytes

TFLite's pictures have their channels last: inputs (N, C, H, W) of a pair become (N, H, W, C), and so do outputs that
are pictures. All sizes are fixed; an open batch becomes 1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Set

from exporter.common.shapes import Shapes, check_names
from exporter.common.weights import specs_of_weights
from exporter.to_tflite.graph import Graph, Operand, drop_unread, fuse_activations, spread_scales
from exporter.to_tflite.layout import Order, channels_last, held, plain
from exporter.to_tflite.metadata import NAME, metadata_of, with_labels
from exporter.to_tflite.model import Model
from exporter.to_tflite.operators import require_kernels
from exporter.to_tflite.packed import pack_constants
from exporter.to_tflite.translator import Translator
from exporter.to_tflite.writer import to_bytes
from optimize import pipeline
from optimize.rewriting.program import Program
from optimize.rewriting.report import Recorder
from optimize.rewriting.single_assignment import names_read, single_assignment
from optimize.rewriting.subnets import run_passes_everywhere
from optimize.rewriting.unpacking import LOAD, with_unpacking
from runtime_arm.app.rules import layout_for
from runtime_arm.errors import ExportError
from runtime_arm.files import AnyPath, write_file
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from runtime_arm.registry.specs import TensorSpec


def save_tflite(pair: Pair, path: AnyPath, *, shapes: Optional[Shapes] = None) -> List[Path]:
    """Write the model, which appears whole or not at all; the files. Otherwise like ``to_tflite``."""
    write_file(path, [to_tflite(pair, shapes=shapes)])
    return [Path(path)]


def to_tflite(pair: Pair, *, shapes: Optional[Shapes] = None) -> bytes:
    """The content of a TFLite file that computes what the pair does.

    shapes: for inputs whose sizes are open; by default the size to which the pair's pictures are resized. ExportError
    or OperatorError, naming the operator, if TFLite has no equivalent, or if a size other than that of the batch stays
    open.
    """
    model = translated(pair, shapes or {})
    rule, labels = pair.meta.get("preprocessing") or {}, pair.meta.get("labels")
    if rule or labels:
        counts = len(model.inputs), len(model.outputs)
        model.metadata[NAME] = metadata_of(pair.predict_net.name or "net", rule, *counts, bool(labels))
    return with_labels(to_bytes(model), labels)


def translated(pair: Pair, shapes: Shapes) -> Model:
    """The model before it is written."""
    rule = pair.meta.get("preprocessing") or {}
    infos = [_with_shape(info, shapes, rule) for info in pair.check().inputs]
    check_names(shapes, infos)
    simple = _simplified(pair.replace(inputs=tuple(infos), tuning=None))
    net = single_assignment(simple.predict_net)
    graph = Graph(names_read(net))
    blobs = _constants(simple, net)
    inputs: Dict[str, int] = {}
    turned: Set[str] = set()
    for info in infos:
        spec = TensorSpec([n for n in info.shape or () if isinstance(n, int)], info.dtype or "float32")
        order = _input_order(net, info.name, spec.ndim)
        inputs[info.name] = graph.tensor(info.name, held(spec.shape, order), spec.dtype)
        blobs[info.name] = Operand(spec, inputs[info.name], order)
        turned.update([info.name] if order != plain(spec.ndim) else [])
    Translator(graph, blobs).add_net(net)
    outputs = _outputs(graph, net, pair, blobs, set(inputs.values()), turned)
    graph.built.inputs, graph.built.outputs = list(inputs.values()), list(outputs.values())
    positions = list(inputs), list(outputs)
    for one in graph.all:
        fuse_activations(one.built)
        spread_scales(one.built)
        drop_unread(one.built)
        require_kernels(one.built)
    pack_constants(graph.built, pair)
    return Model(
        [one.built for one in graph.all],
        "made by armnet",
        dict(zip(positions[0], graph.built.inputs)),
        dict(zip(positions[1], graph.built.outputs)),
        turned=turned,
    )


def _simplified(pair: Pair) -> Pair:
    """The pair with constants and normalisations folded, and formulas replaced by operators."""
    program = Program.of(pair.replace(predict_net=with_unpacking(pair.predict_net, LOAD)))
    return run_passes_everywhere(program, pipeline.SIMPLIFYING, Recorder()).pair(pair)


def _with_shape(info: TensorInfo, shapes: Shapes, rule: Mapping[str, Any]) -> TensorInfo:
    shape = shapes.get(info.name, info.shape)
    sizes = [1 if axis == 0 and not isinstance(n, int) else n for axis, n in enumerate(shape or ())]
    resized = rule.get("resize")
    if len(sizes) == 4 and isinstance(resized, list) and len(resized) == 2:
        layout = layout_for(rule, shape)
        places = [layout.index("H"), layout.index("W")]
        for place, size in zip(places, resized):
            sizes[place] = sizes[place] if isinstance(sizes[place], int) else size
    if shape is None or not all(isinstance(n, int) for n in sizes):
        example = ",".join("N" if not isinstance(n, int) else str(n) for n in sizes) or "N,N,..."
        raise ExportError(
            f"input {info.name!r}: the sizes of a TFLite model are fixed, and the pair leaves some open: give them "
            f"(--shape {info.name}={example})"
        )
    return TensorInfo(info.name, tuple(sizes), info.dtype)


def _constants(pair: Pair, net: NetDef) -> Dict[str, Operand]:
    """The blobs that init_net fills and the net reads."""
    return {name: Operand(spec) for name, spec in specs_of_weights(pair, net).items() if spec is not None}


_ORDERLESS = (
    "Copy",
    "Quantize",
    "Relu",
    "Mul",
    "Add",
    "Sub",
    "Div",
    "Clip",
    "Cast",
    "Sigmoid",
    "PadImage",
    "Pad",
    "QuantizeLinear",
)


def _input_order(net: NetDef, name: str, ndim: int) -> Order:
    """The order of an input: channels last if the first operators for which the order matters want pictures."""
    if ndim != 4:
        return plain(ndim)
    return channels_last(ndim) if _wants_picture(net, name, set()) else plain(ndim)


def _wants_picture(net: NetDef, name: str, seen: Set[str]) -> bool:
    if name in seen:
        return False
    seen.add(name)
    for op in net.op:
        if name not in op.input:
            continue
        if op.type in _ORDERLESS:
            if any(_wants_picture(net, one, seen) for one in op.output):
                return True
        elif op.input[0] == name and _is_of_pictures(op):
            return True
    return False


def _is_of_pictures(op: OperatorDef) -> bool:
    """Whether the operator's first input is a picture whose channels come first."""
    kinds = ("Conv", "Pool", "Resize", "Upsample", "SpatialBN", "BatchNorm", "LRN", "InstanceNorm", "GroupNorm")
    if op.get_str("order", "NCHW") == "NHWC" or op.domain == "tflite":
        return False
    if op.type == "Transpose" and tuple(op.get_ints("axes")) == (0, 2, 3, 1):
        return True
    return (
        op.type == "NCHW2NHWC" or any(kind in op.type for kind in kinds) or op.type in ("DepthToSpace", "SpaceToDepth")
    )


def _outputs(
    graph: Graph, net: NetDef, pair: Pair, blobs: Mapping[str, Operand], taken: Set[int], turned: Set[str]
) -> Dict[str, int]:
    """The tensors of the outputs: pictures stay as they are, all others get the order of their blob back."""
    outputs: Dict[str, int] = {}
    used: Set[int] = set(taken)
    for info, name in zip(pair.outputs, net.external_output):
        operand = blobs[name]
        ndim = operand.spec.ndim
        picture = operand.tensor is not None and ndim == 4 and operand.order == channels_last(ndim)
        number = graph.take(operand, operand.order if picture else None, name)
        turned.update([info.name] if picture else [])
        if number in used or graph[number].value is not None:
            number = graph.copied(number, info.name)
        used.add(number)
        graph[number].name = graph.renamed(number, info.name)
        outputs[info.name] = number
    return outputs
