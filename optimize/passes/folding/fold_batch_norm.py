"""Batch normalisation, and scales and shifts by channel, disappear in the weights of a layer before or behind them.

    bn(W x + b) = (s W) x + (s b + t)        with s = scale / sqrt(variance + epsilon), t = bias - mean s
    W bn(x) + b = (W s) x + (W t + b)        where no zeros are padded between the two, or t is 0

Weights that other layers read stay as they are for those.
"""

from __future__ import annotations

import numpy as np

from optimize.layers.affine import AFFINE, Affine, Channels, affine_of, data_input
from optimize.layers.linear import FULLY_CONNECTED, LAYERS, Layer
from optimize.rewriting.patterns import follows
from optimize.rewriting.program import Match, Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal, Rule
from runtime_arm.netdef import OperatorDef


def _fold_behind(program: Program, match: Match) -> Rewrite:
    before, behind = program.operators(match)
    layer = Layer.of(program, before)
    affine = affine_of(program, behind, before.output[0], layer.outputs)
    return layer.scaled(affine).rewrite(program, before.input[0], behind.output[0])


def _fold_before(program: Program, match: Match) -> Rewrite:
    before, behind = program.operators(match)
    layer, x = Layer.of(program, behind), data_input(program, before)
    if x is None or behind.input.count(before.output[0]) > 1 or behind.input[0] != before.output[0]:
        raise Refusal("what is scaled is not the layer's data")
    affine = _affine_of_input(program, layer, before, x)
    if affine.shift.any() and layer.pads_with_zeros():
        raise Refusal("the layer pads with zeros, which the shift would not reach")
    if affine.shift.any() and behind.type == "ConvTranspose":
        raise Refusal("a transposed convolution spreads the shift unevenly")
    return layer.fed_scaled(affine).rewrite(program, x, behind.output[0])


def _affine_of_input(program: Program, layer: Layer, op: OperatorDef, x: str) -> Affine:
    """What is done to each input of the layer. The shape of ``x`` must be known, for arithmetic may broadcast it."""
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


def _scales_by_weights(program: Program, op: OperatorDef) -> bool:
    return data_input(program, op) is not None


PASS = Pass(
    "fold_batch_norm",
    (
        Rule(
            follows(LAYERS, AFFINE, lambda program, before, behind: _scales_by_weights(program, behind)), _fold_behind
        ),
        Rule(
            follows(AFFINE, LAYERS, lambda program, before, behind: _scales_by_weights(program, before)), _fold_before
        ),
    ),
)
