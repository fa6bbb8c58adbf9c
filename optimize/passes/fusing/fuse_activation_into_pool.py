"""A limit before the largest of overlapping windows is taken becomes one of what was taken, which is less.

    MaxPool(Relu(x)) = Relu(MaxPool(x))

Neither ReLU nor Clip changes which pixel is the largest. Each window holds one: pads are smaller than the kernel, and
strides, where windows overlap, too. Other pools are left alone: they can be made together with a convolution.
"""

from __future__ import annotations

from dataclasses import replace

from optimize.layers.fused import as_arguments, without_activation
from optimize.rewriting.patterns import follows
from optimize.rewriting.program import Match, Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal, Rule
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.common.windows import caffe2_list

_LIMITS = {"Clip", "Relu", "onnx.Relu"}
_CONVOLUTIONS = {"ConvRelu", "armnet.FusedConv"}
_POOLS = {"MaxPool", "MaxPool1D", "MaxPool2D", "MaxPool3D"}


def _fuse(program: Program, match: Match) -> Rewrite:
    first, pool = program.operators(match)
    if not _makes_less(pool):
        raise Refusal("windows do not overlap, or are as many as pixels")
    if first.full_type in _LIMITS:
        return Rewrite((replace(_limited(pool, first), input=first.input),))
    convolution, limit = without_activation(first)
    if limit is None or limit.full_type not in _LIMITS:
        raise Refusal("it has no limits")
    return Rewrite((convolution, _limited(pool, limit)))


def _makes_less(pool: OperatorDef) -> bool:
    """Whether there are fewer windows than pixels along each dimension, and they overlap."""
    kernel, stride = (caffe2_list(pool, name, "hw") for name in ("kernel", "stride"))
    return bool(stride) and all(1 < step < size for step, size in zip(stride, kernel))


def _limited(pool: OperatorDef, limit: OperatorDef) -> OperatorDef:
    return replace(pool, type="FusedMaxPool", domain="armnet", arg=(*pool.arg, *as_arguments(limit)))


PASS = Pass("fuse_activation_into_pool", (Rule(follows(_LIMITS | _CONVOLUTIONS, _POOLS), _fuse),))
