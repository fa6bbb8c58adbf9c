"""TFLite's operators on 8-bit integers, exactly. Functions of 256 or 65,536 possible operands become tables."""

from __future__ import annotations

import math
from typing import Any, Dict, Sequence, Tuple

import numpy as np

from exporter.to_onnx.integers import (
    INT64,
    away_from_zero,
    high_product,
    looked_up,
    stored,
    times_fixed_point,
    times_real,
)
from exporter.to_onnx.rules import Call, Results, rule
from exporter.to_onnx.rules.native import explicit_pads
from runtime_arm.errors import ExportError
from runtime_arm.netdef import Array
from runtime_arm.netdef.dtypes import dtype_of
from runtime_arm.operators.common.windows import onnx_window
from runtime_arm.operators.quantised.fixed_point import FORTY_EIGHT_17THS, MINUS_32_17THS, MOST
from runtime_arm.operators.quantised.rounding import fixed_point
from runtime_arm.operators.quantised.tflite.parameters import activation_range, affine, limits_of
from runtime_arm.operators.quantised.tflite.pool import exact_multiplier, multiplier_of, pool_window
from runtime_arm.operators.quantised.tflite.products import Products, products_of
from runtime_arm.operators.quantised.tflite.resize import axis_of_size
from runtime_arm.operators.quantised.tflite.softmax import SUM_BITS, exponentials
from runtime_arm.registry.schema import axis_of, lookup
from runtime_arm.registry.specs import TensorSpec

RANK = 4  # of images
_BYTE, _INT32, _FLOAT = np.dtype(np.uint8), np.dtype(np.int32), np.dtype(np.float32)
_EIGHT_BITS = (np.dtype(np.int8), _BYTE)


def _eight_bits(call: Call, index: int = 0) -> np.dtype[Any]:
    dtype = call.dtype(index)
    if dtype not in _EIGHT_BITS:
        raise ExportError(f"{call.op.input[index]!r} is {dtype.name}; only 8-bit integers are translated to ONNX")
    return dtype


# Tables


@rule(
    "tflite.Requantize",
    "tflite.RescaleOperand",
    *(
        f"tflite.Quantized{name}"
        for name in (
            "Abs",
            "Elu",
            "Exp",
            "Gelu",
            "HardSwish",
            "LeakyRelu",
            "Log",
            "Logistic",
            "Neg",
            "Relu",
            "Rsqrt",
            "Sqrt",
            "Tanh",
        )
    ),
)
def of_one(call: Call) -> Results:
    every = _every(_eight_bits(call))
    return looked_up(call, _place(call, 0), lookup(call.op).evaluate(call.op, [every])[0])


@rule(
    *(
        f"tflite.Quantized{name}"
        for name in (
            "Add",
            "Sub",
            "Mul",
            "PRelu",
            "SquaredDifference",
            "Equal",
            "NotEqual",
            "Greater",
            "GreaterEqual",
            "Less",
            "LessEqual",
        )
    )
)
def of_two(call: Call) -> Results:
    every = _every(_eight_bits(call))
    table = lookup(call.op).evaluate(call.op, [np.repeat(every, 256), np.tile(every, 256)])[0]
    first = call.node("Mul", _place(call, 0), call.constant(256, np.int32))
    return looked_up(call, call.node("Add", first, _place(call, 1)), table)


def _every(dtype: np.dtype[Any]) -> Array:
    """Every number of the dtype, in order."""
    limits = limits_of(dtype)
    return np.arange(limits.low, limits.high + 1).astype(dtype)


def _place(call: Call, index: int) -> str:
    """The position of an 8-bit integer among all values of its type."""
    wide = call.node("Cast", call.input(index), to=_INT32)
    return wide if _eight_bits(call, index) == _BYTE else call.node("Add", wide, call.constant(128, np.int32))


# Between floats and integers


@rule("tflite.Quantize")
def quantize(call: Call) -> Results:
    """Rounds halves away from zero."""
    spec = lookup(call.op).infer(call.op, [TensorSpec((1,), np.float32)])[0]
    y, limits = affine(call.op, "Y", spec.dtype), limits_of(spec.dtype)
    steps = call.node("Div", call.x, call.constant(y.scale))
    magnitude = call.node("Abs", steps)
    whole = call.node("Floor", magnitude)
    up = call.node("GreaterOrEqual", call.node("Sub", magnitude, whole), call.constant(0.5, np.float32))
    rounded = call.node("Mul", call.node("Sign", steps), call.node("Add", whole, call.node("Cast", up, to=_FLOAT)))
    least, most = (call.constant(limit - y.zero_point, np.float32) for limit in limits)
    kept = call.node("Where", call.node("IsNaN", rounded), least, call.node("Clip", rounded, least, most))
    return call.node("Cast", call.node("Add", kept, call.constant(y.zero_point, np.float32)), to=spec.dtype)


@rule("tflite.Dequantize")
def dequantize(call: Call) -> Results:
    x = affine(call.op, "X", call.dtype())
    return call.node("DequantizeLinear", call.x, call.constant(x.scale), call.constant(x.zero_point, call.dtype()))


# Sums of products


def _unsigned(call: Call, zero_point: int) -> Tuple[str, str]:
    """The first input as uint8, and its zero point: not every runtime has integer products of signed numbers."""
    if _eight_bits(call) == _BYTE:
        return call.x, call.constant(zero_point, np.uint8)
    return call.node("Cast", _place(call, 0), to=_BYTE), call.constant(zero_point + 128, np.uint8)


def _weights(call: Call, zero_point: int) -> Tuple[Array, str]:
    value = call.value(1)
    if value is None:
        raise ExportError(f"the weights {call.op.input[1]!r} must be constant")
    moved = 128 if value.dtype == np.int8 else 0
    return (value.astype(np.int16) + moved).astype(np.uint8), call.constant(zero_point + moved, np.uint8)


def _finished(call: Call, products: Products, sums: str, shape: Tuple[int, ...]) -> str:
    """32-bit sums as outputs; the multipliers, one or one per filter, have this shape."""
    multiplier = products.multiplier.reshape(shape) if products.multiplier.size > 1 else products.multiplier
    if products.rule == "tflite_real":
        numbers = times_real(call, sums, multiplier)
    else:
        numbers = times_fixed_point(call, call.node("Cast", sums, to=INT64), fixed_point(multiplier))
    return stored(call, numbers, products.y.zero_point, products.limits, call.dtype())


@rule("tflite.QuantizedConv")
def conv(call: Call) -> Results:
    """Pictures (N, H, W, C), filters (M, kernel, C / group)."""
    op = call.op
    products = products_of(op, _eight_bits(call), call.shape(1)[0])
    x, x_zero = _unsigned(call, products.x.zero_point)
    filters, w_zero = _weights(call, products.w_zero_point)
    sums = call.node(
        "ConvInteger",
        call.channels_first(x, RANK),
        call.constant(_first(filters)),
        x_zero,
        w_zero,
        **window(call, filters.shape[1:-1]),
        dilations=list(op.get_ints("dilations")) or None,
        group=op.get_int("group", 1),
    )
    return _pictures(call, products, sums, 2)


def _pictures(call: Call, products: Products, sums: str, bias: int) -> str:
    """The sums of a convolution, channels first, as outputs."""
    if call.has(bias):
        sums = call.node("Add", sums, call.reshaped(call.input(bias), -1, 1, 1))
    return call.channels_last(_finished(call, products, sums, (-1, 1, 1)), RANK)


@rule("tflite.QuantizedConvTranspose")
def conv_transpose(call: Call) -> Results:
    """ONNX has no such operator on integers: the picture with zeros between its pixels is convolved with filters that
    are turned around."""
    size = call.value(2)
    if size is None:
        raise ExportError("the size of the result must be known")
    products = products_of(call.op, _eight_bits(call), call.shape(1)[0])
    x, x_zero = _unsigned(call, products.x.zero_point)
    filters, w_zero = _weights(call, products.w_zero_point)
    found = onnx_window(call.op, size.tolist(), filters.shape[1:-1])
    high, wide = found.output
    down, right = found.stride
    spread = call.reshaped(call.channels_first(x, RANK), 0, 0, high, 1, wide, 1)
    spread = call.node("Pad", spread, call.ints(*[0] * 9, down - 1, 0, right - 1), x_zero)
    heads = [kernel - 1 - head for kernel, head in zip(found.kernel, found.head)]
    tails = [
        image + kernel - 1 - head - pixels * stride
        for image, kernel, head, pixels, stride in zip(found.image, found.kernel, heads, found.output, found.stride)
    ]
    spread = call.reshaped(spread, 0, 0, high * down, wide * right)
    padded = call.node("Pad", spread, call.ints(0, 0, *heads, 0, 0, *tails), x_zero)
    turned = call.constant(_first(filters[:, ::-1, ::-1]))
    return _pictures(call, products, call.node("ConvInteger", padded, turned, x_zero, w_zero), 3)


def _first(filters: Array) -> Array:
    return np.ascontiguousarray(np.moveaxis(filters, -1, 1))


@rule("tflite.QuantizedFullyConnected")
def fully_connected(call: Call) -> Results:
    filters, depth = call.shape(1)
    products = products_of(call.op, _eight_bits(call), filters)
    x, x_zero = _unsigned(call, products.x.zero_point)
    matrix, w_zero = _weights(call, products.w_zero_point)
    rows = x if call.op.get_bool("keep_num_dims") else call.reshaped(x, -1, depth)
    sums = call.node("MatMulInteger", rows, call.constant(np.ascontiguousarray(matrix.T)), x_zero, w_zero)
    sums = call.node("Add", sums, call.input(2)) if call.has(2) else sums
    return _finished(call, products, sums, (-1,))


# Pools and reductions


@rule("tflite.QuantizedMaxPool")
def max_pool(call: Call) -> Results:
    _eight_bits(call)
    y = call.node("MaxPool", call.channels_first(call.x, RANK), **window(call, call.op.get_ints("kernel_shape")))
    return call.channels_last(y, RANK)


def window(call: Call, kernel: Sequence[int]) -> Dict[str, Any]:
    """The attributes of a window over pictures (N, H, W, C)."""
    op, image = call.op, (call.known_dims() or (None,) * RANK)[1:-1]
    auto_pad, pads = op.get_str("auto_pad", "NOTSET"), explicit_pads(op, image, tuple(kernel))
    if pads is None and auto_pad == "NOTSET":
        pads = list(op.get_ints("pads")) or None
    return {
        "kernel_shape": list(kernel),
        "strides": list(op.get_ints("strides")) or None,
        "pads": pads,
        "auto_pad": None if pads is not None else auto_pad,
    }


@rule("tflite.QuantizedAveragePool")
def average_pool(call: Call) -> Results:
    """Sums are convolutions with ones; only pixels inside the picture count."""
    dtype, dims = _eight_bits(call), call.known_dims() or (None,) * RANK
    if None in dims[1:]:
        raise ExportError("the number of pixels in a window depends on an open size")
    counts = pool_window(call.op, TensorSpec([1, *(n for n in dims[1:] if n)], dtype)).counts()
    x, zero = _unsigned(call, 0)
    options, channels = window(call, call.op.get_ints("kernel_shape")), int(dims[-1] or 1)
    ones = call.constant(np.ones((channels, 1, *options["kernel_shape"]), np.uint8))
    sums = call.node(
        "ConvInteger", call.channels_first(x, RANK), ones, zero, call.constant(0, np.uint8), **options, group=channels
    )
    wide = call.node("Cast", sums, to=INT64)
    half = call.node("Add", call.node("Abs", wide), call.constant(counts // 2))
    means = call.node("Mul", call.node("Sign", wide), call.node("Div", half, call.constant(counts)))
    limits = activation_range(call.op, dtype, affine(call.op, "Y", dtype))
    return call.channels_last(stored(call, means, 0, limits, dtype), RANK)


@rule("tflite.QuantizedMean", "tflite.QuantizedSum")
def reduce(call: Call) -> Results:
    dtype, dims = call.dtype(), call.known_dims() or ()
    axes = sorted({axis_of(call.op, axis, call.rank()) for axis in call.op.get_ints("axes", range(call.rank()))})
    sizes = [dims[axis] for axis in axes]
    if None in sizes:
        raise ExportError("the number of reduced elements depends on an open size")
    count = math.prod(n for n in sizes if n is not None)
    sums = call.node(
        "ReduceSum", call.node("Cast", call.x, to=INT64), call.ints(*axes), keepdims=int(call.op.get_bool("keepdims"))
    )
    centred = call.node("Sub", sums, call.constant(affine(call.op, "X", dtype).zero_point * count, np.int64))
    exact, fixed = exact_multiplier(call.op, dtype), multiplier_of(call.op, dtype, count)
    if exact is not None:
        numbers = times_real(call, centred, np.asarray(exact))
    else:
        numbers = times_fixed_point(call, centred, type(fixed)(np.asarray(fixed.mantissa), np.asarray(fixed.exponent)))
    return stored(call, numbers, affine(call.op, "Y", dtype).zero_point, limits_of(dtype), dtype)


@rule("tflite.QuantizedResizeBilinear")
def resize_bilinear(call: Call) -> Results:
    """The four pixels around each output, weighted: in fixed point for int8, in float32 for uint8."""
    dtype, size, dims = _eight_bits(call), call.value(1), call.known_dims() or (None,) * RANK
    if size is None or dims[1] is None or dims[2] is None:
        raise ExportError("the sizes of both pictures must be known")
    rows, columns = (
        axis_of_size(call.op, pixels, int(output), dtype) for pixels, output in zip((dims[1], dims[2]), size)
    )
    wide = INT64 if dtype == np.int8 else _FLOAT
    x, terms = call.node("Cast", call.x, to=wide), []
    for right in (False, True):
        for down in (False, True):
            met = call.node("Gather", x, call.constant(rows[down], np.int64), axis=1)
            met = call.node("Gather", met, call.constant(columns[right], np.int64), axis=2)
            weighted = call.node("Mul", met, call.constant(rows[2 + down].reshape(-1, 1, 1), wide))
            terms.append(call.node("Mul", weighted, call.constant(columns[2 + right].reshape(-1, 1), wide)))
    total = terms[0]
    for term in terms[1:]:
        total = call.node("Add", total, term)
    if wide == INT64:
        return call.node("Cast", away_from_zero(call, total, np.int64(2 * 10)), to=dtype)
    return call.node("Cast", call.node("Floor", call.node("Add", total, call.constant(0.5, np.float32))), to=dtype)


@rule("tflite.QuantizedSoftmax")
def softmax(call: Call) -> Results:
    """Looks up the exponentials of the distance to the row's largest element; see the reference kernel."""
    op, dtype = call.op, _eight_bits(call)
    limits, (spec,) = limits_of(dtype), lookup(op).infer(op, [TensorSpec((1,), dtype)])
    if spec.dtype != dtype:
        raise ExportError("only 8-bit results are translated to ONNX")
    table = exponentials(op, affine(op, "X", dtype).scale, op.get_float("beta", 1.0))
    wide = call.node("Cast", call.x, to=INT64)
    below = call.node("Sub", call.node("ReduceMax", wide, call.ints(-1)), wide)
    total = call.node("ReduceSum", looked_up(call, below, table.terms), call.ints(-1))
    bits = _bits(call, total)
    values = looked_up(call, below, table.values)
    quotient = high_product(call, _reciprocal(call, total, bits), values)
    power = looked_up(call, call.node("Add", bits, call.ints(SUM_BITS - 32 + 31 - 8)), _POWERS)
    half = call.node("Div", power, call.ints(2))
    found = stored(call, call.node("Div", call.node("Add", quotient, half), power), limits.low, limits, dtype)
    counts = call.node("Greater", values, call.ints(0))
    return call.node("Where", counts, found, call.constant(limits.low, dtype))


_POWERS = np.left_shift(np.int64(1), np.arange(63))


def _bits(call: Call, number: str) -> str:
    """The bit lengths of numbers of up to 32 bits; their last dimension is 1."""
    reached = call.node("GreaterOrEqual", number, call.constant(_POWERS[:32]))
    return call.node("ReduceSum", call.node("Cast", reached, to=INT64), call.ints(-1))


def _reciprocal(call: Call, number: str, bits: str) -> str:
    """``fixed_point.reciprocal``: Newton's method on the number shifted to 32 bits."""
    top = call.node("Mul", number, looked_up(call, call.node("Sub", call.ints(32), bits), _POWERS))
    half = call.node("Div", call.node("Add", top, call.ints(MOST - (1 << 31) + 1)), call.ints(2))
    x = call.node("Add", high_product(call, half, call.ints(MINUS_32_17THS)), call.ints(FORTY_EIGHT_17THS))
    for _ in range(3):
        error = call.node("Sub", call.ints(1 << 29), high_product(call, half, x))
        x = call.node("Add", x, _saturated(call, call.node("Mul", high_product(call, x, error), call.ints(4))))
    return _saturated(call, call.node("Mul", x, call.ints(2)))


def _saturated(call: Call, number: str) -> str:
    return call.node("Clip", number, call.constant(-MOST - 1, np.int64), call.constant(MOST, np.int64))


@rule("tflite.Logistic")
def logistic(call: Call) -> Results:
    """ONNX does not say how a Sigmoid is rounded."""
    return call.node("Sigmoid", call.x)


@rule("tflite.Cast")
def cast(call: Call) -> Results:
    """ONNX does not define its casts of floats beyond the range."""
    x, dtype = call.x, np.dtype(dtype_of(call.op.get_int("to")))
    if dtype.itemsize < 4:
        limits = np.iinfo(dtype)
        floats = x if call.dtype() != np.float16 else call.node("Cast", x, to=_FLOAT)
        least, most = (call.constant(limit, np.float32) for limit in (limits.min, limits.max))
        x = call.node("Cast", call.node("Clip", floats, least, most), to=_INT32)
    return call.node("Cast", x, to=dtype)


@rule("tflite.FloorDiv")
def floor_divide(call: Call) -> Results:
    a, b = call.x, call.input(1)
    if call.dtype().kind == "f":
        return call.node("Floor", call.node("Div", a, b))
    return call.node("Div", call.node("Sub", a, call.node("Mod", a, b)), b)
