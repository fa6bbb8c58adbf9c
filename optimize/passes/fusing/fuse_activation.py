"""Fuses an activation into the convolution, fully connected layer or normalisation before it."""

from __future__ import annotations

from optimize.layers.fused import ACTIVATIONS, FUSIBLE, with_activation
from optimize.rewriting.patterns import operator, rule
from optimize.rewriting.program import Program, Rewrite
from optimize.rewriting.rewrite import Pass
from runtime_arm.netdef import OperatorDef


def _fuse(program: Program, layer: OperatorDef, activation: OperatorDef) -> Rewrite:
    return Rewrite((with_activation(layer, activation),))


_LAYER = operator(FUSIBLE, "layer")
_ACTIVATION = operator(ACTIVATIONS, "activation")

PASS = Pass("fuse_activation", (rule(_ACTIVATION(_LAYER), to=_fuse),))
