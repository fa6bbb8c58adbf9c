"""A blob times its sigmoid is Swish (SiLU); times its hard sigmoid it is HardSwish."""

from __future__ import annotations

import math

from optimize.layers.fused import other_input
from optimize.rewriting.patterns import follows
from optimize.rewriting.program import Match, Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal, Rule
from runtime_arm.netdef import OperatorDef

_SIGMOIDS = {"Sigmoid", "onnx.Sigmoid"}
_HARD_SIGMOIDS = {"HardSigmoid", "onnx.HardSigmoid"}
_PRODUCTS = {"Mul", "onnx.Mul"}


def _of_itself(program: Program, writer: OperatorDef, reader: OperatorDef) -> bool:
    return other_input(reader, writer.output[0]) == writer.input[0]


def _swish(program: Program, match: Match) -> Rewrite:
    sigmoid, product = program.operators(match)
    return Rewrite((OperatorDef.of("Swish", sigmoid.input, product.output, name=product.name, domain=sigmoid.domain),))


def _hard_swish(program: Program, match: Match) -> Rewrite:
    sigmoid, product = program.operators(match)
    alpha, beta = sigmoid.get_float("alpha", 0.2), sigmoid.get_float("beta", 0.5)
    if not math.isclose(alpha, 1 / 6, rel_tol=1e-6) or beta != 0.5:
        raise Refusal(f"HardSwish has the slope 1/6 and the offset 1/2, not {alpha:g} and {beta:g}")
    return Rewrite((OperatorDef.of("HardSwish", sigmoid.input, product.output, name=product.name, domain="onnx"),))


PASS = Pass(
    "compose_swish",
    (
        Rule(follows(_SIGMOIDS, _PRODUCTS, _of_itself), _swish),
        Rule(follows(_HARD_SIGMOIDS, _PRODUCTS, _of_itself), _hard_swish),
    ),
)
