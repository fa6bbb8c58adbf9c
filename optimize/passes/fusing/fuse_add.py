"""The sum at the end of a residual block is made where the convolution or normalisation makes its results.

Of two convolutions it is the one with the larger kernel: what reads the sum has such kernels as a rule, too, and so the
blob is written as it will be read.
"""

from __future__ import annotations

import math

from optimize.layers.fused import ADDITIONS, PLAIN, other_input, with_addend
from optimize.layers.linear import CONVOLUTIONS
from optimize.rewriting.patterns import follows
from optimize.rewriting.program import Match, Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal, Rule
from runtime_arm.operators.common.windows import channels_last


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
    if _taps(program, addend) > _taps(program, y) > 0 and _may_take(program, addend, match.places[1]):
        raise Refusal(f"the convolution that makes {addend!r} has the larger kernel")
    return Rewrite((with_addend(op, addend, addition.output[0]),))


def _taps(program: Program, name: str) -> int:
    """Of the kernel of the convolution that makes the blob, channels first; 0 for what else there is."""
    writer = program.writer(name)
    op = None if writer is None else program.net.op[writer]
    is_known = op is not None and op.full_type in CONVOLUTIONS and not channels_last(op)
    weights = program.value(op.input[1]) if op is not None and is_known else None
    return 0 if weights is None else math.prod(weights.shape[2:])


def _may_take(program: Program, name: str, addition: int) -> bool:
    """Whether what makes the blob may make the sum, too."""
    writer = program.writer(name)
    return writer is not None and program.why_fixed(Match((writer, addition), (name,))) is None


PASS = Pass("fuse_add", (Rule(follows(PLAIN, ADDITIONS), _fuse),))
