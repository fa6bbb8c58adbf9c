"""Pools over pictures."""

from __future__ import annotations

from typing import Any, Dict, Optional

import numpy as np

from exporter.to_tflite.rules import Call, Results, rule
from exporter.to_tflite.rules.convolution import finished, in_two, padded, picture_of, strides_of
from runtime_arm.operators.common.windows import Window
from runtime_arm.operators.pool.caffe2 import pool_of


@rule("MaxPool", "MaxPool1D", "MaxPool2D", "onnx.MaxPool")
def max_pool(call: Call) -> Results:
    """Padding counts as less than any number."""
    call.refuse_outputs_from(1)
    pool = pool_of(call.op, call.spec())
    picture, window = picture_of(call, pool.channels_last), in_two(pool.window)
    x, padding = padded(call, picture.tensor, window, _lowest(call, picture.tensor))
    shape = (pool.batch, *window.output, pool.channels)
    y = call.emit("MAX_POOL_2D", [x], shape, Padding=padding, **strides_of(window), **_size(window))
    return finished(call, y, picture)


def _lowest(call: Call, x: int) -> Optional[float]:
    """The lowest number of a tensor's type; None for integers whose scale is not known yet."""
    dtype, scaled = call.graph[x].dtype, call.graph[x].quantization is not None
    if dtype.kind == "f":
        return float(np.finfo(dtype).min)
    return float(np.iinfo(dtype).min) if scaled else None


def _size(window: Window) -> Dict[str, Any]:
    return {"FilterHeight": window.kernel[0], "FilterWidth": window.kernel[1]}


@rule("AveragePool", "AveragePool1D", "AveragePool2D", "onnx.AveragePool")
def average_pool(call: Call) -> Results:
    """TFLite divides by the number of pixels inside the picture. If others count, too, a product corrects this."""
    pool = pool_of(call.op, call.spec())
    picture, window = picture_of(call, pool.channels_last), in_two(pool.window)
    shape = (pool.batch, *window.output, pool.channels)
    divisors = pool.divisors.reshape(window.output)
    if window.kernel == window.image and not any(window.head) and window.output == (1, 1) and divisors.size == 1:
        y = call.emit("MEAN", [picture.tensor, call.ints(1, 2)], shape, KeepDims=True)
        return finished(call, y, picture)
    x, padding = padded(call, picture.tensor, window)
    y = call.emit("AVERAGE_POOL_2D", [x], shape, Padding=padding, **strides_of(window), **_size(window))
    counted = window.counts() if x == picture.tensor else np.full(window.output, np.prod(window.kernel))
    if not np.array_equal(counted, divisors):
        factor = (counted / divisors).astype(call.outputs[0].dtype).reshape(1, *window.output, 1)
        y = call.same_shape("MUL", y, call.graph.constant(factor))
    return finished(call, y, picture)
