"""Fuses the sum at the end of a residual block into the convolution or normalisation before it.

Of two convolutions, the one with the larger kernel takes the sum: the layer that reads the sum mostly has a kernel of
that size, too, so that the blob is written in the layout in which it will be read.
"""

from __future__ import annotations

import math

from optimize.layers.fused import ADDITIONS, PLAIN, with_addend
from optimize.layers.linear import CONVOLUTIONS
from optimize.rewriting.patterns import commutative, operator, rule
from optimize.rewriting.program import Match, Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal, source
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.common.windows import channels_last


def _fuse(program: Program, layer: OperatorDef, addend: str, addition: OperatorDef) -> Rewrite:
    y, total = layer.output[0], addition.output[0]
    if addition.get_bool("broadcast"):
        raise Refusal("it broadcasts by Caffe2's old rule")
    if not program.have_same_shape(y, addend, total, usually=True):
        raise Refusal(f"{y!r} and {addend!r} are not known to have the same shape")
    if _taps(program, addend) > _taps(program, y) > 0 and _may_take(program, addend, total):
        raise Refusal(f"the convolution that writes {addend!r} has the larger kernel")
    return Rewrite((with_addend(layer, addend, total),))


def _taps(program: Program, name: str) -> int:
    """The kernel size of the convolution that writes the blob, channels first; 0 for all other operators."""
    op = source(program, name)
    if op is None or op.full_type not in CONVOLUTIONS or channels_last(op):
        return 0
    weights = program.value(op.input[1])
    return 0 if weights is None else math.prod(weights.shape[2:])


def _may_take(program: Program, addend: str, total: str) -> bool:
    """Whether the operator that writes the addend could take the sum, too."""
    places = [program.writer(name) for name in (addend, total)]
    match = Match(tuple(place for place in places if place is not None), (addend,))
    return places[0] is not None and program.why_fixed(match) is None


_LAYER = operator(PLAIN, "layer")
_SUM = commutative(ADDITIONS, "addition")

PASS = Pass("fuse_add", (rule(_SUM(_LAYER, "addend"), to=_fuse),))
