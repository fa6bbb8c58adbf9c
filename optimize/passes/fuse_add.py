"""The sum at the end of a residual block is made where the convolution or normalisation makes its results."""

from __future__ import annotations

from optimize.fusion import ADDITIONS, PLAIN, other_input, with_addend
from optimize.patterns import follows
from optimize.program import Match, Program, Rewrite
from optimize.rewrite import Pass, Refusal, Rule


def _fuse(program: Program, match: Match) -> Rewrite:
    op, addition = program.operators(match)
    y = op.output[0]
    addend = other_input(addition, y)
    if addend is None:
        raise Refusal("it is no sum of two blobs")
    if addition.get_bool("broadcast"):
        raise Refusal("it broadcasts in Caffe2's older way")
    if not program.have_same_shape(y, addend, addition.output[0]):
        raise Refusal(f"{y!r} and {addend!r} are not known to have the same shape")
    return Rewrite((with_addend(op, addend, addition.output[0]),))


PASS = Pass("fuse_add", (Rule(follows(PLAIN, ADDITIONS), _fuse),))
