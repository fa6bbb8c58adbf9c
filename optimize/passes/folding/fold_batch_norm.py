"""Folds batch normalisations, and scales and shifts by channel, into the weights of the layer before or after them.

    bn(W x + b) = (s W) x + (s b + t)        with s = scale / sqrt(variance + epsilon), t = bias - mean s
    W bn(x) + b = (W s) x + (W t + b)        unless the layer pads with zeros and t is not 0

Other layers that read the same weights keep them unchanged.
"""

from __future__ import annotations

import numpy as np

from optimize.layers.affine import Affine, Channels, affine_of, scaled
from optimize.layers.linear import FULLY_CONNECTED, LAYERS, Layer
from optimize.rewriting.patterns import operator, rule
from optimize.rewriting.program import Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal
from runtime_arm.netdef import OperatorDef


def _fold_behind(program: Program, x: str, layer: OperatorDef, scale: OperatorDef) -> Rewrite:
    known = Layer.of(program, layer)
    affine = affine_of(program, scale, layer.output[0], known.outputs)
    return known.scaled(affine).rewrite(program, x, scale.output[0])


def _fold_before(program: Program, x: str, scale: OperatorDef, layer: OperatorDef) -> Rewrite:
    known = Layer.of(program, layer)
    affine = _affine_of_input(program, known, scale, x)
    if affine.shift.any() and known.pads_with_zeros():
        raise Refusal("the layer pads with zeros, which the shift would not reach")
    if affine.shift.any() and layer.type == "ConvTranspose":
        raise Refusal("a transposed convolution spreads the shift unevenly")
    return known.fed_scaled(affine).rewrite(program, x, layer.output[0])


def _affine_of_input(program: Program, layer: Layer, op: OperatorDef, x: str) -> Affine:
    """Scale and shift of each input of the layer. The shape of ``x`` must be known: arithmetic may broadcast it."""
    dims = program.dims(x)
    axis = layer.op.get_int("axis", 1) if layer.op.type in FULLY_CONNECTED else layer.outputs.axis
    count = dims[axis] if dims is not None and axis < len(dims) else None
    if dims is None or not count:
        raise Refusal(f"the channels of {x!r} are not known")
    affine = affine_of(program, op, x, Channels(count, axis, len(dims)))
    repeats = layer.inputs // count  # rows of a fully connected layer hold every pixel of a channel in turn
    if repeats * count != layer.inputs or (repeats > 1 and layer.op.type not in FULLY_CONNECTED):
        raise Refusal(f"{x!r} has {count} channels, the weights {layer.inputs}")
    return Affine(*(np.repeat(vector, repeats) for vector in affine))


_LAYER = operator(LAYERS, "layer")

PASS = Pass(
    "fold_batch_norm",
    (
        rule(*scaled(_LAYER("x"), "scale"), to=_fold_behind),
        rule(_LAYER(scaled("x", "scale")), to=_fold_before),
    ),
)
