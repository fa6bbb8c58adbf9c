"""TFLite's operators on int8 and uint8 as Caffe2's on bytes."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Optional, Sequence

from exporter.to_caffe2.floats import hard_swish
from exporter.to_caffe2.translator import LAST, Scale, Translator, rule
from optimize.rewriting.program import Program
from runtime_arm.errors import ExportError
from runtime_arm.netdef import OperatorDef


@rule("tflite.Quantize")
def quantize(net: Translator, op: OperatorDef) -> List[OperatorDef]:
    return net.makes("Int8Quantize", op, [op.input[0]], net.result(op))


@rule("tflite.Dequantize")
def dequantize(net: Translator, op: OperatorDef) -> List[OperatorDef]:
    return [OperatorDef.of("Int8Dequantize", [net.reads(op)], op.output[:1], name=op.name)]


def _window(op: OperatorDef, kernel: Any) -> Dict[str, Any]:
    """Strides, padding and dilations under Caffe2's names."""
    pads, auto_pad = list(op.get_ints("pads")), op.get_str("auto_pad", "NOTSET")
    if auto_pad not in ("NOTSET", "VALID", "SAME_UPPER"):
        raise ExportError(f"Caffe2 does not pad by the rule {auto_pad}")
    dilations = list(op.get_ints("dilations", (1, 1)))
    return {
        **LAST,
        "kernels": list(kernel),
        "strides": list(op.get_ints("strides", (1, 1))),
        "dilations": dilations if set(dilations) != {1} else None,
        "pads": (pads or [0] * 4) if auto_pad != "SAME_UPPER" else None,
        "legacy_pad": 2 if auto_pad == "SAME_UPPER" else None,
    }


def _given(**arguments: Any) -> Dict[str, Any]:
    return {name: value for name, value in arguments.items() if value is not None}


@rule("tflite.QuantizedConv")
def conv(net: Translator, op: OperatorDef) -> List[OperatorDef]:
    x, w, y = net.reads(op), net.weights(op.input[1], op), net.result(op)
    filters, *kernel, _ = net.fills[op.input[1]].get_ints("shape")
    b = net.bias(op, 2, filters, net.scale_of(x).scale * w.scale)
    group = op.get_int("group", 1)
    arguments = _given(**_window(op, kernel), group=group if group > 1 else None)
    return net.activated("Int8Conv", op, [x, op.input[1], b], y, **arguments)


@rule("tflite.QuantizedFullyConnected")
def fully_connected(net: Translator, op: OperatorDef) -> List[OperatorDef]:
    x, w, y = net.reads(op), net.weights(op.input[1], op), net.result(op)
    filters, terms = net.fills[op.input[1]].get_ints("shape")
    if op.get_bool("keep_num_dims") and not _is_matrix(net.program, x):
        raise ExportError("Caffe2's layer flattens its input to a matrix")
    b = net.bias(op, 2, filters, net.scale_of(x).scale * w.scale)
    before = [] if _has_rows_of(net.program.dims(x), terms) else net.in_rows(x, terms, op.output[0])
    read = before[0].output[0] if before else x
    return [*before, *net.activated("Int8FC", op, [read, op.input[1], b], y)]


def _is_matrix(program: Program, name: str) -> bool:
    """Whether the blob has two dimensions for all open sizes."""
    dims, place = program.dims(name), program.writer(name)
    if dims is not None or place is None:
        return dims is not None and len(dims) == 2
    op = program.net.op[place]
    return op.type == "QuantizedFullyConnected" and not op.get_bool("keep_num_dims")


def _has_rows_of(dims: Optional[Sequence[Optional[int]]], terms: int) -> bool:
    """Whether the dimensions after the first are together as long as a row of the weights."""
    sizes = [size for size in (dims or ())[1:] if size is not None]
    return dims is not None and len(sizes) == len(dims) - 1 and math.prod(sizes) == terms


@rule("tflite.QuantizedAdd")
def add(net: Translator, op: OperatorDef) -> List[OperatorDef]:
    if any(name in net.program.weights for name in op.input) or not net.program.have_same_shape(*op.input):
        return of_two_numbers(net, op)  # Caffe2's adds two blobs of one shape, none of them constant
    a, b, y = net.reads(op, 0, "A"), net.reads(op, 1, "B"), net.result(op)
    return net.activated("Int8Add", op, [a, b], y)


@rule("tflite.QuantizedMaxPool", "tflite.QuantizedAveragePool")
def pool(net: Translator, op: OperatorDef) -> List[OperatorDef]:
    type, x = f"Int8{op.type[len('Quantized') :]}", op.input[0]
    if op.type == "QuantizedAveragePool":
        if any(op.get_ints("pads")) or op.get_str("auto_pad", "NOTSET") == "SAME_UPPER":
            raise ExportError("Caffe2's mean counts padding")
        x = net.reads(op, 0, "Y")
    arguments, scale = _given(**_window(op, op.get_ints("kernel_shape"))), net.scale_of(x)
    return net.activated(type, op, [x], scale, **arguments)


@rule("tflite.QuantizedMean")
def mean(net: Translator, op: OperatorDef) -> List[OperatorDef]:
    if sorted(op.get_ints("axes")) != [1, 2] or not op.get_bool("keepdims"):
        raise ExportError("on bytes Caffe2 has only the mean of a whole picture")
    return net.makes("Int8AveragePool", op, [net.reads(op)], net.result(op), global_pooling=1, **LAST)


@rule("tflite.QuantizedLogistic")
def logistic(net: Translator, op: OperatorDef) -> List[OperatorDef]:
    return net.makes("Int8Sigmoid", op, [net.reads(op)], Scale(1 / 256, 0))


@rule("tflite.QuantizedSoftmax")
def softmax(net: Translator, op: OperatorDef) -> List[OperatorDef]:
    """Caffe2's takes all dimensions after the first as one row; other rows are computed on floats between bytes."""
    if op.get_float("beta", 1.0) != 1.0:
        raise ExportError("Caffe2's has no beta")
    x, dims, y = net.reads(op), net.program.dims(op.input[0]), Scale(1 / 256, 0)
    if dims is None:
        raise ExportError("it is not known how many dimensions it reads")
    if len(dims) == 2:
        return net.makes("Int8Softmax", op, [x], y)
    return net.on_floats(op, [x], y, "Softmax", axis=len(dims) - 1)


@rule("tflite.QuantizedLeakyRelu")
def leaky_relu(net: Translator, op: OperatorDef) -> List[OperatorDef]:
    return net.makes("Int8LeakyRelu", op, [net.reads(op)], net.result(op), alpha=op.get_float("alpha"))


@rule("tflite.QuantizedPRelu")
def p_relu(net: Translator, op: OperatorDef) -> List[OperatorDef]:
    """On floats between bytes: Caffe2 has none on bytes."""
    value = net.program.value(op.input[1])
    if value is None or value.size != value.shape[-1]:
        raise ExportError(f"{op.input[1]!r} is not a constant with one number for each channel")
    slopes = net.floats(op, 1, "B", shape=(-1,))
    return net.on_floats(op, [net.reads(op, 0, "A"), slopes], net.result(op), "PRelu", **LAST)


@rule(*(f"tflite.Quantized{type}" for type in ("Elu", "Exp", "Log", "Sqrt", "Tanh")))
def of_one_number(net: Translator, op: OperatorDef) -> List[OperatorDef]:
    """On floats between bytes."""
    return net.on_floats(op, [net.reads(op)], net.result(op), op.type[len("Quantized") :])


@rule("tflite.QuantizedHardSwish")
def of_hard_swish(net: Translator, op: OperatorDef) -> List[OperatorDef]:
    return net.on_floats(op, [net.reads(op)], net.result(op), lambda x, y: hard_swish(net, x, y, op.name))


@rule("tflite.QuantizedMul", "tflite.QuantizedSub", "tflite.QuantizedDiv")
def of_two_numbers(net: Translator, op: OperatorDef) -> List[OperatorDef]:
    """On floats, which may have any two shapes that broadcast."""
    operands = [net.floats(op, 0, "A"), net.floats(op, 1, "B")]
    return net.on_floats(op, operands, net.result(op), op.type[len("Quantized") :])


@rule("tflite.Requantize", "tflite.RescaleOperand")
def requantize(net: Translator, op: OperatorDef) -> List[OperatorDef]:
    x, reals = net.reads(op), net.fresh(f"{op.output[0]}_x")
    made = net.makes("Int8Quantize", op, [reals], net.result(op))
    return [OperatorDef.of("Int8Dequantize", [x], [reals]), *made]


@rule("tflite.QuantizedRelu")
def relu(net: Translator, op: OperatorDef) -> List[OperatorDef]:
    x, y = net.reads(op), net.result(op)
    if op.get_str("activation", "RELU") != "RELU" or net.scale_of(x) != y:
        raise ExportError("Caffe2's operator limits bytes only at zero, and does not change their scale")
    return net.makes("Int8Relu", op, [x], y)


@rule("Squeeze", "ExpandDims")
def reshaped(net: Translator, op: OperatorDef) -> List[OperatorDef]:
    y, dims = op.output[0], net.program.dims(op.output[0])
    if dims is None or dims.count(None) > 1:
        raise ExportError("Caffe2 reshapes bytes only to sizes of which at most one is unknown")
    shape = [-1 if size is None else size for size in dims]
    scale = net.passes_on(op, net.scale_of(op.input[0]))
    sizes = net.fresh(f"{y}_sizes")
    return [OperatorDef.of("Int8Reshape", [op.input[0]], [y, sizes], name=op.name, shape=shape, **scale.stated)]


_MOVED = ("Concat", "Reshape", "Flatten", "Transpose", "ChannelShuffle", "ResizeNearest", "Slice")


@rule(*_MOVED)
def moved(net: Translator, op: OperatorDef) -> List[OperatorDef]:
    """Operators that only move bytes state their scale."""
    count = len(op.input) if op.type == "Concat" else 1
    scales = {net.scale_of(name) for name in op.input[:count]}
    if len(scales) > 1 or op.get_bool("add_axis"):
        raise ExportError("Caffe2 joins bytes only if they have one scale, and only along an existing axis")
    if op.type in ("ChannelShuffle", "ResizeNearest") and op.get_str("order", "NCHW") != "NHWC":
        raise ExportError("Caffe2's operator on bytes has the channels last")
    scale = net.passes_on(op, scales.pop())
    return [op.replace(type=f"Int8{op.type}").with_args(**scale.stated)]
