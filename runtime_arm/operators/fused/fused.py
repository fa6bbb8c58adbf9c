"""Fused operators: a layer (convolution, batch normalisation, ...), then perhaps an addition, then an activation.

They are armnet's own (domain "armnet"), and the optimizer makes them. Their arguments are those of the layer, and
``activation``: the type of the activation ("Relu", "Clip", "onnx.HardSwish", ...), whose arguments are also arguments
of the operator. Two activations take a second operand, which is the operator's last input: PRelu its slope, onnx.Max
one number per channel, the floor. The schema of a type lists its parts, ``fusion=`` (see ``registry/facts.py``).
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.broadcasting import broadcast
from runtime_arm.operators.common.dtypes import require_same_dtype
from runtime_arm.operators.common.multiply_adds import per_output
from runtime_arm.operators.common.windows import channels_last
from runtime_arm.operators.conv.convolution import conv, conv_reference
from runtime_arm.registry.facts import FastFormula, Fusion, Kind
from runtime_arm.registry.schema import find, lookup, operator, require
from runtime_arm.registry.specs import Shape, TensorSpec

PRELU, MAX = "PRelu", "onnx.Max"
OPERANDS = {PRELU: "slope", MAX: "floor"}  # of the activations that take one


def activation_of(op: OperatorDef) -> Optional[OperatorDef]:
    """The activation of a fused operator as an operator of its own, None without one. The name of its input is made
    up."""
    schema = find(op)
    fusion = None if schema is None else schema.fusion
    full_type = "" if fusion is None else fusion.activation or op.get_str("activation", "")
    if not full_type:
        return None
    domain, _, type = full_type.rpartition(".")
    y = op.output[0]
    inputs = (f"{y} before its activation", *(op.input[-1:] if full_type in OPERANDS else ()))
    args = tuple(arg for arg in op.arg if arg.name != "activation")
    return op.replace(type=type, domain=domain, input=inputs, output=(y,), arg=args)


def is_broadcast(addend: Optional[TensorSpec], y: TensorSpec, shape: Shape) -> bool:
    """Whether the addend, or the layer's results of this shape, are broadcast to make Y; no fast kernel does that."""
    return y.shape != shape or (addend is not None and addend.shape != shape)


def can_be_fused(activation: OperatorDef) -> bool:
    """Whether a fused operator can end with this one: it has one input and a fast formula, or is PRelu or onnx.Max."""
    return activation.full_type in OPERANDS or formula_of(activation) is not None


def formula_of(op: OperatorDef) -> Optional[FastFormula]:
    """The fast formula of an operator, None if it has none."""
    schema = find(op)
    return None if schema is None else schema.formula


def tail_specs(
    op: OperatorDef, y: TensorSpec, addend: Optional[TensorSpec], operand: Optional[TensorSpec]
) -> List[TensorSpec]:
    """The output's spec, for the result ``y`` of the layer."""
    if addend is not None:
        require_same_dtype(op, y, addend)
        y = y.with_shape(broadcast(op, (y, addend)))
    activation = activation_of(op)
    if activation is not None:
        if not can_be_fused(activation):
            raise ArgumentError(op, f"activation {activation.full_type!r} cannot be fused")
        what = OPERANDS.get(activation.full_type)
        require(op, what is None or operand is not None, f"{activation.type} needs a {what}", y)
        if activation.full_type == MAX:
            _check_floor(op, y, operand)
        else:
            lookup(activation).infer(activation, [y, operand] if what else [y])
    takes = activation is not None and activation.full_type in OPERANDS
    require(op, operand is None or takes, "a slope needs PRelu, a floor onnx.Max", operand)
    return [y]


def _check_floor(op: OperatorDef, y: TensorSpec, floor: Optional[TensorSpec]) -> None:
    """ShapeError unless the floor is one number for each channel of a convolution, so that ONNX's Max broadcasts it."""
    require_same_dtype(op, y, floor)
    require(
        op,
        lookup(op).kind is Kind.CONVOLUTION and not channels_last(op),
        "a floor is for convolutions, channels first",
        y,
    )
    fits = floor is not None and floor.shape == (y.shape[1], *[1] * (y.ndim - 2))
    require(op, fits, "the floor must be one number per channel", y, floor)


def tail_values(op: OperatorDef, y: Array, addend: Optional[Array], operand: Optional[Array]) -> Sequence[Any]:
    """The outputs, for the result ``y`` of the layer."""
    if addend is not None:
        y = (y.astype(np.float64) + addend).astype(y.dtype)
    activation = activation_of(op)
    if activation is None:
        return [y]
    return lookup(activation).evaluate(activation, [y] if operand is None else [y, operand])


@operator(
    "FusedConv",
    domain="armnet",
    inputs=(2, 5),
    multiply_adds=per_output(),
    kind=Kind.CONVOLUTION,
    fusion=Fusion("Conv", addend=3),
)
def fused_conv(
    op: OperatorDef,
    x: TensorSpec,
    w: TensorSpec,
    b: Optional[TensorSpec] = None,
    addend: Optional[TensorSpec] = None,
    operand: Optional[TensorSpec] = None,
) -> List[TensorSpec]:
    """Y = activation(Conv(X, W, b) + addend), broadcast; ``operand`` is the activation's. Arguments as for Conv."""
    return tail_specs(op, conv.shape(op, x, w, b)[0], addend, operand)


@fused_conv.reference
def fused_conv_reference(
    op: OperatorDef,
    x: Array,
    w: Array,
    b: Optional[Array] = None,
    addend: Optional[Array] = None,
    operand: Optional[Array] = None,
) -> Sequence[Any]:
    return tail_values(op, conv_reference(op, x, w, b)[0], addend, operand)
