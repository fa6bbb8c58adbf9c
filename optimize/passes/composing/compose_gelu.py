"""Arithmetic that computes GELU becomes that operator.

x (1 + erf(x / sqrt(2))) / 2        x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
"""

from __future__ import annotations

import math
from typing import Tuple

import numpy as np

from optimize.passes.composing.compose_hard_swish import require_same_shape
from optimize.rewriting.patterns import Operator, commutative, operator, rule
from optimize.rewriting.program import Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal
from runtime_arm.netdef import OperatorDef


def _exact(program: Program, x: str, last: OperatorDef) -> Rewrite:
    return _gelu(program, x, last, "none")


def _by_tanh(program: Program, x: str, last: OperatorDef) -> Rewrite:
    return _gelu(program, x, last, "tanh")


def _gelu(program: Program, x: str, last: OperatorDef, approximate: str) -> Rewrite:
    require_same_shape(program, x, last, last)
    if any(spec is None or spec.dtype != np.float32 for spec in program.specs(x)):
        raise Refusal(f"{x!r} is not float32")
    op = OperatorDef.of("Gelu", [x], last.output, name=last.name, domain="onnx", approximate=approximate)
    return Rewrite((op,))


def _is_cube(program: Program, op: OperatorDef) -> bool:
    return op.get_float("exponent", 0.0) == 3


_ADD, _MULTIPLY, _DIVIDE = (
    commutative({"Add", "onnx.Add"}),
    commutative({"Mul", "onnx.Mul"}),
    operator({"Div", "onnx.Div"}),
)
_LAST = commutative({"Mul", "onnx.Mul"}, "last")
_ERF, _TANH = operator({"Erf", "onnx.Erf"}), operator({"Tanh", "onnx.Tanh"})
_CUBE = (
    operator({"Pow"}, where=_is_cube)("x"),
    operator({"onnx.Pow"})("x", 3),
    operator({"Cube"})("x"),
    _MULTIPLY("x", _MULTIPLY("x", "x")),
    _MULTIPLY("x", operator({"Sqr", "onnx.Sqr"})("x")),
)


def _halved(part: Tuple[Operator, ...]) -> Tuple[Operator, ...]:
    """x (1 + part) / 2, in any order."""
    more = _ADD(part, 1)
    return _LAST(_MULTIPLY("x", more), 0.5), _LAST(_MULTIPLY("x", 0.5), more), _LAST("x", _MULTIPLY(more, 0.5))


_INNER = _ADD("x", _MULTIPLY(_CUBE, 0.044715))

PASS = Pass(
    "compose_gelu",
    (
        rule(*_halved((_ERF(_DIVIDE("x", math.sqrt(2))), _ERF(_MULTIPLY("x", math.sqrt(0.5))))), to=_exact),
        rule(*_halved((_TANH(_MULTIPLY(_INNER, math.sqrt(2 / math.pi))),)), to=_by_tanh),
    ),
)
