"""Batch normalisation computed again, with the statistics of the first time: for train nets that save memory."""

from __future__ import annotations

from typing import Any, List, Optional

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.statistics import along_axis, require_channels, require_floats
from runtime_arm.operators.norm.batch_kernels import channels_first, forward_run, forward_scratch
from runtime_arm.operators.norm.channel import channel_axis
from runtime_arm.registry.kernel import Call, Run
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


@operator("SpatialBNAgain", domain="armnet", inputs=(5, 6), inplace={0: (0, 5)})
def spatial_bn_again(
    op: OperatorDef,
    x: TensorSpec,
    scale: TensorSpec,
    bias: TensorSpec,
    mean: TensorSpec,
    inverse: TensorSpec,
    addend: Optional[TensorSpec] = None,
) -> List[TensorSpec]:
    """Y = (X - mean) inverse scale + bias, the same bits as Y of SpatialBN, SpatialBNRelu or SpatialBNAddRelu.

    mean, inverse: the outputs 3 and 4 that the operator made. With relu=1 an addend of the shape of X may be added, and
    negative results become 0.
    """
    require(op, 2 <= x.ndim <= 5 and x.size > 0, "X must have 2 to 5 dimensions and must not be empty", x)
    require_floats(op, x, scale, bias, mean, inverse)
    if addend is not None:
        require(op, op.get_bool("relu"), "an addend is for relu=1")
        require(op, addend == x, "the addend must have the shape and dtype of X", x, addend)
    require_channels(op, x, channel_axis(op, x.ndim), scale, bias, mean, inverse)
    return [x]


@spatial_bn_again.reference
def spatial_bn_again_reference(
    op: OperatorDef, x: Array, scale: Array, bias: Array, mean: Array, inverse: Array, addend: Optional[Array] = None
) -> List[Any]:
    axis = channel_axis(op, x.ndim)

    def wide(parameter: Array) -> Array:
        return along_axis(parameter.astype(np.float64), axis, x.ndim)

    y = (x - wide(mean)) * wide(inverse) * wide(scale) + wide(bias)
    total = y if addend is None else y + addend
    return [(np.maximum(total, 0) if op.get_bool("relu") else total).astype(x.dtype)]


@spatial_bn_again.kernel("NUMPY", supports=channels_first, scratch=forward_scratch)
def spatial_bn_again_numpy(call: Call) -> Run:
    addend = call.inputs[5] if len(call.inputs) > 5 else None
    return forward_run(call, addend, call.op.get_bool("relu"), again=True)
