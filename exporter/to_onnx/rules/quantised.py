"""Caffe2's operators of quantised bytes, exactly: sums by ONNX's integer operators, requantised in 64-bit integers.

ONNX's own QLinear operators round differently, by one multiplication in float32. A blob's scale and zero point are
known during the translation; the graph contains only its bytes.
"""

from __future__ import annotations

import math
from typing import Any, Optional, Tuple

import numpy as np

from exporter.to_onnx.integers import PRODUCT_BITS, away_from_zero, looked_up, stored, times_fixed_point
from exporter.to_onnx.rules import Call, Results, rule
from exporter.to_onnx.rules.convolution import computed_pads, needs_computed_pads, window
from runtime_arm.errors import ExportError
from runtime_arm.netdef import Array
from runtime_arm.operators.quantised.caffe2.conversion import LARGEST, lowest, output_quantization
from runtime_arm.operators.quantised.caffe2.layout import READINGS
from runtime_arm.operators.quantised.caffe2.products import multiplier_of
from runtime_arm.operators.quantised.caffe2.sums import multipliers
from runtime_arm.operators.quantised.rounding import fixed_point
from runtime_arm.registry.schema import lookup
from runtime_arm.registry.specs import QuantizedTensor, TensorSpec

RANK = 4  # of images
_BYTE, _INT32, _INT64 = np.dtype(np.uint8), np.dtype(np.int32), np.dtype(np.int64)


def _spec(call: Call, index: int) -> TensorSpec:
    """The spec of a quantised input."""
    spec = call.operands[index].known[0] if call.has(index) and call.operands[index].known else None
    if spec is None or spec.quantization is None:
        raise ExportError(
            f"the quantisation of {call.op.input[index]!r} must be known: give the shapes of the inputs (--shape)"
        )
    return spec


def _zero_point(call: Call, index: int) -> int:
    quantization = _spec(call, index).quantization
    assert quantization is not None
    return quantization.zero_point


def _byte(call: Call, value: int) -> str:
    return call.constant(value, np.uint8)


def _content(call: Call, index: int) -> Array:
    """The bytes of a constant input, or the numbers of a bias."""
    spec = call.operands[index].known[0] if call.operands[index].known else None
    if spec is None or spec.value is None:
        raise ExportError(f"{call.op.input[index]!r} must be constant")
    return spec.value


def _stored(call: Call, numbers: str, zero_point: int) -> str:
    return stored(call, numbers, zero_point, (lowest(call.op, zero_point), LARGEST), _BYTE)


def _requantised(call: Call, sums: str) -> str:
    """32-bit sums of products as the output's bytes."""
    multiplier = np.asarray(multiplier_of(call.op, _spec(call, 0), _spec(call, 1)))
    wide = call.node("Cast", sums, to=_INT64)
    numbers = times_fixed_point(call, wide, fixed_point(multiplier))
    return _stored(call, numbers, output_quantization(call.op).zero_point)


@rule("armnet.LookUp")
def look_up(call: Call) -> Results:
    """A negative index counts from the table's end, in ONNX as well."""
    return call.node("Gather", call.input(1), call.node("Cast", call.x, to=_INT32), axis=0)


# Between floats and bytes


@rule("Int8GivenTensorFill", "Int8GivenIntTensorFill")
def fill(call: Call) -> Results:
    return call.constant(lookup(call.op).evaluate(call.op, [])[0])


@rule("Int8Quantize")
def quantize(call: Call) -> Results:
    """Caffe2 gives 0 for NaN and for values beyond 32-bit integers."""
    scale, zero_point = output_quantization(call.op)
    steps = call.node("Round", call.node("Div", call.x, call.constant(scale, np.float32)))
    least, most = call.constant(-zero_point, np.float32), call.constant(LARGEST - zero_point, np.float32)
    fits = call.node("Less", steps, call.constant(2.0**31, np.float32))
    kept = call.node("Where", fits, call.node("Clip", steps, least, most), least)
    return call.node("Cast", call.node("Add", kept, call.constant(zero_point, np.float32)), to=_BYTE)


@rule("Int8Dequantize")
def dequantize(call: Call) -> Results:
    quantization = _spec(call, 0).quantization
    assert quantization is not None
    scale, zero_point = quantization
    return call.node("DequantizeLinear", call.x, call.constant(scale, np.float32), _byte(call, zero_point))


# Sums of products


@rule("Int8Conv", "Int8ConvRelu")
def conv(call: Call) -> Results:
    """Pictures (N, H, W, C), filters (M, kernel, C / group)."""
    attributes, rank = window(call), _spec(call, 0).ndim
    x, filters = call.channels_first(call.x, rank), np.moveaxis(_content(call, 1), -1, 1)
    if needs_computed_pads(call):
        x, attributes = _padded(call, x, rank), _without_pads(attributes)
    sums = call.node(
        "ConvInteger",
        x,
        call.constant(np.ascontiguousarray(filters)),
        _byte(call, _zero_point(call, 0)),
        _byte(call, _zero_point(call, 1)),
        **attributes,
        group=call.op.get_int("group", 1),
    )
    bias = call.constant(_content(call, 2).reshape(-1, *[1] * (rank - 2)))
    return call.channels_last(_requantised(call, call.node("Add", sums, bias)), rank)


def _padded(call: Call, x: str, rank: int) -> str:
    axes = call.ints(*range(2, rank))
    return call.node("Pad", x, computed_pads(call, x), _byte(call, _zero_point(call, 0)), axes)


def _without_pads(attributes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if name not in ("pads", "auto_pad")}


@rule("Int8FC", "Int8FCRelu")
def fully_connected(call: Call) -> Results:
    weights = _content(call, 1)
    matrix = np.ascontiguousarray(weights.reshape(len(weights), -1).T)
    rows = call.node("Flatten", call.x, axis=1)
    sums = call.node(
        "MatMulInteger",
        rows,
        call.constant(matrix),
        _byte(call, _zero_point(call, 0)),
        _byte(call, _zero_point(call, 1)),
    )
    return _requantised(call, call.node("Add", sums, call.input(2)))


# Elementwise


@rule("Int8Add", "Int8AddRelu", "Int8Sum", "Int8SumRelu")
def add(call: Call) -> Results:
    """Both operands are multiplied by integers with a common power of two."""
    first, second, shift = multipliers(call.op, _spec(call, 0), _spec(call, 1))
    terms = []
    for index, factor in ((0, first), (1, second)):
        wide = call.node("Cast", call.input(index), to=_INT64)
        centred = call.node("Sub", wide, call.constant(_zero_point(call, index), np.int64))
        terms.append(call.node("Mul", centred, call.constant(factor, np.int64)))
    rounded = away_from_zero(call, call.node("Add", *terms), np.int64(shift))
    return _stored(call, rounded, output_quantization(call.op).zero_point)


@rule("Int8Relu", "Int8LeakyRelu", "Int8Sigmoid")
def by_table(call: Call) -> Results:
    """A table of the results for all 256 bytes."""
    quantization = _spec(call, 0).quantization
    assert quantization is not None
    every = QuantizedTensor(np.arange(LARGEST + 1, dtype=np.uint8), *quantization)
    return looked_up(call, call.node("Cast", call.x, to=_INT32), lookup(call.op).evaluate(call.op, [every])[0])


@rule("Int8Softmax")
def softmax(call: Call) -> Results:
    """Quotients of integer exponentials of the distance to the row's largest byte; see the reference kernel."""
    spec = _spec(call, 0)
    if spec.quantization is None or any(
        known is None or known.shape[1:] != spec.shape[1:] for known in call.operands[0].known
    ):
        raise ExportError("the length of a row must be known")
    unit = min((2**32 - 1) / math.prod(spec.shape[1:]), 2**23 - 1)
    distances = np.arange(LARGEST + 1) - LARGEST
    table = np.rint(unit * np.exp(distances * float(np.float32(spec.quantization.scale)))).astype(np.int64)
    rows = call.node("Cast", call.node("Flatten", call.x, axis=1), to=_INT64)
    largest = call.node("ReduceMax", rows, call.ints(1))
    place = call.node("Add", rows, call.node("Sub", call.constant(LARGEST, np.int64), largest))
    exponentials = call.node("Gather", call.constant(table), place, axis=0)
    total = call.node("ReduceSum", exponentials, call.ints(1))
    half = call.node("Div", total, call.constant(2, np.int64))
    share = call.node("Add", call.node("Mul", exponentials, call.constant(LARGEST + 1, np.int64)), half)
    quotient = call.node("Min", call.node("Div", share, total), call.constant(LARGEST, np.int64))
    return call.node("Reshape", call.node("Cast", quotient, to=_BYTE), call.node("Shape", call.x))


# Pools


@rule("Int8MaxPool", "Int8MaxPoolRelu")
def max_pool(call: Call) -> Results:
    x, attributes = _image_and_window(call, 0)
    if attributes is None:
        y = call.node("GlobalMaxPool", call.node("Cast", x, to=np.dtype(np.float32)))
        y = call.node("Cast", y, to=_BYTE)
    else:
        y = call.node("MaxPool", x, **attributes)
    if call.op.type.endswith("Relu"):
        zero_point = _zero_point(call, 0)
        table = np.maximum(np.arange(LARGEST + 1), zero_point).astype(np.uint8)
        y = looked_up(call, call.node("Cast", y, to=_INT32), table)
    return call.channels_last(y, RANK)


@rule("Int8AveragePool", "Int8AveragePoolRelu")
def average_pool(call: Call) -> Results:
    """Sums are convolutions with ones; the padding is included, as zeros."""
    given, stated = _spec(call, 0), output_quantization(call.op)
    assert given.quantization is not None
    zero_point, channels = given.quantization.zero_point, given.shape[-1]
    x, attributes = _image_and_window(call, zero_point)
    if attributes is None:
        kernel = call.shape()[1:-1]
        wide = call.node("Sub", call.node("Cast", x, to=_INT64), call.constant(zero_point, np.int64))
        sums = call.node("ReduceSum", wide, call.ints(2, 3))
    else:
        kernel = tuple(attributes["kernel_shape"])
        ones = call.constant(np.ones((channels, 1, *kernel), np.uint8))
        small = call.node("ConvInteger", x, ones, _byte(call, zero_point), _byte(call, 0), **attributes, group=channels)
        sums = call.node("Cast", small, to=_INT64)
    multiplier = np.float32(given.quantization.scale) / (np.float32(stated.scale) * np.float32(math.prod(kernel)))
    fraction, exponent = np.frexp(multiplier)
    products = call.node("Mul", sums, call.constant(int(fraction * 2**24), np.int64))
    rounded = away_from_zero(call, products, np.int64(24 - int(exponent)), PRODUCT_BITS)
    return call.channels_last(_stored(call, rounded, stated.zero_point), RANK)


def _image_and_window(call: Call, filler: int) -> Tuple[str, Optional[dict[str, Any]]]:
    """The picture with its channels first, padded if the padding is computed; no window if the pool is global."""
    x = call.channels_first(call.x, RANK)
    if call.op.get_bool("global_pooling"):
        return x, None
    attributes = {name: value for name, value in window(call).items() if name != "dilations"}
    if not needs_computed_pads(call):
        return x, attributes
    padded = call.node("Pad", x, computed_pads(call, x), _byte(call, filler), call.ints(2, 3))
    return padded, _without_pads(attributes)


# Operators that only move bytes


@rule(
    "Int8Concat", "Int8Slice", "Int8Reshape", "Int8Flatten", "Int8Transpose", "Int8ChannelShuffle", "Int8ResizeNearest"
)
def moved(call: Call) -> Results:
    """The same as the operator without Int8 in its name."""
    spec = _spec(call, 0)
    plain = READINGS[call.op.type](call.op, spec.ndim).replace(type=call.op.type[len("Int8") :])
    return call.translator.results(plain, call.operands)
