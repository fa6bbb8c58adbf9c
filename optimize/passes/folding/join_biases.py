"""The bias of a convolution whose results another one adds to its own becomes part of that one's bias: a pass less.

(W x + b) + (V z + c) = W x + (V z + (b + c))
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from optimize.layers.fused import addend_index
from optimize.layers.linear import CONVOLUTIONS, Layer
from optimize.rewriting.patterns import follows
from optimize.rewriting.program import Match, Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal, Rule
from runtime_arm.netdef import OperatorDef


def _have_biases(program: Program, before: OperatorDef, behind: OperatorDef) -> bool:
    return all(len(op.input) > 2 and op.input[2] for op in (before, behind))


def _join(program: Program, match: Match) -> Rewrite:
    before, behind = program.operators(match)
    at, y = addend_index(behind), before.output[0]
    if behind.input.count(y) > 1 or len(behind.input) <= at or behind.input[at] != y:
        raise Refusal(f"{y!r} is not what is added")
    layer, other = Layer.of(program, before), Layer.of(program, behind)
    assert layer.bias is not None
    assert other.bias is not None
    if layer.outputs != other.outputs or layer.bias.dtype != other.bias.dtype:
        raise Refusal("the biases are not alike")
    with np.errstate(over="ignore"):
        both = layer.bias + other.bias
    if not np.isfinite(both).all():
        raise Refusal("a sum is not finite")
    bias, addend = program.fresh(f"{behind.input[2]}_joined"), program.fresh(f"{y}_unbiased")
    inputs = list(behind.input)
    inputs[2], inputs[at] = bias, addend
    bare = replace(before, input=before.input[:2], output=(addend,))
    return Rewrite((bare, replace(behind, input=tuple(inputs))), weights={bias: both})


PASS = Pass("join_biases", (Rule(follows(CONVOLUTIONS, {"armnet.FusedConv"}, _have_biases), _join),))
