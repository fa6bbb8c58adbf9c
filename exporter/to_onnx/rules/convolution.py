"""Convolutions, and the windows that pools have too."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple

import numpy as np

from exporter.to_onnx.rules import Call, Results, rule
from runtime_arm.operators.common.windows import CAFFE_POOLING, NOTSET, SAME, caffe2_list, channels_last


class Geometry(NamedTuple):
    """A Caffe2 window; pads are heads, then tails, without those that legacy_pad computes."""

    kernel: List[int]
    strides: List[int]
    pads: List[int]


def geometry_of(call: Call) -> Geometry:
    """The geometry that the arguments give."""
    kernel = caffe2_list(call.op, "kernel", "hw")
    strides = caffe2_list(call.op, "stride", "hw") or [1] * len(kernel)
    return Geometry(kernel, strides, caffe2_list(call.op, "pad", "tlbr") or [0] * 2 * len(kernel))


def needs_computed_pads(call: Call) -> bool:
    """Whether the padding depends on the size of the picture in a way that ONNX's attributes cannot express."""
    legacy, geometry = call.op.get_int("legacy_pad", NOTSET), geometry_of(call)
    cuts = any(stride > size for stride, size in zip(geometry.strides, geometry.kernel))
    return legacy == CAFFE_POOLING or (legacy == SAME and cuts)


def window(call: Call) -> Dict[str, Any]:
    """The attributes kernel_shape, strides, dilations, and pads or auto_pad, of a window without computed pads."""
    kernel, strides, pads = geometry_of(call)
    dilations = caffe2_list(call.op, "dilation", "hw") or [1] * len(kernel)
    attributes: Dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "dilations": dilations}
    if call.op.get_int("legacy_pad", NOTSET) == SAME:
        return {**attributes, "auto_pad": "SAME_UPPER"}
    return {**attributes, "pads": pads}


def computed_pads(call: Call, x: str) -> str:
    """Head pads, then tail pads, negative to crop: ``caffe2_window``'s rules for legacy_pad 2 and 3 as nodes."""
    kernel, strides, pads = geometry_of(call)
    size, stride, image = call.ints(*kernel), call.ints(*strides), call.node("Shape", x, start=2)
    if call.op.get_int("legacy_pad") == CAFFE_POOLING:
        heads = pads[: len(kernel)]
        room = call.node("Add", image, call.ints(*(2 * pad - n for pad, n in zip(heads, kernel))))
        last = call.node("Mul", _quotient(call, room, strides), stride)
        start, head = _within(call, last, image, heads, stride), call.ints(*heads)
        needed = call.node("Sub", call.node("Add", start, size), image)
    else:
        last = call.node("Sub", _quotient(call, image, strides), call.ints(1))
        needed = call.node("Sub", call.node("Add", call.node("Mul", last, stride), size), image)
        head = call.node("Div", needed, call.ints(2))  # towards zero, as in Caffe2
    return call.node("Concat", head, call.node("Sub", needed, head), axis=0)


def _quotient(call: Call, number: str, strides: List[int]) -> str:
    """Divided by the strides, rounded up."""
    return call.node("Div", call.node("Add", number, call.ints(*(n - 1 for n in strides))), call.ints(*strides))


def _within(call: Call, start: str, image: str, heads: List[int], stride: str) -> str:
    """The start of the last window; if there is head padding, no window starts beyond the picture."""
    beyond = call.node("GreaterOrEqual", start, call.node("Add", image, call.ints(*heads)))
    dropped = call.node("And", beyond, call.constant([pad > 0 for pad in heads], np.bool_))
    return call.node("Sub", start, call.node("Where", dropped, stride, call.ints(0)))


@rule("Conv", "Conv1D", "Conv2D", "Conv3D", "ConvRelu")
def conv(call: Call) -> Results:
    """In ONNX the channels come first."""
    names, attributes, last = call.inputs, window(call), channels_last(call.op)
    rank = len(attributes["kernel_shape"]) + 2
    if last:
        names[:2] = [call.channels_first(names[0], rank), _filters_first(call, rank)]
    if needs_computed_pads(call):
        names[0] = call.node("Pad", names[0], computed_pads(call, names[0]), "", call.ints(*range(2, rank)))
        attributes = {name: value for name, value in attributes.items() if name not in ("pads", "auto_pad")}
    y = call.node("Conv", *names, **attributes, group=call.op.get_int("group", 1))
    y = call.node("Relu", y) if call.op.type == "ConvRelu" else y
    return call.channels_last(y, rank) if last else y


def _filters_first(call: Call, rank: int) -> str:
    """Weights (M, kernel, C) as (M, C, kernel)."""
    axes = [0, rank - 1, *range(1, rank - 1)]
    return call.weight(1, lambda w: w.transpose(axes)) or call.transposed(call.input(1), axes)


@rule("ConvTranspose")
def conv_transpose(call: Call) -> Results:
    names, geometry, last = call.inputs, geometry_of(call), channels_last(call.op)
    adjs = caffe2_list(call.op, "adj", "hw") or [0, 0]
    if last:
        names[:2] = [call.channels_first(names[0], 4), _filters_first(call, 4)]
    y = call.node(
        "ConvTranspose",
        *names,
        kernel_shape=geometry.kernel,
        strides=geometry.strides,
        pads=geometry.pads,
        output_padding=adjs if any(adjs) else None,
        group=call.op.get_int("group", 1),
    )
    return call.channels_last(y, 4) if last else y
