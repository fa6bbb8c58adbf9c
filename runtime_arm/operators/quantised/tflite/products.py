"""TensorFlow Lite's quantised sums of products: convolutions, fully connected layers, matrix products.

    Y = clamp(round(sum of (X - X_zero_point) (W - W_zero_point) + B) * (X_scale * W_scale / Y_scale)) + Y_zero_point)

``W_scales`` holds one scale, or one per filter, of any sign. W has the type of X, and B is int32; but with an X of
int16, W is int8 and B int64, or in fully connected layers also W int16 and B int32. The scale of B is X_scale *
W_scale. The product of the scales is a double; for convolutions of uint8 and for W of int16 it is rounded to float32.
Fully connected layers multiply by it as a double unless W is int16, the others in fixed point, of 16 bits for int16
(see ``rounding.py``). Source: LiteRT's kernel_util.cc, reference/conv.h, reference/integer_ops/conv.h and
fully_connected.h, and LiteRT 2.3.0 itself.
"""

from __future__ import annotations

from typing import Any, List, Optional

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.multiply_adds import fully_connected, matrix_product, per_output, per_row
from runtime_arm.operators.common.windows import Window, onnx_window
from runtime_arm.operators.conv.convolution import convolution_of, convolve
from runtime_arm.operators.layout.reshape import product
from runtime_arm.operators.quantised.onnx.products import matmul_shape
from runtime_arm.operators.quantised.tflite.parameters import (
    RULE,
    UP_TO_SIXTEEN_BITS,
    WIDE_RULE,
    Affine,
    Range,
    activation_range,
    affine,
    limits_of,
    quantised,
    requantised,
)
from runtime_arm.records import NamedTuple
from runtime_arm.registry.schema import integers_of, require
from runtime_arm.registry.specs import Shape, TensorSpec

WIDE_LIMIT = 2.0**14  # multipliers of sums of int16 must be less


class Products(NamedTuple):
    """How sums of products are requantised. multiplier: float64, one element or (M)."""

    x: Affine
    w_zero_point: int
    multiplier: Array
    y: Affine
    limits: Range
    rule: str


def products_of(op: OperatorDef, dtype: Any, filters: int, of_weights: Any = np.int8) -> Products:
    """Reads and checks the quantisation of a convolution or fully connected layer. X and Y have the dtype.

    of_weights: the dtype of W, which matters for an X of int16.
    """
    x, y = affine(op, "X", dtype), affine(op, "Y", dtype)
    scales = np.array(op.get_floats("W_scales"), np.float32)
    if not bool(np.all(np.isfinite(scales))):
        raise ArgumentError(op, "W_scales must be finite")
    if len(scales) not in (1, filters):
        raise ArgumentError(op, f"W_scales must hold one scale or {filters}, one per filter, got {len(scales)}")
    w_zero_point, limits = op.get_int("W_zero_point", 0), np.iinfo(dtype)
    moved = dtype == np.uint8 or (dtype == np.int8 and op.type == "QuantizedFullyConnected")
    if not limits.min <= w_zero_point <= limits.max or (w_zero_point and not moved):
        raise ArgumentError(
            op, f"W_zero_point must fit into the weights' type, and be 0 for signed filters, got {w_zero_point}"
        )
    if dtype == np.int16 and (x.zero_point or y.zero_point):
        raise ArgumentError(op, f"zero points of int16 must be 0, got {x.zero_point} and {y.zero_point}")
    wide = dtype == np.int16 and of_weights == np.int16
    connected = op.type == "QuantizedFullyConnected" and not wide
    if wide or (dtype == np.uint8 and not connected):
        multiplier = (x.scale * scales).astype(np.float64) / np.float64(y.scale)
    else:
        multiplier = np.float64(x.scale) * scales.astype(np.float64) / np.float64(y.scale)
    rule = "tflite_real" if connected else WIDE_RULE if dtype == np.int16 else RULE
    if rule == WIDE_RULE and bool(np.any(np.abs(multiplier) >= WIDE_LIMIT)):
        raise ArgumentError(op, f"X_scale times W_scale over Y_scale must be less than {WIDE_LIMIT}")
    return Products(x, w_zero_point, multiplier, y, activation_range(op, dtype, y), rule)


def _require_operands(op: OperatorDef, x: TensorSpec, w: TensorSpec, b: Optional[TensorSpec], filters: int) -> None:
    connected = op.type == "QuantizedFullyConnected"
    if x.dtype == np.int16:
        require(op, w.dtype == np.int8 or (connected and w.dtype == x.dtype), "the weights must be int8", x, w)
    else:
        require(op, w.dtype == x.dtype, "X and the weights must have one type", x, w)
    allowed = ("int32",) if w.dtype == x.dtype else ("int64", "int32") if connected else ("int64",)
    fits = b is None or (b.dtype.name in allowed and b.shape == (filters,))
    require(op, fits, f"the bias must be {' or '.join(allowed)}, one for each of {filters} filters", b)
    products_of(op, x.dtype, filters, w.dtype)


@quantised("QuantizedConv", inputs=(2, 3), dtypes=UP_TO_SIXTEEN_BITS, multiply_adds=per_output())
def quantized_conv(op: OperatorDef, x: TensorSpec, w: TensorSpec, b: Optional[TensorSpec] = None) -> List[TensorSpec]:
    """CONV_2D and DEPTHWISE_CONV_2D: X (N, H, W, C), W (M, kh, kw, C / group), Y (N, H', W', M).

    strides, dilations, auto_pad, pads and group are those of ONNX's Conv.
    """
    convolution = convolution_of(op, x, w)
    _require_operands(op, x, w, b, convolution.filters)
    return [TensorSpec(convolution.output_shape, x.dtype)]


@quantized_conv.reference
def quantized_conv_reference(op: OperatorDef, x: Array, w: Array, b: Optional[Array] = None) -> List[Any]:
    convolution = convolution_of(op, TensorSpec.known(x), TensorSpec.known(w))
    products = products_of(op, x.dtype, convolution.filters)
    pixels, weights = x.astype(np.float64) - products.x.zero_point, w.astype(np.float64) - products.w_zero_point
    return [_finished(products, convolve(convolution, pixels, weights, b), x.dtype)]


def _finished(products: Products, sums: Array, dtype: Any) -> Array:
    return requantised(sums, products.multiplier, products.y.zero_point, products.limits, dtype, products.rule)


@quantised("QuantizedFullyConnected", inputs=(2, 3), dtypes=UP_TO_SIXTEEN_BITS, multiply_adds=fully_connected())
def quantized_fully_connected(
    op: OperatorDef, x: TensorSpec, w: TensorSpec, b: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """FULLY_CONNECTED: rows of K elements of X times W (M, K). Y: (rows, M).

    Without ``keep_num_dims`` X may have any shape whose elements can be divided into rows; with it Y is (*X.shape[:-1],
    M).
    """
    require(op, w.ndim == 2 and w.shape[1] > 0, "the weights must be a matrix", w)
    _require_operands(op, x, w, b, w.shape[0])
    if op.get_bool("keep_num_dims"):
        require(op, x.shape[-1:] == w.shape[1:], f"the last dimension of X must be {w.shape[1]}", x, w)
        return [TensorSpec((*x.shape[:-1], w.shape[0]), x.dtype)]
    require(op, product(x.shape) % w.shape[1] == 0, f"X cannot be divided into rows of {w.shape[1]}", x, w)
    return [TensorSpec((product(x.shape) // w.shape[1], w.shape[0]), x.dtype)]


@quantized_fully_connected.reference
def quantized_fully_connected_reference(op: OperatorDef, x: Array, w: Array, b: Optional[Array] = None) -> List[Any]:
    products = products_of(op, x.dtype, w.shape[0], w.dtype)
    rows = x.reshape(-1, w.shape[1]).astype(np.int64) - products.x.zero_point
    sums = rows @ (w.astype(np.int64) - products.w_zero_point).T + (0 if b is None else b)
    y = _finished(products, sums, x.dtype)
    return [y.reshape(*x.shape[:-1], w.shape[0]) if op.get_bool("keep_num_dims") else y]


class Transposed(NamedTuple):
    """A transposed convolution. ``window`` is that of the convolution from Y to X."""

    window: Window
    filters: int
    output_shape: Shape


def transposed_of(op: OperatorDef, x: TensorSpec, w: TensorSpec, size: Optional[TensorSpec]) -> Transposed:
    """Reads and checks the arguments of a QuantizedConvTranspose."""
    require(
        op, x.ndim == w.ndim == 4 and x.shape[3] == w.shape[3], "X and the weights must have the same channels", x, w
    )
    wanted = integers_of(op, size, "size")
    require(op, len(wanted) == 2 and min(wanted) > 0, f"size must be two positive numbers, got {wanted}")
    window = onnx_window(op, wanted, w.shape[1:3])
    require(
        op,
        window.output == x.shape[1:3] and set(window.dilation) == {1},
        f"an output of {wanted} pixels would need X to have {list(window.output)}",
        x,
    )
    return Transposed(window, w.shape[0], (x.shape[0], *wanted, w.shape[0]))


@quantised("QuantizedConvTranspose", inputs=(3, 4), dtypes=UP_TO_SIXTEEN_BITS, multiply_adds=per_row(1, dims=-1))
def quantized_conv_transpose(
    op: OperatorDef, x: TensorSpec, w: TensorSpec, size: TensorSpec, b: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """TRANSPOSE_CONV: X (N, H, W, C), W (M, kh, kw, C), Y (N, *size, M).

    strides, auto_pad: those of the convolution from Y to X.
    """
    transposed = transposed_of(op, x, w, size)
    _require_operands(op, x, w, b, transposed.filters)
    return [TensorSpec(transposed.output_shape, x.dtype)]


@quantized_conv_transpose.reference
def quantized_conv_transpose_reference(
    op: OperatorDef, x: Array, w: Array, size: Array, b: Optional[Array] = None
) -> List[Any]:
    transposed = transposed_of(op, *map(TensorSpec.known, (x, w, size)))
    products = products_of(op, x.dtype, transposed.filters)
    pixels, weights = x.astype(np.float64) - products.x.zero_point, w.astype(np.float64) - products.w_zero_point
    sums = np.zeros((transposed.output_shape[0], transposed.filters, *transposed.window.image))
    for tap in transposed.window.taps():
        weight = np.moveaxis(weights, -1, 1)[tap.kernel]
        sums[tap.image] += np.einsum("nhwc,mc->nmhw", pixels, weight)[tap.out]
    sums = np.moveaxis(sums, 1, -1)
    return [_finished(products, sums if b is None else sums + b, x.dtype)]


@quantised("QuantizedMatMul", inputs=2, dtypes=UP_TO_SIXTEEN_BITS, multiply_adds=matrix_product)
def quantized_matmul(op: OperatorDef, a: TensorSpec, b: TensorSpec) -> List[TensorSpec]:
    """BATCH_MATMUL: matmul(A - A_zero_point, B - B_zero_point), requantised by A_scale * B_scale / Y_scale.

    A and B have one type; B may be int8 if A is int16.
    """
    mixed = a.dtype == np.int16 and b.dtype == np.int8
    require(
        op, (mixed or a.dtype == b.dtype) and min(a.ndim, b.ndim) >= 2, "A and B must be matrices of one type", a, b
    )
    matrices_of(op, a.dtype)
    return [TensorSpec(matmul_shape(op, a, b), a.dtype)]


class Matrices(NamedTuple):
    """How a matrix product is requantised. The product of the scales is float32."""

    a: Affine
    b: Affine
    multiplier: Any
    y: Affine
    rule: str


def matrices_of(op: OperatorDef, dtype: Any) -> Matrices:
    """Reads and checks the quantisation of a QuantizedMatMul."""
    a, b, y = (affine(op, what, dtype) for what in "ABY")
    rule = WIDE_RULE if dtype == np.int16 else RULE
    return Matrices(a, b, np.float64(a.scale * b.scale) / np.float64(y.scale), y, rule)


@quantized_matmul.reference
def quantized_matmul_reference(op: OperatorDef, a: Array, b: Array) -> List[Any]:
    matrices = matrices_of(op, a.dtype)
    sums = np.matmul(a.astype(np.int64) - matrices.a.zero_point, b.astype(np.int64) - matrices.b.zero_point)
    limits = limits_of(a.dtype)
    return [requantised(sums, matrices.multiplier, matrices.y.zero_point, limits, a.dtype, matrices.rule)]
