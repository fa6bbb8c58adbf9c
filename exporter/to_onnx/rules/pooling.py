"""Pools."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from exporter.to_onnx.rules import Call, Results, rule
from exporter.to_onnx.rules.convolution import computed_pads, geometry_of, needs_computed_pads, window
from runtime_arm.errors import ExportError
from runtime_arm.operators.common.windows import AVERAGE_POOLS, CAFFE_POOLING, MAX_POOLS, NOTSET, channels_last
from runtime_arm.operators.pool.caffe2 import of_no_pixel


@rule(*MAX_POOLS, *AVERAGE_POOLS, "LpPool")
def pool(call: Call) -> Results:
    """In ONNX the channels come first."""
    op, type = call.op, call.op.type.rstrip("123D")
    extra: Dict[str, Any] = {"p": _whole_power(call)} if type == "LpPool" else {}
    last, rank = channels_last(op), call.rank() if channels_last(op) else 0
    x = call.channels_first(call.x, rank) if last else call.x
    if op.get_bool("global_pooling"):
        y = call.node(f"Global{type}", x, **extra)
    elif needs_computed_pads(call) and not _rounds_alike(call):
        y = _padded_first(call, type, x, extra)
    else:
        included = 1 if type == "AveragePool" and op.get_bool("count_include_pad") else None
        y = call.node(type, x, **_window(call), count_include_pad=included, **extra)
    return call.channels_last(y, rank) if last else y


def _whole_power(call: Call) -> int:
    power = call.op.get_float("p", 2.0)
    if power != int(power):
        raise ExportError(f"p must be a whole number, it is {power:g}")
    return int(power)


def _window(call: Call) -> Dict[str, Any]:
    if call.op.get_int("legacy_pad", NOTSET) == CAFFE_POOLING:
        geometry = geometry_of(call)
        return {"kernel_shape": geometry.kernel, "strides": geometry.strides, "pads": geometry.pads, "ceil_mode": 1}
    return {name: value for name, value in window(call).items() if name != "dilations"}


def _rounds_alike(call: Call) -> bool:
    """Whether ONNX's ceil_mode gives as many windows as Caffe's rounding, which counts the head padding at both ends.

    Averages that include the padding differ in any case.
    """
    kernel, strides, pads = geometry_of(call)
    included = call.op.type.startswith("AveragePool") and call.op.get_bool("count_include_pad")
    heads, tails = pads[: len(kernel)], pads[len(kernel) :]
    fits = all(head or stride <= size for head, stride, size in zip(heads, strides, kernel))
    legacy = call.op.get_int("legacy_pad", NOTSET) == CAFFE_POOLING
    return legacy and heads == tails and fits and not included


def _padded_first(call: Call, type: str, x: str, extra: Dict[str, Any]) -> str:
    """A pool of an input that nodes pad first; an average is divided by the share of pixels that are not padding."""
    geometry = geometry_of(call)
    pads, axes = computed_pads(call, x), call.ints(*range(2, 2 + len(geometry.kernel)))
    window: Dict[str, Any] = {"kernel_shape": geometry.kernel, "strides": geometry.strides}
    lowest = float(of_no_pixel(call.dtype())) if type == "MaxPool" else 0.0
    y = call.node(type, call.node("Pad", x, pads, call.number(lowest), axes), **window, **extra)
    if type != "AveragePool" or call.op.get_bool("count_include_pad"):
        return y
    ones = call.node("Expand", call.number(1), call.node("Shape", x))
    share = call.node("AveragePool", call.node("Pad", ones, pads, call.number(0), axes), **window)
    return call.node("Div", y, share)


@rule("caffe.MaskOfMaxPool")
def mask_of_max_pool(call: Call) -> Results:
    """Positions within a picture, from positions within the whole blob."""
    height, width = _last_two(call)
    return call.node("Cast", call.node("Mod", call.x, call.node("Mul", height, width)), to=call.dtype(1))


def _last_two(call: Call) -> List[str]:
    return [call.node("Shape", call.input(1), start=axis, end=axis + 1 or None) for axis in (-2, -1)]


@rule("caffe.SPP")
def spatial_pyramid(call: Call) -> Results:
    """A pool for each level, flattened; an average includes the padding."""
    levels = []
    image = call.shape()[2:]
    for level in range(call.op.get_int("pyramid_height")):
        bins = 2**level
        kernel = [-(-n // bins) for n in image]
        pads = [(k * bins - n + 1) // 2 for k, n in zip(kernel, image)]
        include: Optional[int] = 1
        if call.op.get_str("pool", "MAX") == "MAX":
            type, include = "MaxPool", None
        else:
            type = "AveragePool"
        if any(2 * pad + n < k * bins or pad >= k for pad, n, k in zip(pads, image, kernel)):
            raise ExportError(f"the bins of level {level} reach beyond the padding")
        pooled = call.node(type, call.x, kernel_shape=kernel, strides=kernel, pads=pads * 2, count_include_pad=include)
        levels.append(call.node("Flatten", pooled))
    return call.node("Concat", *levels, axis=1)
