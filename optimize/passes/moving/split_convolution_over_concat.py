"""Turns a 1x1 convolution of a concatenation into a sum of convolutions of the parts; a pool in between is split, too.

    Conv(Concat(a, b)) = Conv(a) + Conv(b)            Pool(Concat(a, b)) = Concat(Pool(a), Pool(b))

A concatenation costs time even where its parts are written straight into the whole: writing a slice of a wider blob is
one more pass over its elements, in short rows. A sum is one pass over the results of the convolution, in long rows.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple

import numpy as np

from optimize.layers.fused import with_activation, with_addend, without_activation
from optimize.layers.linear import CONVOLUTIONS_AND_FUSED, Layer
from optimize.rewriting.patterns import operator, rule
from optimize.rewriting.program import Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.windows import channels_last
from runtime_arm.operators.layout.concat import adds_axis, join_axis

SLICE, ADDEND = 0.30, 0.15  # ns an element that is concatenated, and that is added
CLEARLY = 2  # how many times cheaper it must be


def _split(program: Program, concat: OperatorDef, conv: OperatorDef, pool: Optional[OperatorDef] = None) -> Rewrite:
    layer = Layer.of(program, conv)
    if channels_last(conv) or (pool is not None and channels_last(pool)):
        raise Refusal("the channels come last")
    channels = _channels(program, concat)
    if conv.get_int("group", 1) != 1 or set(layer.weights.shape[2:]) != {1} or layer.inputs != sum(channels):
        raise Refusal("it is not a 1x1 convolution of all channels")
    if CLEARLY * ADDEND * (len(channels) - 1) * layer.outputs.number > SLICE * sum(channels):
        raise Refusal(f"sums of {layer.outputs.number} channels are not clearly cheaper than {sum(channels)} in slices")
    parts, pooled = concat.input, []
    if pool is not None:
        parts = tuple(program.fresh(f"{pool.output[0]}_{at}") for at in range(len(concat.input)))
        pooled = [pool.replace(input=(x,), output=(y,)) for x, y in zip(concat.input, parts)]
    weights, sums = _sums(program, layer, parts, channels)
    return Rewrite((*pooled, *sums), weights=weights)


def _channels(program: Program, concat: OperatorDef) -> List[int]:
    """How many channels each part has."""
    shapes = [program.dims(name) for name in concat.input]
    channels = [shape[1] if shape is not None and len(shape) > 1 else None for shape in shapes]
    known = [number for number in channels if number is not None]
    if len(known) < len(channels) or adds_axis(concat) or join_axis(concat, len(shapes[0] or ())) != 1:
        raise Refusal("it does not join channels, or their numbers are not known")
    if len(known) == 1 or any(program.writer(name) is None for name in concat.input):
        raise Refusal("not every part is computed by an operator")
    return known


def _sums(
    program: Program, layer: Layer, parts: Tuple[str, ...], channels: List[int]
) -> Tuple[Dict[str, Optional[Array]], List[OperatorDef]]:
    """The weights of each part, and the convolutions: the first has bias and addend, the last the activation."""
    w, y = layer.op.input[1], layer.op.output[0]
    slices = np.split(layer.weights, np.cumsum(channels)[:-1], axis=1)
    weights: Dict[str, Optional[Array]] = {
        program.fresh(f"{w}_{at}"): np.ascontiguousarray(part) for at, part in enumerate(slices)
    }
    names = [*(program.fresh(f"{y}_{at}") for at in range(len(parts) - 1)), y]
    first, activation = without_activation(layer.op)
    bare = first.replace(type="Conv", domain="")
    sums = []
    for x, w, addend, y in zip(parts, weights, ["", *names], names):
        one = with_addend(bare.replace(input=(x, w)), addend, y)
        sums.append(one if addend else first.replace(input=(x, w, *first.input[2:]), output=(y,)))
    if activation is not None:
        sums[-1] = with_activation(sums[-1], activation)
    return weights, sums


_CONCAT = operator({"Concat", "DepthConcat"}, "concat")
_POOL = operator({"AveragePool", "AveragePool2D", "MaxPool", "MaxPool2D"}, "pool")
_CONV = operator(CONVOLUTIONS_AND_FUSED, "conv")

PASS = Pass("split_convolution_over_concat", (rule(_CONV(_CONCAT), _CONV(_POOL(_CONCAT)), to=_split),))
