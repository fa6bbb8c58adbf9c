"""Elementwise functions of one blob."""

from __future__ import annotations

from exporter.caffe.layer import Layer
from exporter.caffe.rules import rule

_SAME = {"AbsVal": "Abs", "Sigmoid": "Sigmoid", "TanH": "Tanh"}


@rule(*_SAME)
def same_in_caffe2(layer: Layer) -> None:
    layer.counts()
    layer.require(layer.type != "AbsVal" or not layer.in_place, "does not work in place")
    layer.add(_SAME[layer.type])


@rule("BNLL")
def bnll(layer: Layer) -> None:
    """ONNX's Softplus; Caffe2's overflows where exp(x) does."""
    layer.counts()
    layer.onnx("Softplus")


@rule("ReLU")
def relu(layer: Layer) -> None:
    layer.counts()
    slope = layer.param("relu_param").negative_slope
    if slope == 0:
        layer.add("Relu")
    else:
        layer.add("LeakyRelu", alpha=slope)


@rule("ReLU6")
def relu6(layer: Layer) -> None:
    """From MobileNet's forks."""
    layer.counts()
    layer.add("Clip", min=0.0, max=6.0)


@rule("PReLU")
def prelu(layer: Layer) -> None:
    """One slope per channel, or one for all."""
    layer.counts()
    layer.require_blobs(1)
    shared, dims = layer.param("prelu_param").channel_shared, layer.dims()
    layer.require(dims is None or len(dims) >= 2, f"needs a bottom of two or more dimensions, it has the shape {dims}")
    slopes = layer.trained(0).reshape(-1)
    count = 1 if shared else dims[1] if dims else len(slopes)
    layer.require(len(slopes) == count, f"blob 0 has {len(slopes)} slopes, {count} are needed")
    layer.add("PRelu", [*layer.bottoms, layer.constant("slope", slopes)])


@rule("ELU")
def elu(layer: Layer) -> None:
    layer.counts()
    layer.add("Elu", alpha=layer.param("elu_param").alpha)


@rule("Swish")
def swish(layer: Layer) -> None:
    layer.counts()
    layer.caffe("Swish", beta=layer.param("swish_param").beta)


@rule("Clip")
def clip(layer: Layer) -> None:
    layer.counts()
    bounds = layer.param("clip_param")
    layer.require(bounds.min <= bounds.max, f"min {bounds.min} is greater than max {bounds.max}")
    layer.add("Clip", min=bounds.min, max=bounds.max)


@rule("Threshold")
def threshold(layer: Layer) -> None:
    layer.counts()
    layer.caffe("Threshold", threshold=layer.param("threshold_param").threshold)


@rule("Power")
def power(layer: Layer) -> None:
    layer.counts()
    param = layer.param("power_param")
    layer.caffe("Power", power=param.power, scale=param.scale, shift=param.shift)


@rule("Exp", "Log")
def exp_or_log(layer: Layer) -> None:
    layer.counts()
    param = layer.param(f"{layer.type.lower()}_param")
    layer.caffe(layer.type, base=param.base, scale=param.scale, shift=param.shift)


@rule("Dropout")
def dropout(layer: Layer) -> None:
    """The identity, except in the phase TRAIN, where random elements become 0."""
    layer.counts()
    tops = [*layer.tops, layer.fresh("mask")] if layer.training else layer.tops
    layer.add(
        "Dropout", outputs=tops, is_test=int(not layer.training), ratio=layer.param("dropout_param").dropout_ratio
    )


@rule("Softmax")
def softmax(layer: Layer) -> None:
    """Over one axis; Caffe2's Softmax flattens all dimensions from the axis on."""
    layer.counts()
    axis = layer.axis(layer.param("softmax_param").axis)
    if layer.rank() == axis + 1:
        layer.add("Softmax", axis=axis)
    else:
        layer.onnx("Softmax", axis=axis)
