"""The weights of convolutions and matrix products in one form: groups, filters, channels, taps."""

from __future__ import annotations

from typing import NamedTuple, Optional, Tuple

import numpy as np

from optimize.rewriting.program import Program
from runtime_arm.netdef import Array, OperatorDef

CONVOLUTIONS = {"Conv", "ConvRelu", "Conv2D", "onnx.Conv", "armnet.FusedConv"}
_ROWS = {"FC", "armnet.FusedFC"}
_COLUMNS = {"FCTransposed", "MatMul", "onnx.MatMul", "onnx.Gemm"}


class Filters(NamedTuple):
    """A layer's constant weight. shape: (groups, filters of a group, channels of a group, taps). transposed: whether
    the weight is a matrix whose columns are the filters."""

    op: OperatorDef
    weight: str
    bias: Optional[str]
    shape: Tuple[int, int, int, int]
    transposed: bool

    def grouped(self, value: Array) -> Array:
        """The weight, or an array of its shape, in the four dimensions of ``shape``."""
        return np.asarray(value.T if self.transposed else value).reshape(self.shape)

    def restored(self, grouped: Array, like: Array) -> Array:
        """The other way round: what is grouped, in the shape of the weight."""
        if self.transposed:
            return np.ascontiguousarray(grouped.reshape(like.shape[::-1]).T)
        return np.ascontiguousarray(grouped.reshape(like.shape))


def filters_of(program: Program, op: OperatorDef) -> Optional[Filters]:
    """The filters of a layer whose float32 weight, and bias if it has one, are constants; None for other operators."""
    convolution = op.full_type in CONVOLUTIONS
    if not convolution and op.full_type not in _ROWS | _COLUMNS:
        return None
    weight, bias = op.input[1], op.input[2] if len(op.input) > 2 and op.input[2] else None
    value = program.value(weight)
    if value is None or value.dtype != np.float32 or (bias is not None and program.value(bias) is None):
        return None
    if convolution:
        group = op.get_int("group", 1)
        if value.ndim != 4 or op.get_str("order", "NCHW") != "NCHW" or len(value) % group:
            return None
        return Filters(op, weight, bias, (group, len(value) // group, value.shape[1], value[0, 0].size), False)
    scaled = op.get_float("alpha", 1.0) != 1.0 or op.get_float("beta", 1.0) != 1.0
    if value.ndim != 2 or scaled or any(op.get_bool(name) for name in ("trans_a", "transA", "axis_a", "axis_b")):
        return None
    transposed = op.full_type in _COLUMNS and not (op.get_bool("trans_b") or op.get_bool("transB"))
    count, terms = value.shape[::-1] if transposed else value.shape
    return Filters(op, weight, bias, (1, count, terms, 1), transposed)
