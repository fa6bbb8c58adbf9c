"""armnet's fused operators: what they are made of and how one is put together."""

from __future__ import annotations

from dataclasses import replace
from typing import Optional, Tuple

from optimize.layers.linear import CONVOLUTIONS
from optimize.rewriting.rewrite import Refusal
from runtime_arm.netdef import Argument, OperatorDef
from runtime_arm.operators.common.formulas import FORMULAS
from runtime_arm.operators.common.windows import channels_last
from runtime_arm.operators.fused.fused import OPERANDS, PRELU, activation_of
from runtime_arm.registry.schema import lookup

ADDITIONS = {"Add", "Sum", "onnx.Add", "onnx.Sum"}
ACTIVATIONS = {
    "Clip",
    "Elu",
    "Gelu",
    "HardSigmoid",
    "LeakyRelu",
    PRELU,
    "Relu",
    "ReluN",
    "Selu",
    "Sigmoid",
    "Softplus",
    "Softsign",
    "Swish",
    "onnx.Celu",
    "onnx.Elu",
    "onnx.Gelu",
    "onnx.HardSigmoid",
    "onnx.HardSwish",
    "onnx.LeakyRelu",
    "onnx.Mish",
    "onnx.Relu",
    "onnx.Selu",
    "onnx.Sigmoid",
    "onnx.Softplus",
    "onnx.Softsign",
    "onnx.Swish",
}
_FUSED_TYPES = {
    "ConvTranspose": "FusedConvTranspose",
    "FC": "FusedFC",
    "FCTransposed": "FusedFCTransposed",
    "SpatialBN": "FusedBatchNorm",
    **dict.fromkeys(CONVOLUTIONS, "FusedConv"),
}
PLAIN = set(_FUSED_TYPES)
FUSED = {f"armnet.{type}" for type in _FUSED_TYPES.values()}


def addend_index(op: OperatorDef) -> int:
    """Which input of the fused operator (or of that which becomes one) is the addend; the activation's follows."""
    return 5 if op.type in ("FusedBatchNorm", "SpatialBN") else 3


def with_addend(op: OperatorDef, addend: str, y: str) -> OperatorDef:
    """The operator, plain as yet, with an addend."""
    _require_inference(op)
    return _fused(op, addend_index(op), addend, y)


def with_activation(op: OperatorDef, activation: OperatorDef) -> OperatorDef:
    """The operator with an activation at its end. Refusal if that cannot be."""
    _require_inference(op)
    if op.has("activation"):
        raise Refusal("it has an activation already")
    y, at = activation.output[0], addend_index(op) + 1
    if activation.full_type == PRELU and not _agree_on_channels(op, activation):
        raise Refusal("the channels lie in different dimensions")
    takes = activation.full_type in OPERANDS
    fused = _fused(op, at, activation.input[1], y) if takes else _fused(op, 0, op.input[0], y)
    return replace(fused, arg=(*fused.arg, *as_arguments(activation)))


def as_arguments(activation: OperatorDef) -> Tuple[Argument, ...]:
    """What says of a fused operator that it ends with this activation."""
    own = [arg for arg in activation.arg if arg.name in _arguments(activation)]
    return Argument.of("activation", activation.full_type), *own


def without_activation(op: OperatorDef) -> Tuple[OperatorDef, Optional[OperatorDef]]:
    """A convolution as what it is in front of its activation, and that activation, from its output to its output."""
    if op.type == "ConvRelu":
        return replace(op, type="Conv"), OperatorDef("Relu", op.output, op.output)
    activation = activation_of(op)
    if activation is None:
        return op, None
    names, at = _arguments(activation), addend_index(op)
    operand, inputs = op.input[at + 1 :], op.input[: at + 1]
    own = tuple(arg for arg in op.arg if arg.name in names)
    before = replace(op, input=inputs, arg=tuple(arg for arg in op.arg if arg.name not in {"activation", *names}))
    if not any(inputs[at:]):
        before = replace(before, type="Conv", domain="", input=inputs[:at])
    return before, OperatorDef(activation.type, (*op.output, *operand), op.output, own, domain=activation.domain)


def _agree_on_channels(op: OperatorDef, activation: OperatorDef) -> bool:
    if "FC" in op.type:  # its channels come last, those of PRelu in the dimension 1
        return op.get_int("axis", 1) == 1
    return channels_last(op) == channels_last(activation)


def _require_inference(op: OperatorDef) -> None:
    if op.type == "SpatialBN" and not op.get_int("is_test", 0):
        raise Refusal("the normalisation takes its statistics from each batch")


def _arguments(activation: OperatorDef) -> set[str]:
    """The arguments that the activation has a use for."""
    if activation.full_type in OPERANDS:
        return set()
    lookup(activation)  # loads its formula
    return set(FORMULAS[activation.domain, activation.type].defaults)


def _fused(op: OperatorDef, at: int, name: str, y: str) -> OperatorDef:
    """The operator under its fused type, with one input set; what is left out in front of that is the empty name."""
    inputs = [*op.input, *[""] * (at + 1 - len(op.input))]
    inputs[at] = name
    return replace(op, type=_FUSED_TYPES.get(op.type, op.type), domain="armnet", input=tuple(inputs), output=(y,))


def other_input(op: OperatorDef, name: str) -> Optional[str]:
    """The input of an operator of two that is not ``name``; None if it is otherwise."""
    others = [other for other in op.input if other != name]
    return others[0] if len(op.input) == 2 and len(others) == 1 else None
