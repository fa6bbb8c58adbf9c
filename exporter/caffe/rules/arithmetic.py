"""Arithmetic on several blobs, reductions and ArgMax."""

from __future__ import annotations

from typing import Optional, Sequence

import numpy as np

from exporter.caffe.layer import Layer
from exporter.caffe.rules import rule
from runtime_arm.netdef import Array

_ELTWISE = {0: "Mul", 1: "Sum", 2: "Max"}


@rule("Eltwise")
def eltwise(layer: Layer) -> None:
    """PROD, SUM (optionally with coefficients) or MAX of blobs of the same shape."""
    param, count = layer.param("eltwise_param"), len(layer.bottoms)
    layer.require(count >= 2, f"takes 2 bottoms or more, got {count}")
    layer.counts(count)
    layer.require(len(param.coeff) in (0, count), f"has {len(param.coeff)} coefficients for {count} bottoms")
    layer.require(not (param.operation == param.PROD and param.coeff), "a product takes no coefficients")
    layer.require_same_shapes()
    if param.operation == param.SUM and param.coeff:
        pairs = [(blob, layer.constant("coeff", np.float32(c))) for blob, c in zip(layer.bottoms, param.coeff)]
        layer.add("WeightedSum", [name for pair in pairs for name in pair])
    elif param.operation != param.PROD:
        layer.add(_ELTWISE[param.operation])
    else:
        _product(layer)


def _product(layer: Layer) -> None:
    """A product of two blobs at a time: Caffe2's Mul takes two."""
    held = layer.bottoms[0]
    for index, blob in enumerate(layer.bottoms[1:], 2):
        made = layer.tops[0] if index == len(layer.bottoms) else layer.fresh("product")
        layer.add("Mul", [held, blob], [made])
        held = made


def _covered(layer: Layer, axis: int, num_axes: int) -> Optional[Sequence[Optional[int]]]:
    """The dimensions of the bottom that a scale or bias covers; None if the bottom's shape is unknown."""
    dims = layer.dims()
    layer.require(num_axes >= -1, f"num_axes must be -1 or more, got {num_axes}")
    if dims is None:
        return [None] * num_axes if num_axes >= 0 else None
    end = len(dims) if num_axes == -1 else axis + num_axes
    layer.require(end <= len(dims), f"num_axes {num_axes} reaches beyond the bottom's shape {dims}")
    return dims[axis:end]


def _trained(layer: Layer, index: int, axis: int, num_axes: int) -> Array:
    return layer.trained(index, _covered(layer, axis, num_axes))


def _broadcast(layer: Layer, type: str, left: str, right: str, top: str, axis: int) -> None:
    """Caffe2's legacy broadcasting: the right operand's dimensions align with the left operand's from the axis on."""
    layer.add(type, [left, right], [top], broadcast=1, axis=axis)


@rule("Scale")
def scale(layer: Layer) -> None:
    """X * scale + bias; the scale is a trained blob or the second bottom."""
    param, given = layer.param("scale_param"), len(layer.bottoms) == 2
    layer.counts(2 if given else 1)
    axis = layer.axis(param.axis)
    if param.bias_term or not given:
        layer.require_blobs(int(not given) + int(param.bias_term))
    factor = layer.bottoms[1] if given else layer.constant("scale", _trained(layer, 0, axis, param.num_axes))
    if given:
        _require_fitting(layer, axis)
    product = layer.fresh("product") if param.bias_term else layer.tops[0]
    _broadcast(layer, "Mul", layer.bottoms[0], factor, product, axis)
    if param.bias_term:
        num_axes = layer.rank(1) if given else param.num_axes
        layer.require(num_axes is not None, "needs a second bottom whose number of dimensions is known")
        bias = layer.constant("bias", _trained(layer, 0 if given else 1, axis, num_axes or 0))
        _broadcast(layer, "Add", product, bias, layer.tops[0], axis)


@rule("Bias")
def bias(layer: Layer) -> None:
    """X + bias; the bias is a trained blob or the second bottom."""
    param, given = layer.param("bias_param"), len(layer.bottoms) == 2
    layer.counts(2 if given else 1)
    axis = layer.axis(param.axis)
    if given:
        _require_fitting(layer, axis)
        addend = layer.bottoms[1]
    else:
        layer.require_blobs(1)
        addend = layer.constant("bias", _trained(layer, 0, axis, param.num_axes))
    _broadcast(layer, "Add", layer.bottoms[0], addend, layer.tops[0], axis)


def _require_fitting(layer: Layer, axis: int) -> None:
    """ExportError if the second bottom's shape is known to differ from the first one's dimensions from the axis on."""
    dims, other = layer.dims(0), layer.dims(1)
    if dims is not None and other is not None:
        layer.require(
            dims[axis : axis + len(other)] == other,
            f"the second bottom's shape {other} must be that of the first, {dims}, from axis {axis} on",
        )


@rule("Axpy")
def axpy(layer: Layer) -> None:
    """a X + Y with one factor per channel, (N, C) or (N, C, 1, 1); from the fork for squeeze and excitation."""
    layer.counts(3)
    factor, x, y = layer.bottoms
    layer.require(layer.rank() in (2, 4), f"the first bottom must be (N, C) or (N, C, 1, 1), it is {layer.dims()}")
    scaled = layer.fresh("scaled")
    if layer.rank() == 2:
        _broadcast(layer, "Mul", x, factor, scaled, 0)
    else:
        layer.add("Mul", [x, factor], [scaled])
    layer.add("Add", [scaled, y])


@rule("Reduction")
def reduction(layer: Layer) -> None:
    layer.counts()
    param = layer.param("reduction_param")
    operation = param.ReductionOp.Name(param.operation)
    layer.caffe("Reduction", operation=operation, axis=layer.axis(param.axis), coeff=param.coeff)


@rule("ArgMax")
def arg_max(layer: Layer) -> None:
    layer.counts()
    param = layer.param("argmax_param")
    axis = layer.axis(param.axis) if param.HasField("axis") else None
    layer.caffe("ArgMax", axis=axis, top_k=param.top_k, out_max_val=int(param.out_max_val))
