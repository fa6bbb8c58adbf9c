"""Moves a limit (ReLU, Clip) from the input of a max pool to its output, which is smaller.

    MaxPool(Relu(x)) = Relu(MaxPool(x))

Neither ReLU nor Clip changes which pixel of a window is the largest, and no window is empty: pads are smaller than the
kernel, and so are the strides of overlapping windows. Pools whose windows do not overlap are left alone: the runtime
can merge them with a convolution.
"""

from __future__ import annotations

from optimize.layers.fused import as_arguments, without_activation
from optimize.rewriting.patterns import operator, rule
from optimize.rewriting.program import Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.common.windows import MAX_POOLS, caffe2_list

_LIMITS = {"Clip", "Relu", "onnx.Relu"}


def _fuse(program: Program, limit: OperatorDef, pool: OperatorDef) -> Rewrite:
    return Rewrite((_limited(pool, limit).replace(input=limit.input),))


def _fuse_from_layer(program: Program, layer: OperatorDef, pool: OperatorDef) -> Rewrite:
    convolution, limit = without_activation(layer)
    if limit is None or limit.full_type not in _LIMITS:
        raise Refusal("it does not end with a limit")
    return Rewrite((convolution, _limited(pool, limit)))


def _limited(pool: OperatorDef, limit: OperatorDef) -> OperatorDef:
    kernel, stride = (caffe2_list(pool, name, "hw") for name in ("kernel", "stride"))
    if not stride or not all(1 < step < size for step, size in zip(stride, kernel)):
        raise Refusal("the windows do not overlap, or there are as many as pixels")
    return pool.replace(type="FusedMaxPool", domain="armnet", arg=(*pool.arg, *as_arguments(limit)))


_POOL = operator(MAX_POOLS, "pool")
_LIMIT = operator(_LIMITS, "limit")
_LAYER = operator({"ConvRelu", "armnet.FusedConv"}, "layer")

PASS = Pass("fuse_activation_into_pool", (rule(_POOL(_LIMIT), to=_fuse), rule(_POOL(_LAYER), to=_fuse_from_layer)))
