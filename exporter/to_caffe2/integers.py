"""TFLite's operators on int8 as Caffe2's on bytes: 128 is added to each number and to each zero point."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import numpy as np

from optimize.layers.pictures import constants_behind
from optimize.rewriting.program import Program
from runtime_arm.errors import ExportError
from runtime_arm.netdef import Argument, Array, OperatorDef, frozen
from runtime_arm.netdef.dtypes import INT8
from runtime_arm.operators.layout.pad import padding_of
from runtime_arm.operators.quantised.tflite.parameters import Affine, activation_range
from runtime_arm.pair.fills import fill
from runtime_arm.registry.schema import find

UP = 128  # from int8 to bytes
MOST = 255
_LAST: Dict[str, Any] = {"order": "NHWC"}
_MADE = ": write the pair as it was before it was optimised, or quantised in its weights alone"


class Scale(NamedTuple):
    """real = scale * (byte - zero_point)."""

    scale: float
    zero_point: int

    @property
    def stated(self) -> Dict[str, Any]:
        """As the arguments by which Caffe2's operators state what their output is."""
        return {"Y_scale": self.scale, "Y_zero_point": self.zero_point}


def _bytes(value: Array) -> bytes:
    return (value.astype(np.int16) + UP).astype(np.uint8).tobytes()


class Bytes:
    """Translates the operators of a program one by one. fills: of the weights that were bytes, by name."""

    def __init__(self, program: Program):
        self.program = program
        self.fills: Dict[str, OperatorDef] = {}
        self._scales: Dict[str, Scale] = {}

    def translated(self, op: OperatorDef) -> List[OperatorDef]:
        """Caffe2's operators for one of the net; ExportError if there are none."""
        rule = _RULES.get(op.full_type)
        if rule is not None and (op.domain not in ("", "caffe2") or op.input[0] in self._scales):
            return rule(self, op)
        held = next((name for name in op.reads() if name in self._scales), None)
        schema = find(op)
        if op.domain not in ("", "caffe2"):
            made = op.domain == "armnet" or (schema is not None and schema.unpacks)
            raise ExportError(f"Caffe2 has no such operator{_MADE if made else ''}")
        if held is not None:
            raise ExportError(f"Caffe2 has no such operator on bytes, which {held!r} holds")
        return [op]

    def stated(self, op: OperatorDef, what: str) -> Scale:
        """The scale of an operand, by the operator's arguments."""
        return Scale(op.get_float(f"{what}_scale"), op.get_int(f"{what}_zero_point", 0) + UP)

    def reads(self, op: OperatorDef, index: int = 0, what: str = "X") -> str:
        """An input of bytes, which must have the scale that the operator takes it to have."""
        name = op.input[index]
        known = self._scales.setdefault(name, self.stated(op, what))
        if known != self.stated(op, what):
            raise ExportError(f"{name!r} has another scale than the operator takes it to have")
        return name

    def scale_of(self, name: str) -> Scale:
        """That of a blob of bytes."""
        return self._scales[name]

    def passes_on(self, op: OperatorDef, scale: Scale) -> Scale:
        """The scale, which is that of the first output, too."""
        self._scales[op.output[0]] = scale
        return scale

    def makes(self, type: str, op: OperatorDef, inputs: List[str], scale: Scale, **arguments: Any) -> List[OperatorDef]:
        """An operator whose first output holds bytes of this scale."""
        self._scales[op.output[0]] = scale
        return [OperatorDef.of(type, inputs, [op.output[0]], name=op.name, **scale.stated, **arguments)]

    def on_floats(
        self, type: str, op: OperatorDef, inputs: List[str], scale: Scale, **arguments: Any
    ) -> List[OperatorDef]:
        """An operator on floats, of which the first are made of bytes, and whose result becomes bytes of this scale."""
        reals, results = (self.program.fresh(f"{op.output[0]}_{one}") for one in ("x", "y"))
        return [
            OperatorDef.of("Int8Dequantize", inputs[:1], [reals]),
            OperatorDef.of(type, [reals, *inputs[1:]], [results], name=op.name, **arguments),
            *self.makes("Int8Quantize", op, [results], scale),
        ]

    def activated(self, op: OperatorDef, type: str, scale: Scale) -> str:
        """The type, with Relu behind it if the operator's activation cuts bytes off below zero."""
        low, high = activation_range(op, np.int8, Affine(np.float32(scale.scale), scale.zero_point - UP))
        if high + UP < MOST or low + UP not in (0, scale.zero_point):
            raise ExportError(f"Caffe2's operators on bytes do not end in {op.get_str('activation')}")
        return f"{type}Relu" if low + UP > 0 else type

    def weights(self, name: str, op: OperatorDef) -> Scale:
        """Makes the fill of int8 weights with one scale."""
        value, scales = self.program.value(name), set(op.get_floats("W_scales"))
        if value is None or value.dtype != np.int8:
            raise ExportError(f"the weights {name!r} are not constants of int8")
        if len(scales) != 1:
            raise ExportError(
                f"the weights {name!r} have a scale for each filter, Caffe2's have one: quantise with --per-tensor"
            )
        scale = Scale(scales.pop(), UP)
        self._fill("Int8GivenTensorFill", name, value, scale, _bytes(value))
        return scale

    def bias(self, op: OperatorDef, index: int, filters: int, scale: float) -> str:
        """Makes the fill of a bias of int32, zeros if the operator has none."""
        given = len(op.input) > index and op.input[index]
        name = op.input[index] if given else self.program.fresh(f"{op.output[0]}_bias")
        value = self.program.value(name) if given else np.zeros(filters, np.int32)
        if value is None or value.dtype != np.int32:
            raise ExportError(f"the bias {name!r} is no constant of int32")
        self._fill("Int8GivenIntTensorFill", name, value, Scale(scale, 0), value)
        return name

    def floats(self, name: str, scale: Scale) -> str:
        """Makes constant bytes a row of floats, one for all channels or one for each; their name."""
        value = self.program.value(name)
        if value is None or value.dtype != np.int8 or value.size != value.shape[-1]:
            raise ExportError(f"{name!r} is no constant of int8, one number for each channel")
        reals = np.float32(scale.scale) * (value.reshape(-1).astype(np.float32) + (UP - scale.zero_point))
        fill = Argument("values", floats=frozen(reals.astype(np.float32)))
        self.fills[name] = OperatorDef("GivenTensorFill", (), (name,), (Argument.of("shape", [value.size]), fill))
        return name

    def in_rows(self, name: str, terms: int, stem: str) -> List[OperatorDef]:
        """An operator that makes rows of so many bytes of a blob. stem: of names."""
        rows, sizes = (self.program.fresh(f"{stem}_{what}") for what in ("rows", "sizes"))
        stated = self._scales[name].stated
        return [OperatorDef.of("Int8Reshape", [name], [rows, sizes], shape=[-1, terms], **stated)]

    def constant(self, stem: str, value: Array, like: str) -> str:
        """Makes the fill of a constant, of bytes if the blob that it is like holds them; its name."""
        name = self.program.fresh(stem)
        if like in self._scales:
            self._scales[name] = self._scales[like]
            self._fill("Int8GivenTensorFill", name, value, self._scales[like], _bytes(value))
        else:
            self.fills[name] = fill(name, value, unpacked=True)
        return name

    def _fill(self, type: str, name: str, value: Array, scale: Scale, content: Any) -> None:
        values = (
            Argument("values", s=content)
            if isinstance(content, bytes)
            else Argument("values", ints=frozen(content.reshape(-1).astype(np.int64)))
        )
        stated = [Argument.of(key, one) for key, one in scale.stated.items()]
        self.fills[name] = OperatorDef(type, (), (name,), (Argument.of("shape", list(value.shape)), values, *stated))


Rule = Callable[[Bytes, OperatorDef], List[OperatorDef]]
_RULES: Dict[str, Rule] = {}


def rule(*types: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        _RULES.update(dict.fromkeys(types, function))
        return function

    return register


@rule("tflite.Quantize")
def quantize(net: Bytes, op: OperatorDef) -> List[OperatorDef]:
    if op.get_int("to") != INT8:
        raise ExportError("bytes are made of int8 alone")
    return net.makes("Int8Quantize", op, [op.input[0]], net.stated(op, "Y"))


@rule("tflite.Dequantize")
def dequantize(net: Bytes, op: OperatorDef) -> List[OperatorDef]:
    return [OperatorDef.of("Int8Dequantize", [net.reads(op)], op.output[:1], name=op.name)]


def _window(op: OperatorDef, kernel: Any) -> Dict[str, Any]:
    """Strides, padding and dilations under Caffe2's names."""
    pads, auto_pad = list(op.get_ints("pads")), op.get_str("auto_pad", "NOTSET")
    if auto_pad not in ("NOTSET", "VALID", "SAME_UPPER"):
        raise ExportError(f"Caffe2 does not pad by the rule {auto_pad}")
    dilations = list(op.get_ints("dilations", (1, 1)))
    return {
        **_LAST,
        "kernels": list(kernel),
        "strides": list(op.get_ints("strides", (1, 1))),
        "dilations": dilations if set(dilations) != {1} else None,
        "pads": (pads or [0] * 4) if auto_pad != "SAME_UPPER" else None,
        "legacy_pad": 2 if auto_pad == "SAME_UPPER" else None,
    }


def _given(**arguments: Any) -> Dict[str, Any]:
    return {name: value for name, value in arguments.items() if value is not None}


@rule("tflite.QuantizedConv")
def conv(net: Bytes, op: OperatorDef) -> List[OperatorDef]:
    x, w, y = net.reads(op), net.weights(op.input[1], op), net.stated(op, "Y")
    filters, *kernel, _ = net.fills[op.input[1]].get_ints("shape")
    b = net.bias(op, 2, filters, net.scale_of(x).scale * w.scale)
    group = op.get_int("group", 1)
    arguments = _given(**_window(op, kernel), group=group if group > 1 else None)
    return net.makes(net.activated(op, "Int8Conv", y), op, [x, op.input[1], b], y, **arguments)


@rule("tflite.QuantizedFullyConnected")
def fully_connected(net: Bytes, op: OperatorDef) -> List[OperatorDef]:
    x, w, y = net.reads(op), net.weights(op.input[1], op), net.stated(op, "Y")
    filters, terms = net.fills[op.input[1]].get_ints("shape")
    if op.get_bool("keep_num_dims") and not _is_matrix(net.program, x):
        raise ExportError("Caffe2's layer makes a matrix of what it reads")
    b = net.bias(op, 2, filters, net.scale_of(x).scale * w.scale)
    before = [] if _has_rows_of(net.program.dims(x), terms) else net.in_rows(x, terms, op.output[0])
    read = before[0].output[0] if before else x
    return [*before, *net.makes(net.activated(op, "Int8FC", y), op, [read, op.input[1], b], y)]


def _is_matrix(program: Program, name: str) -> bool:
    """Whether the blob has two dimensions, whatever open sizes are."""
    dims, place = program.dims(name), program.writer(name)
    if dims is not None or place is None:
        return dims is not None and len(dims) == 2
    op = program.net.op[place]
    return op.type == "QuantizedFullyConnected" and not op.get_bool("keep_num_dims")


def _has_rows_of(dims: Optional[Sequence[Optional[int]]], terms: int) -> bool:
    """Whether all that is behind the first dimension is one row of the weights."""
    sizes = [size for size in (dims or ())[1:] if size is not None]
    return dims is not None and len(sizes) == len(dims) - 1 and math.prod(sizes) == terms


@rule("tflite.QuantizedAdd")
def add(net: Bytes, op: OperatorDef) -> List[OperatorDef]:
    if any(name in net.program.weights for name in op.input) or not net.program.have_same_shape(*op.input):
        raise ExportError("Caffe2 adds two blobs of one shape, none of them constant")
    a, b, y = net.reads(op, 0, "A"), net.reads(op, 1, "B"), net.stated(op, "Y")
    return net.makes(net.activated(op, "Int8Add", y), op, [a, b], y)


@rule("tflite.QuantizedMaxPool", "tflite.QuantizedAveragePool")
def pool(net: Bytes, op: OperatorDef) -> List[OperatorDef]:
    type = f"Int8{op.type[len('Quantized') :]}"
    if op.type == "QuantizedAveragePool":
        if any(op.get_ints("pads")) or op.get_str("auto_pad", "NOTSET") == "SAME_UPPER":
            raise ExportError("Caffe2's mean counts padding")
        net.reads(op, 0, "Y")
    arguments, scale = _given(**_window(op, op.get_ints("kernel_shape"))), net.scale_of(op.input[0])
    return net.makes(net.activated(op, type, scale), op, [op.input[0]], scale, **arguments)


@rule("tflite.QuantizedMean")
def mean(net: Bytes, op: OperatorDef) -> List[OperatorDef]:
    if sorted(op.get_ints("axes")) != [1, 2] or not op.get_bool("keepdims"):
        raise ExportError("Caffe2 has the mean of a whole picture alone on bytes")
    return net.makes("Int8AveragePool", op, [net.reads(op)], net.stated(op, "Y"), global_pooling=1, **_LAST)


@rule("tflite.QuantizedLogistic")
def logistic(net: Bytes, op: OperatorDef) -> List[OperatorDef]:
    return net.makes("Int8Sigmoid", op, [net.reads(op)], Scale(1 / 256, 0))


@rule("tflite.QuantizedSoftmax")
def softmax(net: Bytes, op: OperatorDef) -> List[OperatorDef]:
    """Caffe2's takes all that is behind the first dimension as one row; of other rows, on floats between bytes."""
    if op.get_float("beta", 1.0) != 1.0:
        raise ExportError("Caffe2's has no beta")
    x, dims, y = net.reads(op), net.program.dims(op.input[0]), Scale(1 / 256, 0)
    if dims is None:
        raise ExportError("it is not known how many dimensions it reads")
    if len(dims) == 2:
        return net.makes("Int8Softmax", op, [x], y)
    return net.on_floats("Softmax", op, [x], y, axis=len(dims) - 1)


@rule("tflite.QuantizedLeakyRelu")
def leaky_relu(net: Bytes, op: OperatorDef) -> List[OperatorDef]:
    return net.makes("Int8LeakyRelu", op, [net.reads(op)], net.stated(op, "Y"), alpha=op.get_float("alpha"))


@rule("tflite.QuantizedPRelu")
def p_relu(net: Bytes, op: OperatorDef) -> List[OperatorDef]:
    """On floats between bytes: Caffe2 has no other."""
    slopes = net.floats(op.input[1], net.stated(op, "B"))
    return net.on_floats("PRelu", op, [net.reads(op, 0, "A"), slopes], net.stated(op, "Y"), **_LAST)


@rule("tflite.QuantizedRelu")
def relu(net: Bytes, op: OperatorDef) -> List[OperatorDef]:
    x, y = net.reads(op), net.stated(op, "Y")
    if op.get_str("activation", "RELU") != "RELU" or net.scale_of(x) != y:
        raise ExportError("Caffe2's limits bytes at zero, and does not change their scale")
    return net.makes("Int8Relu", op, [x], y)


@rule("onnx.Pad")
def pad(net: Bytes, op: OperatorDef) -> List[OperatorDef]:
    """Joins a constant to the ends of one dimension after the other, of bytes or of floats."""
    x, y, constants = op.input[0], op.output[0], constants_behind(net.program, op)
    spec, dims = net.program.specs(x)[0], net.program.dims(x)
    if spec is None or dims is None or None in dims or any(n and c is None for n, c in zip(op.input[1:], constants)):
        raise ExportError("Caffe2 joins constants to blobs, and both need sizes that are known")
    padding, shape, ops = padding_of(op, spec, constants), list(spec.shape), []
    if padding.mode != "constant" or min([*padding.heads, *padding.tails], default=0) < 0:
        raise ExportError("Caffe2 joins constants to blobs, and has nothing else at their ends")
    given = constants[1] if len(constants) > 1 else None
    value = np.zeros((), spec.dtype) if given is None or given.value is None else given.value
    axes = [axis for axis, ends in enumerate(zip(padding.heads, padding.tails)) if any(ends)] or [0]
    for axis in axes:
        ends = [np.full([*shape[:axis], n[axis], *shape[axis + 1 :]], value) for n in (padding.heads, padding.tails)]
        head, tail = (
            [net.constant(f"{y}_{axis}_{what}", end, x)] if end.size else []
            for what, end in zip(("head", "tail"), ends)
        )
        written = y if axis == axes[-1] else net.program.fresh(f"{y}_{axis}")
        outputs = [written, net.program.fresh(f"{written}_sizes")]
        ops += net.translated(OperatorDef.of("Concat", [*head, x, *tail], outputs, axis=axis))
        x, shape[axis] = written, shape[axis] + padding.heads[axis] + padding.tails[axis]
    return ops


@rule("Squeeze", "ExpandDims")
def reshaped(net: Bytes, op: OperatorDef) -> List[OperatorDef]:
    y, dims = op.output[0], net.program.dims(op.output[0])
    if dims is None or dims.count(None) > 1:
        raise ExportError("Caffe2 reshapes bytes to sizes that are known, but for one")
    shape = [-1 if size is None else size for size in dims]
    scale = net.passes_on(op, net.scale_of(op.input[0]))
    sizes = net.program.fresh(f"{y}_sizes")
    return [OperatorDef.of("Int8Reshape", [op.input[0]], [y, sizes], name=op.name, shape=shape, **scale.stated)]


_MOVED = ("Concat", "Reshape", "Flatten", "Transpose", "ChannelShuffle", "ResizeNearest", "Slice")


@rule(*_MOVED)
def moved(net: Bytes, op: OperatorDef) -> List[OperatorDef]:
    """What only moves bytes states their scale."""
    count = len(op.input) if op.type == "Concat" else 1
    scales = {net.scale_of(name) for name in op.input[:count]}
    if len(scales) > 1 or op.get_bool("add_axis"):
        raise ExportError("Caffe2 joins bytes of one scale along an axis that there is")
    if op.type in ("ChannelShuffle", "ResizeNearest") and op.get_str("order", "NCHW") != "NHWC":
        raise ExportError("Caffe2's has the channels of bytes last")
    scale = net.passes_on(op, scales.pop())
    return [op.replace(type=f"Int8{op.type}").with_args(**scale.stated)]
