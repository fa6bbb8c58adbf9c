"""Batch normalisation with the ReLU after it, perhaps with an addition between them, as one operator per direction.

The backward pass needs only one bit per element of the ReLU (``operators/common/bits.py``), not Y: OneFlow's
normalization_add_relu and its reserve_space. Arguments and statistics are those of Caffe2's SpatialBN.
"""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.bits import mask_spec, packed, unpacked
from runtime_arm.operators.common.statistics import along_axis, require_channels, require_floats
from runtime_arm.operators.norm.batch_kernels import (
    backward_run,
    backward_scratch,
    channels_first,
    forward_run,
    forward_scratch,
    plain_backward_run,
)
from runtime_arm.operators.norm.channel import channel_axis, spatial_bn_reference
from runtime_arm.registry.kernel import Call, Run
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


def _forward_specs(
    op: OperatorDef, x: TensorSpec, scale: TensorSpec, bias: TensorSpec, mean: TensorSpec, variance: TensorSpec
) -> List[TensorSpec]:
    if not op.get_bool("is_test") and len(op.output) < 5:
        raise ArgumentError(op, "with is_test=0 there must be 5 outputs, or 6 with the mask")
    require(op, 2 <= x.ndim <= 5 and x.size > 0, "X must have 2 to 5 dimensions and must not be empty", x)
    require_floats(op, x, scale, bias, mean, variance)
    axis = channel_axis(op, x.ndim)
    require_channels(op, x, axis, scale, bias, mean, variance)
    return [x, *[x.with_shape((x.shape[axis],))] * 4, mask_spec(x.shape)]


@operator("SpatialBNRelu", inputs=5, outputs=(1, 6), inplace={0: 0, 1: 3, 2: 4})
def spatial_bn_relu(
    op: OperatorDef, x: TensorSpec, scale: TensorSpec, bias: TensorSpec, mean: TensorSpec, variance: TensorSpec
) -> List[TensorSpec]:
    """Y = max(SpatialBN(X), 0). X: (N, C), (N, C, ...) or, order NHWC, (N, ..., C), up to 5 dimensions.

    Outputs: Y, running mean and variance, the mean and 1 / sqrt(variance + epsilon) that were used, and the mask of
    Y > 0. With is_test=1 mean and variance are the running ones, which stay, and every output but Y may be left out.
    Source: OneFlow; Ioffe and Szegedy, Batch Normalization (2015).
    """
    return _forward_specs(op, x, scale, bias, mean, variance)


@operator("SpatialBNAddRelu", inputs=6, outputs=(1, 6), inplace={0: (0, 5), 1: 3, 2: 4})
def spatial_bn_add_relu(
    op: OperatorDef,
    x: TensorSpec,
    scale: TensorSpec,
    bias: TensorSpec,
    mean: TensorSpec,
    variance: TensorSpec,
    addend: TensorSpec,
) -> List[TensorSpec]:
    """Y = max(SpatialBN(X) + addend, 0), where the addend has the shape of X; else as SpatialBNRelu."""
    require(op, addend == x, "the addend must have the shape and dtype of X", x, addend)
    return _forward_specs(op, x, scale, bias, mean, variance)


@spatial_bn_relu.reference
@spatial_bn_add_relu.reference
def fused_reference(
    op: OperatorDef,
    x: Array,
    scale: Array,
    bias: Array,
    mean: Array,
    variance: Array,
    addend: Optional[Array] = None,
) -> List[Any]:
    plain = OperatorDef.of("SpatialBN", op.input[:5], op.output[:5]).replace(arg=op.arg)
    wide = [array.astype(np.float64) for array in (x, scale, bias, mean, variance)]
    if op.get_bool("is_test"):
        (y,) = spatial_bn_reference(plain, *wide)
        used = wide[3].reshape(-1), 1 / np.sqrt(wide[4].reshape(-1) + op.get_float("epsilon", 1e-5))
        statistics = [wide[3].reshape(-1), wide[4].reshape(-1), *used]
    else:
        y, *statistics = spatial_bn_reference(plain.with_args(is_test=0), *wide)
    total = y if addend is None else y + addend
    flags = total.astype(x.dtype) > 0
    return [np.maximum(total, 0).astype(x.dtype), *(s.astype(x.dtype) for s in statistics), packed(flags)]


@spatial_bn_relu.kernel("NUMPY", supports=channels_first, scratch=forward_scratch)
def spatial_bn_relu_numpy(call: Call) -> Run:
    return forward_run(call)


@spatial_bn_add_relu.kernel("NUMPY", supports=channels_first, scratch=forward_scratch)
def spatial_bn_add_relu_numpy(call: Call) -> Run:
    return forward_run(call, call.inputs[5])


def _backward_specs(op: OperatorDef, x: TensorSpec, scale: TensorSpec, dy: TensorSpec, *kept: TensorSpec) -> Any:
    mean, inverse, mask = kept
    require(op, 2 <= x.ndim <= 5 and x.size > 0, "X must have 2 to 5 dimensions and must not be empty", x)
    require_floats(op, x, scale, dy, mean, inverse)
    require(op, dy.shape == x.shape, "dY must have the shape of X", x, dy)
    require(op, mask == mask_spec(x.shape), "the mask must have one bit for each element, in int32 words", x, mask)
    axis = channel_axis(op, x.ndim)
    require_channels(op, x, axis, scale, mean, inverse)
    return [x, *[x.with_shape((x.shape[axis],))] * 2, x]


@operator("SpatialBNReluGradient", inputs=6, outputs=3, inplace={0: 2})
def spatial_bn_relu_gradient(
    op: OperatorDef,
    x: TensorSpec,
    scale: TensorSpec,
    dy: TensorSpec,
    mean: TensorSpec,
    inverse: TensorSpec,
    mask: TensorSpec,
) -> List[TensorSpec]:
    """dX, dscale and dbias of SpatialBNRelu, from X, scale, dY and the outputs 3 to 5 that it made.

    g = dY where the mask is set, else 0;  x' = (X - mean) inverse;  dbias = sum of g;  dscale = sum of g x'.
    dX = scale inverse (g - (dbias + x' dscale) / count), and with is_test=1 scale inverse g. The sums are over a
    channel's count elements.
    """
    specs: List[TensorSpec] = _backward_specs(op, x, scale, dy, mean, inverse, mask)
    return specs[:3]


@operator("SpatialBNAddReluGradient", inputs=6, outputs=4, inplace={0: 2, 3: 2})
def spatial_bn_add_relu_gradient(
    op: OperatorDef,
    x: TensorSpec,
    scale: TensorSpec,
    dy: TensorSpec,
    mean: TensorSpec,
    inverse: TensorSpec,
    mask: TensorSpec,
) -> List[TensorSpec]:
    """The outputs of SpatialBNReluGradient, and the gradient of the addend, which is g."""
    specs: List[TensorSpec] = _backward_specs(op, x, scale, dy, mean, inverse, mask)
    return specs


@spatial_bn_relu_gradient.reference
@spatial_bn_add_relu_gradient.reference
def fused_gradient_reference(
    op: OperatorDef, x: Array, scale: Array, dy: Array, mean: Array, inverse: Array, mask: Array
) -> List[Any]:
    g = np.where(unpacked(mask, x.shape), dy.astype(np.float64), 0)
    return [result.astype(x.dtype) for result in (*plain_gradient(op, x, scale, g, mean, inverse), g)]


def plain_gradient(
    op: OperatorDef, x: Array, scale: Array, g: Array, mean: Array, inverse: Array
) -> Tuple[Array, Array, Array]:
    """dX, dscale and dbias of a SpatialBN whose output has the gradient ``g``; float64."""
    axis = channel_axis(op, x.ndim)
    others = tuple(i for i in range(x.ndim) if i != axis)

    def wide(parameter: Array) -> Array:
        return along_axis(parameter.astype(np.float64), axis, x.ndim)

    standard = (x - wide(mean)) * wide(inverse)
    dscale, dbias = (g * standard).sum(axis=others), g.sum(axis=others)
    rest = g
    if not op.get_bool("is_test"):
        rest = g - (wide(dbias) + standard * wide(dscale)) / (x.size // x.shape[axis])
    return wide(scale) * wide(inverse) * rest, dscale, dbias


@operator("SpatialBNOutputGradient", domain="armnet", inputs=5, outputs=3, inplace={0: (2, 0)})
def spatial_bn_output_gradient(
    op: OperatorDef, y: TensorSpec, scale: TensorSpec, dy: TensorSpec, bias: TensorSpec, inverse: TensorSpec
) -> List[TensorSpec]:
    """dX, dscale and dbias of a SpatialBN in training that overwrote X, from its output Y: x' = (Y - bias) / scale.

    Else as SpatialBNReluGradient without the mask. Where scale is 0, x' is unknown, and taken as 0. ``inverse`` is
    output 4 of SpatialBN. Source: Bulo et al., In-Place Activated BatchNorm (2018).
    """
    require(op, 2 <= y.ndim <= 5 and y.size > 0, "Y must have 2 to 5 dimensions and must not be empty", y)
    require_floats(op, y, scale, dy, bias, inverse)
    require(op, dy.shape == y.shape, "dY must have the shape of Y", y, dy)
    axis = channel_axis(op, y.ndim)
    require_channels(op, y, axis, scale, bias, inverse)
    return [y, *[y.with_shape((y.shape[axis],))] * 2]


@spatial_bn_output_gradient.reference
def spatial_bn_output_gradient_reference(
    op: OperatorDef, y: Array, scale: Array, dy: Array, bias: Array, inverse: Array
) -> List[Any]:
    axis, wide = channel_axis(op, y.ndim), scale.astype(np.float64).reshape(-1)
    one_over = np.divide(1, wide, out=np.zeros_like(wide), where=wide != 0)
    standard = (y - along_axis(bias.astype(np.float64), axis, y.ndim)) * along_axis(one_over, axis, y.ndim)
    spread = inverse.astype(np.float64).reshape(-1)
    x = standard / along_axis(spread, axis, y.ndim)  # X without its mean
    results = plain_gradient(op, x, wide, dy.astype(np.float64), np.zeros_like(wide), spread)
    return [result.astype(y.dtype) for result in results]


@spatial_bn_output_gradient.kernel("NUMPY", supports=channels_first, scratch=backward_scratch)
def spatial_bn_output_gradient_numpy(call: Call) -> Run:
    return plain_backward_run(call, call.inputs[2], from_output=True)


@spatial_bn_relu_gradient.kernel("NUMPY", supports=channels_first, scratch=backward_scratch)
@spatial_bn_add_relu_gradient.kernel("NUMPY", supports=channels_first, scratch=backward_scratch)
def fused_gradient_numpy(call: Call) -> Run:
    return backward_run(call)
