"""Convolutions."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence

import numpy as np

from exporter.caffe.layer import Layer
from exporter.caffe.rules import rule


class _Geometry(NamedTuple):
    """The geometry of a window; every list has one entry per spatial dimension."""

    kernel: List[int]
    stride: List[int]
    pad: List[int]
    dilation: List[int]


def _per_dimension(layer: Layer, param: Any, name: str, spatial: int, default: Optional[int]) -> List[int]:
    """A repeated field, given once or once per dimension, or the two fields for height and width."""
    stem = "kernel" if name == "kernel_size" else name
    parts = [f"{stem}_h", f"{stem}_w"]
    values = list(getattr(param, name))
    if name != "dilation" and any(param.HasField(part) for part in parts):
        layer.require(spatial == 2 and not values, f"{parts[0]} and {parts[1]} are for two dimensions, without {name}")
        return [int(getattr(param, part)) for part in parts]
    if not values and default is not None:
        values = [default]
    layer.require(
        len(values) in (1, spatial),
        f"{name} must be given once, or once for each of {spatial} dimensions, got {values}",
    )
    return values * spatial if len(values) == 1 else values


def _geometry(layer: Layer, param: Any, spatial: int) -> _Geometry:
    kernel = _per_dimension(layer, param, "kernel_size", spatial, None)
    stride = _per_dimension(layer, param, "stride", spatial, 1)
    pad = _per_dimension(layer, param, "pad", spatial, 0)
    dilation = _per_dimension(layer, param, "dilation", spatial, 1)
    layer.require(
        min([*kernel, *stride, *dilation], default=1) > 0,
        f"kernel {kernel}, stride {stride} and dilation {dilation} must be positive",
    )
    return _Geometry(kernel, stride, pad, dilation)


def _axis_and_spatial(layer: Layer, axis: int) -> Sequence[int]:
    """The channel axis and the number of dimensions after it; two if the shape is unknown."""
    axis = layer.axis(axis)
    rank = layer.rank()
    spatial = 2 if rank is None else rank - axis - 1
    layer.require(spatial >= 1, f"needs a dimension after axis {axis}, the bottom's shape is {layer.dims()}")
    return axis, spatial


@rule("Convolution", "DepthwiseConvolution", "ConvolutionDepthwise", "Deconvolution")
def convolution(layer: Layer) -> None:
    """N-dimensional, grouped, dilated; all bottoms use the same weights."""
    param, count = layer.param("convolution_param"), len(layer.bottoms)
    layer.require(count >= 1, "needs a bottom")
    layer.counts(count, count)
    axis, spatial = _axis_and_spatial(layer, param.axis)
    geometry = _geometry(layer, param, spatial)
    layer.require(param.num_output > 0, "num_output must be positive")
    dims = layer.dims()
    channels = dims[axis] if dims else None
    group = param.group
    if layer.type in ("DepthwiseConvolution", "ConvolutionDepthwise") and not param.HasField("group"):
        group = channels or param.num_output
    layer.require(
        group > 0 and (channels or group) % group == 0 and param.num_output % group == 0,
        f"{channels} channels and {param.num_output} outputs do not divide into {group} groups",
    )
    layer.require_blobs(1 + int(param.bias_term))
    deconvolution = layer.type == "Deconvolution"
    if deconvolution:
        shape = [channels, param.num_output // group, *geometry.kernel]
    else:
        shape = [param.num_output, channels // group if channels else None, *geometry.kernel]
    weights = [layer.weight("w", 0, shape)]
    weights.append(
        layer.weight("b", 1, [param.num_output])
        if param.bias_term
        else layer.constant("b", np.zeros(param.num_output, np.float32))
    )
    for bottom, top in zip(layer.bottoms, layer.tops):
        _folded(layer, axis, bottom, top, weights, geometry, group, deconvolution)


def _folded(
    layer: Layer,
    axis: int,
    bottom: str,
    top: str,
    weights: Sequence[str],
    geometry: _Geometry,
    group: int,
    deconvolution: bool,
) -> None:
    """All dimensions before the channel axis are batch dimensions."""
    if axis == 1:
        _add(layer, [bottom, *weights], top, geometry, group, deconvolution)
        return
    layer.require(axis > 1, "needs a batch before the channels")
    flat, made = layer.fresh("batch"), layer.fresh("made")
    layer.caffe("Flatten", [bottom], [flat], axis=0, end_axis=axis - 1)
    _add(layer, [flat, *weights], made, geometry, group, deconvolution)
    layer.caffe("SplitAxis", [made, bottom], [top], axis=axis)


def _add(layer: Layer, inputs: Sequence[str], top: str, geometry: _Geometry, group: int, deconvolution: bool) -> None:
    kernel, stride, pad, dilation = geometry
    if not deconvolution:
        layer.add(
            "Conv",
            inputs,
            [top],
            kernels=kernel,
            strides=stride,
            pads=pad * 2,
            dilations=dilation if max(dilation) > 1 else None,
            group=group,
        )
    elif len(kernel) == 2 and max(dilation) == 1:
        layer.add("ConvTranspose", inputs, [top], kernels=kernel, strides=stride, pads=pad * 2, group=group)
    else:
        layer.onnx(
            "ConvTranspose",
            inputs,
            [top],
            kernel_shape=kernel,
            strides=stride,
            pads=pad * 2,
            dilations=dilation,
            group=group,
        )


@rule("Im2col")
def im2col(layer: Layer) -> None:
    layer.counts()
    param = layer.param("convolution_param")
    axis, spatial = _axis_and_spatial(layer, param.axis)
    layer.require(axis == 1 and spatial == 2, "only images of two dimensions are unrolled")
    kernel, stride, pad, dilation = _geometry(layer, param, spatial)
    names = ("kernel", "stride", "dilation")
    sizes: Dict[str, Any] = {
        f"{name}_{side}": value
        for name, values in zip(names, (kernel, stride, dilation))
        for side, value in zip("hw", values)
    }
    bottom = layer.bottoms[0]
    if len(set(pad)) > 1:
        padded = layer.fresh("padded")
        layer.add("PadImage", [bottom], [padded], pad_t=pad[0], pad_b=pad[0], pad_l=pad[1], pad_r=pad[1])
        bottom, pad = padded, [0, 0]
    layer.add("Im2Col", [bottom], pad=pad[0], **sizes)
