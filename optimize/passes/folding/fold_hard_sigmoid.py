"""Folds the slope of a HardSigmoid into the weights of the layer before it, so that two comparisons are left.

    clip(alpha (W x + b) + beta, 0, 1) = clip((alpha W) x + (alpha b + beta), 0, 1)

Other layers that read the same weights keep them unchanged.
"""

from __future__ import annotations

import numpy as np

from optimize.layers.affine import Affine
from optimize.layers.linear import LAYERS, Layer
from optimize.rewriting.patterns import operator, rule
from optimize.rewriting.program import Program, Rewrite
from optimize.rewriting.rewrite import Pass
from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.facts import arguments_of
from runtime_arm.registry.schema import lookup


def _fold(program: Program, x: str, layer: OperatorDef, gate: OperatorDef) -> Rewrite:
    known, formula = Layer.of(program, layer), lookup(gate).formula
    assert formula is not None
    given = arguments_of(gate, formula.defaults)
    affine = Affine(*(np.full(known.outputs.number, given[name], np.float64) for name in ("alpha", "beta")))
    scaled = known.scaled(affine).rewrite(program, x, layer.output[0])
    clip = OperatorDef.of("Clip", layer.output, gate.output, name=gate.name, min=0.0, max=1.0)
    return scaled._replace(operators=(*scaled.operators, clip))


_GATE, _LAYER = operator({"HardSigmoid", "onnx.HardSigmoid"}, "gate"), operator(LAYERS, "layer")

PASS = Pass("fold_hard_sigmoid", (rule(_GATE(_LAYER("x")), to=_fold),))
