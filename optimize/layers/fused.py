"""armnet's fused operators: which operators they consist of, how to make one and how to split it into its parts."""

from __future__ import annotations

from typing import Optional, Tuple

from optimize.rewriting.operator_types import TypesWhose
from optimize.rewriting.rewrite import Refusal
from runtime_arm.netdef import Argument, OperatorDef
from runtime_arm.operators.common.windows import channels_last
from runtime_arm.operators.fused.fused import OPERANDS, PRELU, activation_of, formula_of
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.schema import Operator, lookup

ADDITIONS = {"Add", "Sum", "onnx.Add", "onnx.Sum"}
ACTIVATIONS = TypesWhose(lambda schema: schema.formula is not None or (schema.domain, schema.type) == ("", PRELU))
PLAIN = TypesWhose(lambda schema: schema.fused is not None)
FUSIBLE = TypesWhose(lambda schema: schema.fused is not None or _takes_addend(schema))


def _takes_addend(schema: Operator) -> bool:
    """Whether this is a fused type that PLAIN ones become."""
    return schema.fusion is not None and schema.fusion.addend is not None


def addend_index(op: OperatorDef) -> int:
    """The index of the addend among the inputs of the fused operator; the activation's operand follows it."""
    schema = lookup(op)
    if schema.fused is not None:
        schema = lookup(op.replace(type=schema.fused, domain="armnet"))
    assert schema.fusion is not None
    assert schema.fusion.addend is not None
    return schema.fusion.addend


def with_addend(op: OperatorDef, addend: str, y: str) -> OperatorDef:
    """The plain operator, fused with the addition of a blob."""
    _require_inference(op)
    return _fused(op, addend_index(op), addend, y)


def with_activation(op: OperatorDef, activation: OperatorDef) -> OperatorDef:
    """The operator, fused with the activation after it. Refusal if that is impossible."""
    _require_inference(op)
    if op.has("activation"):
        raise Refusal("it has an activation already")
    y, at = activation.output[0], addend_index(op) + 1
    if activation.full_type == PRELU and not _agree_on_channels(op, activation):
        raise Refusal("the channels lie in different dimensions")
    takes = activation.full_type in OPERANDS
    fused = _fused(op, at, activation.input[1], y) if takes else _fused(op, 0, op.input[0], y)
    return fused.replace(arg=(*fused.arg, *as_arguments(activation)))


def as_arguments(activation: OperatorDef) -> Tuple[Argument, ...]:
    """The arguments with which a fused operator ends with this activation."""
    own = [arg for arg in activation.arg if arg.name in _arguments(activation)]
    return Argument.of("activation", activation.full_type), *own


def without_activation(op: OperatorDef) -> Tuple[OperatorDef, Optional[OperatorDef]]:
    """A fused convolution without its activation, and that activation, which reads and writes its output."""
    fusion, activation = lookup(op).fusion, activation_of(op)
    if fusion is None or activation is None:
        return op, None
    names, at = _arguments(activation), len(op.input) if fusion.addend is None else fusion.addend
    operand, inputs = op.input[at + 1 :], op.input[: at + 1]
    own = tuple(arg for arg in op.arg if arg.name in names)
    before = op.replace(input=inputs, arg=tuple(arg for arg in op.arg if arg.name not in {"activation", *names}))
    if not any(inputs[at:]):
        before = before.replace(type=fusion.layer, domain="", input=inputs[:at])
    return before, OperatorDef(activation.type, (*op.output, *operand), op.output, own, domain=activation.domain)


def _agree_on_channels(op: OperatorDef, activation: OperatorDef) -> bool:
    if lookup(op).kind is Kind.FULLY_CONNECTED:  # its channels are the last dimension, those of PRelu dimension 1
        return op.get_int("axis", 1) == 1
    return channels_last(op) == channels_last(activation)


def _require_inference(op: OperatorDef) -> None:
    if lookup(op).kind is Kind.BATCH_NORM and not op.get_int("is_test", 0):
        raise Refusal("the normalisation takes its statistics from each batch")


def _arguments(activation: OperatorDef) -> set[str]:
    """The names of the arguments that the activation reads."""
    formula = formula_of(activation)
    return set() if formula is None else set(formula.defaults)


def _fused(op: OperatorDef, at: int, name: str, y: str) -> OperatorDef:
    """The operator under its fused type, with one input set; missing inputs before it are empty names."""
    inputs = [*op.input, *[""] * (at + 1 - len(op.input))]
    inputs[at] = name
    return op.replace(type=lookup(op).fused or op.type, domain="armnet", input=tuple(inputs), output=(y,))
