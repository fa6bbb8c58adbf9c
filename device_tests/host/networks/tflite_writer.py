"""Writes a pair as a .tflite file, so that tflite-runtime can be counted on the same network.

It writes optimised float32 networks of convolutions, pools, additions, concatenations and fully connected layers, for
the shapes that the pair declares. Inputs and weights are NHWC in the file, as everywhere in TFLite.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from runtime_arm import Pair, Predictor
from runtime_arm.errors import ExportError
from runtime_arm.execution.executor import spec_of
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.windows import Window
from runtime_arm.operators.conv.convolution import convolution_of
from runtime_arm.operators.fused.fused import MAX, activation_of
from runtime_arm.operators.pool.caffe2 import pool_of
from runtime_arm.planning.steps import FEED_STEP, Step, Value
from runtime_arm.planning.trace import Trace
from runtime_arm.registry.specs import TensorSpec

SAME, VALID = 0, 1  # tflite.Padding
NONE, RELU, RELU6 = 0, 1, 3  # tflite.ActivationFunctionType
FLOAT32, INT32 = 0, 2  # tflite.TensorType
VERSION = 3  # of the file format


class _Node(NamedTuple):
    """An operator of the file: its tensors by index, the name of its table of options, and the fields of that table."""

    code: str
    inputs: List[int]
    output: int
    options: str
    fields: Dict[str, int]


class _Graph:
    """The tensors and operators of the file, in which blobs are (N, H, W, C)."""

    def __init__(self) -> None:
        self.tensors: List[Tuple[str, Tuple[int, ...], Optional[Array]]] = []
        self.nodes: List[_Node] = []
        self._blobs: Dict[str, int] = {}

    def blob(self, name: str, spec: TensorSpec) -> int:
        """The tensor of a blob of the net, added on first use."""
        if name not in self._blobs:
            self._blobs[name] = self._tensor(name, nhwc(spec.shape), None)
        return self._blobs[name]

    def constant(self, values: Array) -> int:
        """A tensor with constant content."""
        return self._tensor(f"constant_{len(self.tensors)}", values.shape, np.ascontiguousarray(values))

    def between(self, shape: Sequence[int]) -> int:
        """A tensor between two operators that are one operator in the net."""
        return self._tensor(f"between_{len(self.tensors)}", tuple(shape), None)

    def shape(self, tensor: int) -> Tuple[int, ...]:
        return self.tensors[tensor][1]

    def add(self, code: str, inputs: List[int], output: int, options: str = "", **fields: int) -> None:
        self.nodes.append(_Node(code, inputs, output, options, fields))

    def _tensor(self, name: str, shape: Tuple[int, ...], content: Optional[Array]) -> int:
        self.tensors.append((name, shape, content))
        return len(self.tensors) - 1


def tflite_bytes(pair: Pair) -> bytes:
    """The pair as a .tflite file. ExportError for an operator that cannot be translated."""
    graph = _Graph()
    with Predictor(pair, threads=1) as predictor:
        trace = _traced(predictor)
        inputs = [graph.blob(info.name, trace.env[info.name].spec) for info in pair.inputs]
        for step in trace.steps:
            if step.op.type not in _TRANSLATIONS:
                raise ExportError(f"{step.op.signature()}: no translation into TFLite")
            _TRANSLATIONS[step.op.type](graph, step)
        outputs = [graph.blob(info.name, trace.env[info.name].spec) for info in pair.outputs]
        return _serialise(graph, inputs, outputs)


def _traced(predictor: Predictor) -> Trace:
    """A trace of the net's own operators; a plan would merge some of them and convert between layouts."""
    constants = {name: np.asarray(content) for name, content in predictor.executor.constants.items()}
    specs = {name: TensorSpec(array.shape, array.dtype, array) for name, array in constants.items()}
    specs.update((info.name, spec_of(info.example())) for info in predictor.inputs)
    return Trace(
        predictor.pair.predict_net.op,
        0,
        {name: Value(name, spec, FEED_STEP, spec.value) for name, spec in specs.items()},
    )


def nhwc(shape: Sequence[int]) -> Tuple[int, ...]:
    """The shape of a blob in the file: (N, C, H, W) becomes (N, H, W, C), others stay."""
    return (shape[0], shape[2], shape[3], shape[1]) if len(shape) == 4 else tuple(shape)


def _tensors(graph: _Graph, step: Step) -> Tuple[int, int]:
    """The tensors of the first input and of the output."""
    (x, *_), y = step.in_specs, step.out_specs[0]
    assert x is not None
    return graph.blob(step.op.input[0], x), graph.blob(step.op.output[0], y)


def _convolution(graph: _Graph, step: Step) -> None:
    op, specs = step.op, step.in_specs
    (x, y), w = _tensors(graph, step), specs[1]
    assert specs[0] is not None
    assert w is not None
    assert w.value is not None
    convolution = convolution_of(op, specs[0], w)
    depthwise = convolution.group == convolution.channels == convolution.filters > 1
    if convolution.group > 1 and not depthwise:
        raise ExportError(f"{op.signature()}: TFLite has no convolution in {convolution.group} groups")
    bias = specs[2].value if len(specs) > 2 and specs[2] is not None else np.zeros(convolution.filters, np.float32)
    filters = graph.constant(w.value.transpose(1, 2, 3, 0) if depthwise else w.value.transpose(0, 2, 3, 1))
    addend = op.input[3] if len(op.input) > 3 else ""
    x, fields = _padded(graph, x, convolution.window)
    ends_with_floor = op.get_str("activation", "") == MAX
    floor = specs[4].value if ends_with_floor and specs[4] is not None else None
    if ends_with_floor and floor is None:
        raise ExportError(f"{op.signature()}: its lower limit is not constant")
    total = y if floor is None else graph.between(graph.shape(y))
    result = graph.between(graph.shape(y)) if addend else total
    kind, more = ("DEPTHWISE_CONV_2D", {"DepthMultiplier": 1}) if depthwise else ("CONV_2D", {})
    options = "DepthwiseConv2DOptions" if depthwise else "Conv2DOptions"
    fields.update(more, DilationHFactor=convolution.window.dilation[0], DilationWFactor=convolution.window.dilation[1])
    assert bias is not None
    inputs = [x, filters, graph.constant(bias)]
    graph.add(kind, inputs, result, options, **fields, FusedActivationFunction=NONE if addend else _activation(op))
    if addend:
        assert specs[3] is not None
        graph.add(
            "ADD", [result, graph.blob(addend, specs[3])], total, "AddOptions", FusedActivationFunction=_activation(op)
        )
    if floor is not None:
        graph.add("MAXIMUM", [total, graph.constant(floor.reshape(1, 1, 1, -1))], y, "MaximumMinimumOptions")


def _activation(op: OperatorDef) -> int:
    activation = activation_of(op)
    if activation is None or activation.full_type == MAX:
        return NONE
    if activation.type == "Relu":
        return RELU
    if activation.type == "Clip" and (activation.get_float("min"), activation.get_float("max")) == (0, 6):
        return RELU6
    raise ExportError(f"{op.signature()}: no activation {activation.full_type} in TFLite")


def _padded(graph: _Graph, x: int, window: Window) -> Tuple[int, Dict[str, int]]:
    """The tensor, padded with zeros if TFLite's own padding differs; stride and padding for the options."""
    spread = [dilation * (kernel - 1) + 1 for dilation, kernel in zip(window.dilation, window.kernel)]
    needed = [max(0, (o - 1) * s + k - i) for o, s, k, i in zip(window.output, window.stride, spread, window.image)]
    same = [(total // 2, total - total // 2) for total in needed]
    ours = [(head, total - head) for head, total in zip(window.head, needed)]
    fields = {"Padding": VALID, "StrideH": window.stride[0], "StrideW": window.stride[1]}
    if not any(needed):
        return x, fields
    if ours == same and all(o == -(-i // s) for o, i, s in zip(window.output, window.image, window.stride)):
        return x, {**fields, "Padding": SAME}
    n, h, w, c = graph.shape(x)
    pads = np.array([(0, 0), *ours, (0, 0)], np.int32)
    padded = graph.between((n, h + sum(ours[0]), w + sum(ours[1]), c))
    graph.add("PAD", [x, graph.constant(pads)], padded, "PadOptions")
    return padded, fields


def _pool(graph: _Graph, step: Step) -> None:
    """Padding a maximum with zeros is harmless next to a Relu, which is where such padding occurs."""
    assert step.in_specs[0] is not None
    x, y = _tensors(graph, step)
    window = pool_of(step.op, step.in_specs[0]).window
    x, fields = _padded(graph, x, window)
    code = "AVERAGE_POOL_2D" if step.op.type == "AveragePool" else "MAX_POOL_2D"
    fields.update(FilterHeight=window.kernel[0], FilterWidth=window.kernel[1])
    graph.add(code, [x], y, "Pool2DOptions", **fields, FusedActivationFunction=_activation(step.op))


def _fully_connected(graph: _Graph, step: Step) -> None:
    x, y = _tensors(graph, step)
    w, b = (spec.value for spec in step.in_specs[1:] if spec is not None)
    assert w is not None
    assert b is not None
    inputs = [x, graph.constant(w.reshape(w.shape[0], -1)), graph.constant(b)]
    graph.add("FULLY_CONNECTED", inputs, y, "FullyConnectedOptions")


def _concat(graph: _Graph, step: Step) -> None:
    blobs = [graph.blob(name, spec) for name, spec in zip(step.op.input, step.in_specs) if spec is not None]
    graph.add("CONCATENATION", blobs, _tensors(graph, step)[1], "ConcatenationOptions", Axis=3)


def _flatten(graph: _Graph, step: Step) -> None:
    """Only of single pixels, since the order of more would change."""
    x, y = _tensors(graph, step)
    if graph.shape(x)[1:3] != (1, 1):
        raise ExportError(f"{step.op.signature()}: TFLite flattens {graph.shape(x)} in another order")
    graph.add("RESHAPE", [x, graph.constant(np.array(graph.shape(y), np.int32))], y)


def _softmax(graph: _Graph, step: Step) -> None:
    x, y = _tensors(graph, step)
    graph.add("SOFTMAX", [x], y, "SoftmaxOptions", Beta=1)


_TRANSLATIONS: Dict[str, Callable[[_Graph, Step], None]] = {
    "Conv": _convolution,
    "ConvRelu": _convolution,
    "FusedConv": _convolution,
    "MaxPool": _pool,
    "FusedMaxPool": _pool,
    "AveragePool": _pool,
    "FC": _fully_connected,
    "Concat": _concat,
    "Flatten": _flatten,
    "Softmax": _softmax,
}


def _serialise(graph: _Graph, inputs: Sequence[int], outputs: Sequence[int]) -> bytes:
    """The FlatBuffer: buffers and tables come first, tables that refer to them later."""
    import flatbuffers
    import tflite

    builder = flatbuffers.Builder(1 << 20)

    def table(name: str, **fields: Any) -> int:
        getattr(tflite, f"{name}Start")(builder)
        for field, value in fields.items():
            getattr(tflite, f"{name}Add{field}")(builder, value)
        end: int = getattr(tflite, f"{name}End")(builder)
        return end

    def offsets(items: Sequence[int]) -> int:
        builder.StartVector(4, len(items), 4)
        for item in reversed(items):
            builder.PrependUOffsetTRelative(item)
        end: int = builder.EndVector()
        return end

    def integers(values: Sequence[int]) -> int:
        end: int = builder.CreateNumpyVector(np.array(values, np.int32))
        return end

    codes = list(dict.fromkeys(node.code for node in graph.nodes))
    buffers, tensors, nodes = [table("Buffer")], [], []
    for name, shape, content in graph.tensors:
        if content is not None:
            buffers.append(table("Buffer", Data=builder.CreateNumpyVector(content.reshape(-1).view(np.uint8))))
        kind = INT32 if content is not None and content.dtype == np.int32 else FLOAT32
        text, dims = builder.CreateString(name), integers(shape)
        where = 0 if content is None else len(buffers) - 1
        tensors.append(table("Tensor", Shape=dims, Type=kind, Buffer=where, Name=text))
    for node in graph.nodes:
        options = table(node.options, **node.fields) if node.options else 0
        given: Dict[str, Any] = {"Inputs": integers(node.inputs), "Outputs": integers([node.output])}
        if options:
            given.update(BuiltinOptionsType=getattr(tflite.BuiltinOptions, node.options), BuiltinOptions=options)
        nodes.append(table("Operator", OpcodeIndex=codes.index(node.code), **given))
    numbers = [getattr(tflite.BuiltinOperator, code) for code in codes]
    made = [table("OperatorCode", DeprecatedBuiltinCode=n, BuiltinCode=n, Version=1) for n in numbers]
    parts = {"Tensors": offsets(tensors), "Operators": offsets(nodes)}
    subgraph = table("SubGraph", **parts, Inputs=integers(inputs), Outputs=integers(outputs))
    whole = {"OperatorCodes": offsets(made), "Subgraphs": offsets([subgraph]), "Buffers": offsets(buffers)}
    builder.Finish(table("Model", Version=VERSION, **whole), file_identifier=b"TFL3")
    return bytes(builder.Output())
