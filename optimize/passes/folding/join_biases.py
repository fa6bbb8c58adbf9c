"""A convolution that adds the results of another one to its own takes over the other's bias: one pass less.

(W x + b) + (V z + c) = W x + (V z + (b + c))
"""

from __future__ import annotations

import numpy as np

from optimize.layers.linear import CONVOLUTIONS, Layer
from optimize.rewriting.patterns import ANY, operator, rule, weight
from optimize.rewriting.program import Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal
from runtime_arm.netdef import OperatorDef


def _join(program: Program, addend: OperatorDef, bias: str, total: OperatorDef) -> Rewrite:
    first, second = Layer.of(program, addend), Layer.of(program, total)
    assert first.bias is not None
    assert second.bias is not None
    if first.outputs != second.outputs or first.bias.dtype != second.bias.dtype:
        raise Refusal("the biases differ in length or dtype")
    with np.errstate(over="ignore"):
        both = first.bias + second.bias
    if not np.isfinite(both).all():
        raise Refusal("a sum is not finite")
    joined, unbiased = program.fresh(f"{bias}_joined"), program.fresh(f"{addend.output[0]}_unbiased")
    x, w, _, _, *slope = total.input
    return Rewrite(
        (
            addend.replace(input=addend.input[:2], output=(unbiased,)),
            total.replace(input=(x, w, joined, unbiased, *slope)),
        ),
        weights={joined: both},
    )


_ADDEND = operator(CONVOLUTIONS, "addend")
_TOTAL = operator({"armnet.FusedConv"}, "total")

PASS = Pass("join_biases", (rule(_TOTAL(ANY, ANY, weight("bias"), _ADDEND(ANY, ANY, weight())), to=_join),))
