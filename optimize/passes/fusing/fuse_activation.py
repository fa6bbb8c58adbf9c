"""The activation after a convolution or normalisation is applied where that makes its results."""

from __future__ import annotations

from optimize.layers.fused import ACTIVATIONS, FUSED, PLAIN, with_activation
from optimize.rewriting.patterns import follows
from optimize.rewriting.program import Match, Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal, Rule


def _fuse(program: Program, match: Match) -> Rewrite:
    op, activation = program.operators(match)
    if activation.input[0] != op.output[0] or activation.input.count(op.output[0]) > 1:
        raise Refusal("the slope is computed")
    return Rewrite((with_activation(op, activation),))


PASS = Pass("fuse_activation", (Rule(follows({*PLAIN, *FUSED}, ACTIVATIONS), _fuse),))
