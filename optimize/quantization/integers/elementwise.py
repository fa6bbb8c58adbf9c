"""Sums, products and functions of one number on integers."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

import numpy as np

from optimize.quantization.calibration import Range
from optimize.quantization.integers.activations import activation_of, following
from optimize.quantization.integers.net import INT8, INT16, IntegerNet, Scale
from optimize.quantization.integers.rules import leaves_net, rule
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.netdef.dtypes import number_of

_BINARY = {"Add": "QuantizedAdd", "Sum": "QuantizedAdd", "Sub": "QuantizedSub", "Mul": "QuantizedMul"}
_BINARY.update({f"onnx.{name}": type for name, type in _BINARY.items()})
_UNARY = {
    "onnx.HardSwish": "QuantizedHardSwish",
    "HardSwish": "QuantizedHardSwish",
    "Elu": "QuantizedElu",
    "Sigmoid": "QuantizedLogistic",
    "Tanh": "QuantizedTanh",
}
_FLOAT = "its operand is a float"
_OF_AN_OUTPUT = "it computes an output, and floats keep outputs more exact"
_FIXED = {"Sigmoid": Scale(1 / 256, -128), "Tanh": Scale(1 / 128, 0)}  # what TensorFlow Lite demands of the output
_FIXED_INT16 = Scale(1 / 32768, 0)


def _fixed(net: IntegerNet, type: str) -> Scale:
    """The scale that TensorFlow Lite demands of the output of Sigmoid, Tanh or Softmax."""
    return _FIXED_INT16 if net.dtype == INT16 else _FIXED.get(type, _FIXED["Sigmoid"])


@rule(*_BINARY)
def binary(net: IntegerNet, op: OperatorDef) -> Optional[str]:
    """At least one operand has integers already; the other may be constant."""
    if len(op.input) != 2 or op.get_bool("broadcast"):
        return "only sums and products of two operands that broadcast by NumPy's rules have a quantised form"
    if not any(name in net.twins for name in op.input):
        return "its operands are floats"
    rank = net.rank(op.output[0])
    if rank is None or any(net.constant(name) is None and net.rank(name) != rank for name in op.input):
        return "its operands have different numbers of dimensions"
    if any(net.constant(name) is None and name not in net.scales for name in op.input):
        return "the range of an operand is not known"
    last = net.is_last(op.output[0])
    (a, a_scale), (b, b_scale) = (_operand(net, name, rank, last) for name in op.input)
    output, activation = following(net, op)
    scale = net.scales[output]
    net.add(
        _BINARY[op.full_type],
        [a, b],
        net.write(output, scale, last),
        **a_scale.of("A"),
        **b_scale.of("B"),
        **scale.of("Y"),
        activation=activation,
    )
    return None


def _operand(net: IntegerNet, name: str, rank: int, last: bool) -> Tuple[str, Scale]:
    value = net.constant(name)
    if value is None:
        return net.integer(name, last)
    return _stored(net, value, rank, last, net.dtype)


def _stored(net: IntegerNet, value: Array, rank: int, last: bool, dtype: Any) -> Tuple[str, Scale]:
    """A constant operand as integers, and their scale."""
    scale = Scale.holding(Range(float(value.min(initial=0)), float(value.max(initial=0))), dtype)
    integers = scale.integers(value, dtype)
    return net.weight(np.dtype(dtype).name, _as_picture(integers, rank, last)), scale


def _as_picture(value: Array, rank: int, last: bool) -> Array:
    """A constant operand with as many dimensions as the other, its channels last if those of the other are."""
    full = value.reshape((1,) * (rank - value.ndim) + value.shape)
    return np.asarray(full.transpose(0, 2, 3, 1) if last else full)


@rule(*_UNARY)
def unary(net: IntegerNet, op: OperatorDef) -> Optional[str]:
    return _function(net, op, _UNARY[op.full_type], {})


@rule("LeakyRelu")
def leaky_relu(net: IntegerNet, op: OperatorDef) -> Optional[str]:
    return _function(net, op, "QuantizedLeakyRelu", {"alpha": op.get_float("alpha", 0.01)})


@rule("PRelu", "onnx.PRelu")
def p_relu(net: IntegerNet, op: OperatorDef) -> Optional[str]:
    """Slopes are int8, those of int16, too. Caffe2 has one slope, or one a channel; ONNX's broadcast."""
    slope, rank = net.constant(op.input[1]), net.rank(op.input[0])
    if slope is None or rank is None or slope.ndim > rank:
        return "its slopes are not constant"
    if op.get_str("order", "NCHW") != "NCHW":
        return "only channels that come first have a quantised form"
    if not op.domain:
        slope = slope.reshape([-1 if axis == 1 else 1 for axis in range(rank)])
    if op.input[0] not in net.twins:
        return _FLOAT
    last = net.is_last(op.input[0])
    x, x_scale = net.integer(op.input[0], last)
    b, b_scale = _stored(net, slope, rank, last, INT8)
    y_scale = net.scales[op.output[0]]
    written = net.write(op.output[0], y_scale, last)
    net.add("QuantizedPRelu", [x, b], written, **x_scale.of("A"), **b_scale.of("B"), **y_scale.of("Y"))
    return None


@rule("Relu", "Clip")
def relu(net: IntegerNet, op: OperatorDef) -> Optional[str]:
    activation = activation_of(op)
    if activation is None:
        return "only limits of ReLU, ReLU6 and -1 to 1 have a quantised form"
    return _function(net, op, "QuantizedRelu", {"activation": activation})


def _function(net: IntegerNet, op: OperatorDef, type: str, arguments: Dict[str, Any]) -> Optional[str]:
    if op.input[0] not in net.twins:
        return _FLOAT
    if net.lacks(type):
        return net.lacks(type)
    if op.type in _FIXED and leaves_net(net, op.output[0]):
        return _OF_AN_OUTPUT
    last = net.is_last(op.input[0])
    x, x_scale = net.integer(op.input[0], last)
    y_scale = _fixed(net, op.type) if op.type in _FIXED else net.scales[op.output[0]]
    written = net.write(op.output[0], y_scale, last)
    net.add(type, [x], written, **arguments, **x_scale.of("X"), **y_scale.of("Y"))
    return None


@rule("Swish")
def swish(net: IntegerNet, op: OperatorDef) -> Optional[str]:
    """X sigmoid(X), in two steps."""
    if op.input[0] not in net.twins:
        return _FLOAT
    last = net.is_last(op.input[0])
    x, x_scale = net.integer(op.input[0], last)
    gate, gate_scale, y_scale = net.fresh(f"{op.output[0]}_gate"), _fixed(net, "Sigmoid"), net.scales[op.output[0]]
    net.add("QuantizedLogistic", [x], gate, **x_scale.of("X"), **gate_scale.of("Y"))
    written = net.write(op.output[0], y_scale, last)
    net.add("QuantizedMul", [x, gate], written, **x_scale.of("A"), **gate_scale.of("B"), **y_scale.of("Y"))
    return None


@rule("Softmax", "onnx.Softmax")
def softmax(net: IntegerNet, op: OperatorDef) -> Optional[str]:
    """Over the last dimension; the result has the scale 1 / 256."""
    rank = net.rank(op.input[0])
    axis = op.get_int("axis", -1 if op.domain else 1)
    if op.input[0] not in net.twins:
        return _FLOAT
    if rank is None or axis % max(rank, 1) != rank - 1:
        return "it is not over the last dimension"
    if leaves_net(net, op.output[0]):
        return _OF_AN_OUTPUT
    x, x_scale = net.integer(op.input[0], False)
    written = net.write(op.output[0], _fixed(net, "Softmax"), False)
    net.add("QuantizedSoftmax", [x], written, beta=1.0, to=number_of(net.dtype), **x_scale.of("X"))
    return None
