"""Functions of one number in OpenCL C, as the macros ACTIVATE1 and COMBINE1.

x is the number, p the operand of its channel.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, Optional, Sequence, TypeVar

import numpy as np

from runtime_arm.gpu.kernels import Define
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.fused.fused import MAX, PRELU, activation_of
from runtime_arm.planning.steps import Step
from runtime_arm.records import NamedTuple
from runtime_arm.registry.facts import arguments_of
from runtime_arm.registry.schema import find

T = TypeVar("T")


def number(value: Any) -> str:
    """A float32 as a literal."""
    single = float(np.float32(value))
    if math.isfinite(single):
        return f"{single!r}f" if single >= 0 else f"({single!r}f)"
    return "NAN" if math.isnan(single) else "INFINITY" if single > 0 else "(-INFINITY)"


def _clip(low: Any, high: Any, x: str = "(x)") -> str:
    return f"smaller(larger({x}, {number(low)}), {number(high)})"


_SOFTPLUS = "(log1p(exp(-fabs(x))) + larger(x, 0.0f))"
_GELU = "(0.5f * (x) * (1.0f + erf((x) * 0.70710678f)))"
_GELU_TANH = "(0.5f * (x) * (1.0f + tanh(0.79788456f * ((x) + 0.044715f * (x) * (x) * (x)))))"
_FORMULAS: Dict[str, Callable[..., str]] = {
    "Relu": lambda: "larger(x, 0.0f)",
    "Clip": lambda min, max: _clip(min, max),
    "ReluN": lambda n: _clip(0, n),
    "LeakyRelu": lambda alpha: f"((x) > 0.0f ? (x) : (x) * {number(alpha)})",
    "HardSigmoid": lambda alpha, beta: _clip(0, 1, f"((x) * {number(alpha)} + {number(beta)})"),
    "HardSwish": lambda: f"((x) * {_clip(0, 1, '((x) * (1.0f / 6.0f) + 0.5f)')})",
    "Sigmoid": lambda: "sigmoid1(x)",
    "Tanh": lambda: "tanh(x)",
    "Swish": lambda alpha=1.0: f"((x) * sigmoid1((x) * {number(alpha)}))",
    "Elu": lambda alpha: f"((x) > 0.0f ? (x) : {number(alpha)} * expm1(x))",
    "onnx.Softplus": lambda: _SOFTPLUS,
    "onnx.Mish": lambda: f"((x) * tanh({_SOFTPLUS}))",
    "Softsign": lambda: "((x) / (1.0f + fabs(x)))",
    "Exp": lambda: "exp(x)",
    "Log": lambda: "log(x)",
    "Sqrt": lambda: "sqrt(x)",
    "Abs": lambda: "fabs(x)",
    "Negative": lambda: "(-(x))",
    "onnx.Neg": lambda: "(-(x))",
    "onnx.Reciprocal": lambda: "(1.0f / (x))",
    "Sqr": lambda: "((x) * (x))",
    "onnx.Erf": lambda: "erf(x)",
    "onnx.Gelu": lambda approximate: _GELU_TANH if approximate == "tanh" else _GELU,
}

COMBINATIONS = {
    "Add": "((a) + (b))",
    "Sub": "((a) - (b))",
    "Mul": "((a) * (b))",
    "Div": "((a) / (b))",
    "Sum": "((a) + (b))",
    "onnx.Max": "larger(a, b)",
    "onnx.Min": "smaller(a, b)",
    "Max": "larger(a, b)",
    "Min": "smaller(a, b)",
}


def combination(op: OperatorDef) -> Optional[str]:
    """The operator's formula for two numbers a and b; None if the device does not have it."""
    return COMBINATIONS.get(op.full_type) or (COMBINATIONS.get(op.type) if op.domain == "onnx" else None)


def formula(op: OperatorDef) -> Optional[str]:
    """The operator's formula for a number; None if the device does not have it."""
    make = _FORMULAS.get(op.full_type) or (_FORMULAS.get(op.type) if op.domain == "onnx" else None)
    schema = find(op)
    if make is None or schema is None:
        return None
    return make(**arguments_of(op, schema.formula.defaults if schema.formula is not None else {}))


class Tail(NamedTuple):
    """The steps of a fused operator after its layer: their macros, the blob that is added, and the activation's
    operand."""

    defines: Dict[str, Define]
    addend: Optional[int]  # the index of the input
    operand: Optional[int]


def tail_of(op: OperatorDef) -> Optional[Tail]:
    """The tail of an operator that may be fused; None if the device cannot do its activation."""
    schema = find(op)
    assert schema is not None
    addend = schema.fusion.addend if schema.fusion is not None else None
    if addend is not None and (addend >= len(op.input) or not op.input[addend]):
        addend = None
    activation = activation_of(op)
    defines: Dict[str, Define] = {"RESIDUAL": int(addend is not None), "OPERAND": 0}
    if activation is None:
        return Tail(defines, addend, None)
    if activation.full_type in (PRELU, MAX):
        text = "((x) > 0.0f ? (x) : (x) * (p))" if activation.full_type == PRELU else "larger(x, p)"
        defines.update({"OPERAND": 1, "ACTIVATE1(x, p)": text})
        return Tail(defines, addend, len(op.input) - 1)
    text = formula(activation) or ""
    defines["ACTIVATE1(x, p)"] = text
    return Tail(defines, addend, None) if text else None


def present(values: Sequence[Optional[T]], index: Optional[int]) -> Optional[T]:
    """The value at an index that may be None or beyond the end."""
    return values[index] if index is not None and index < len(values) else None


def needed(value: Optional[T]) -> T:
    """The value, which is there in every operator that is supported."""
    assert value is not None
    return value


def constant_of(step: Step, index: int) -> Array:
    """The content of an input that is constant in every operator that is supported."""
    return needed(needed(step.in_specs[index]).value)
