"""ONNX's operators on floats that Caffe2 has with differences, or expresses by several operators."""

from __future__ import annotations

from typing import List

from exporter.to_caffe2.translator import Translator, rule, transposed
from runtime_arm.errors import ExportError
from runtime_arm.netdef import OperatorDef


@rule("onnx.Sign")
def sign(net: Translator, op: OperatorDef) -> List[OperatorDef]:
    """In Caffe2 the sign of NaN is 0."""
    return [op.replace(domain="")]


@rule("onnx.HardSwish")
def of_hard_swish(net: Translator, op: OperatorDef) -> List[OperatorDef]:
    return hard_swish(net, op.input[0], op.output[0], op.name)


def hard_swish(net: Translator, x: str, y: str, name: str) -> List[OperatorDef]:
    """x HardSigmoid(x) with the slope 1/6 and the offset 1/2."""
    gate = net.fresh(f"{y}_gate")
    return [
        OperatorDef.of("HardSigmoid", [x], [gate], alpha=1 / 6, beta=0.5),
        OperatorDef.of("Mul", [x, gate], [y], name=name),
    ]


@rule("onnx.Softmax")
def softmax(net: Translator, op: OperatorDef) -> List[OperatorDef]:
    """Caffe2's flattens the axis and all after it into one row, so the axis is moved to the end."""
    (x,), (y,), dims = op.input, op.output, net.program.dims(op.input[0])
    if dims is None:
        raise ExportError("it is not known how many dimensions it reads")
    last = len(dims) - 1
    axis = op.get_int("axis", -1) % len(dims)
    order = [*(one for one in range(len(dims)) if one != axis), axis]
    return transposed(net, x, y, order, lambda x, y: [OperatorDef.of("Softmax", [x], [y], name=op.name, axis=last)])


@rule("onnx.Softplus")
def softplus(net: Translator, op: OperatorDef) -> List[OperatorDef]:
    """max(x, 0) + Softplus(-|x|): Caffe2's own overflows where exp(x) does."""
    x, y = op.input[0], op.output[0]
    size, opposite, rest, positive = (net.fresh(f"{y}_{what}") for what in ("abs", "negative", "rest", "positive"))
    return [
        OperatorDef.of("Abs", [x], [size]),
        OperatorDef.of("Negative", [size], [opposite]),
        OperatorDef.of("Softplus", [opposite], [rest]),
        OperatorDef.of("Relu", [x], [positive]),
        OperatorDef.of("Add", [positive, rest], [y], name=op.name),
    ]
