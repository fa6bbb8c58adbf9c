"""A blob times its sigmoid becomes Swish (SiLU); a blob times its hard sigmoid becomes HardSwish."""

from __future__ import annotations

import math

from optimize.rewriting.patterns import commutative, operator, rule
from optimize.rewriting.program import Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal
from runtime_arm.netdef import OperatorDef


def _swish(program: Program, x: str, sigmoid: OperatorDef, product: OperatorDef) -> Rewrite:
    return Rewrite((OperatorDef.of("Swish", [x], product.output, name=product.name, domain=sigmoid.domain),))


def _hard_swish(program: Program, x: str, sigmoid: OperatorDef, product: OperatorDef) -> Rewrite:
    alpha, beta = sigmoid.get_float("alpha", 0.2), sigmoid.get_float("beta", 0.5)
    if not math.isclose(alpha, 1 / 6, rel_tol=1e-6) or beta != 0.5:
        raise Refusal(f"HardSwish has the slope 1/6 and the offset 1/2, not {alpha:g} and {beta:g}")
    return Rewrite((OperatorDef.of("HardSwish", [x], product.output, name=product.name, domain="onnx"),))


_PRODUCT = commutative({"Mul", "onnx.Mul"}, "product")
_SIGMOID = operator({"Sigmoid", "onnx.Sigmoid"}, "sigmoid")
_HARD_SIGMOID = operator({"HardSigmoid", "onnx.HardSigmoid"}, "sigmoid")

PASS = Pass(
    "compose_swish",
    (
        rule(_PRODUCT("x", _SIGMOID("x")), to=_swish),
        rule(_PRODUCT("x", _HARD_SIGMOID("x")), to=_hard_swish),
    ),
)
