"""ONNX's products of 8-bit integers: QLinearConv, ConvInteger, QLinearMatMul, MatMulInteger."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.multiply_adds import matrix_product, per_output
from runtime_arm.operators.conv.convolution import convolution_of, convolve
from runtime_arm.operators.quantised.parameters import (
    EIGHT_BITS,
    check_scale,
    parameters,
    require_dtype,
    require_parameters,
)
from runtime_arm.operators.quantised.rounding import requantize
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import Shape, TensorSpec

Spec = Optional[TensorSpec]


def _require_zero_point(op: OperatorDef, what: str, blob: TensorSpec, zero_point: Spec, channels: int = 1) -> None:
    if zero_point is None:
        return
    require(op, zero_point.dtype == blob.dtype, f"the zero point of {what} must have the blob's type", blob, zero_point)
    rule = f"the zero point of {what} must hold one element" + (f" or {channels}" if channels != 1 else "")
    require(op, zero_point.ndim <= 1 and zero_point.size in (1, channels), rule, zero_point)


@operator("QLinearConv", inputs=(8, 9), domain="onnx", multiply_adds=per_output(3))
def qlinear_conv(
    op: OperatorDef,
    x: TensorSpec,
    x_scale: TensorSpec,
    x_zero_point: TensorSpec,
    w: TensorSpec,
    w_scale: TensorSpec,
    w_zero_point: TensorSpec,
    y_scale: TensorSpec,
    y_zero_point: TensorSpec,
    b: Spec = None,
) -> List[TensorSpec]:
    """Y = saturate(round((conv(X - x_zero, W - w_zero) + B) * (x_scale * w_scale / y_scale)) + y_zero).

    Ties are rounded to even. X (N, C, *image), W (M, C/group, *kernel) and Y: int8 or uint8, each with its scale and
    zero point; those of W are one or M. B (M) is int32 with the scale x_scale * w_scale. Attributes: those of Conv.
    Source: onnx/defs/nn.
    """
    require_dtype(op, "X", x, EIGHT_BITS)
    require_dtype(op, "W", w, EIGHT_BITS)
    require_dtype(op, "the zero point of Y", y_zero_point, EIGHT_BITS)
    convolution = convolution_of(op, x, w)
    require_parameters(op, "X", x.dtype, x_scale, x_zero_point)
    require_parameters(op, "W", w.dtype, w_scale, w_zero_point, convolution.filters, "a filter")
    require_parameters(op, "Y", y_zero_point.dtype, y_scale, y_zero_point)
    require(
        op,
        b is None or (b.dtype == np.int32 and b.shape == (convolution.filters,)),
        "the bias must be int32, one value per filter",
        b,
        w,
    )
    return [TensorSpec(convolution.output_shape, y_zero_point.dtype)]


def _convolved(op: OperatorDef, x: Array, x_zero_point: Array, w: Array, w_zero_point: Array) -> Array:
    """The sums of a convolution of 8-bit integers. They are exact: float64 holds every integer below 2**53."""
    convolution = convolution_of(op, TensorSpec.known(x), TensorSpec.known(w))
    weights = w.astype(np.float64) - w_zero_point.reshape(-1, *[1] * (w.ndim - 1))
    return convolve(convolution, x.astype(np.float64) - x_zero_point, weights, None).astype(np.int64)


@qlinear_conv.reference
def qlinear_conv_reference(
    op: OperatorDef,
    x: Array,
    x_scale: Array,
    x_zero_point: Array,
    w: Array,
    w_scale: Array,
    w_zero_point: Array,
    y_scale: Array,
    y_zero_point: Array,
    b: Optional[Array] = None,
) -> List[Any]:
    px, pw = parameters(op, "X", x_scale, x_zero_point), parameters(op, "W", w_scale, w_zero_point)
    py = parameters(op, "Y", y_scale, y_zero_point)
    sums = _convolved(op, x, px.zero_point, w, pw.zero_point)
    along_filters = (-1, *[1] * (x.ndim - 2))
    if b is not None:
        sums += b.reshape(along_filters)
    multiplier = (px.scale * pw.scale / py.scale).reshape(along_filters)
    return [requantize(sums, multiplier, int(py.zero_point), y_zero_point.dtype)]


@operator("ConvInteger", inputs=(2, 4), domain="onnx", multiply_adds=per_output())
def conv_integer(
    op: OperatorDef, x: TensorSpec, w: TensorSpec, x_zero_point: Spec = None, w_zero_point: Spec = None
) -> List[TensorSpec]:
    """Y = conv(X - x_zero, W - w_zero) in int32.

    X (N, C, *image) and W (M, C/group, *kernel): int8 or uint8. The zero point of W is one or M. Attributes: those of
    Conv. Source: onnx/defs/nn.
    """
    require_dtype(op, "X", x, EIGHT_BITS)
    require_dtype(op, "W", w, EIGHT_BITS)
    convolution = convolution_of(op, x, w)
    _require_zero_point(op, "X", x, x_zero_point)
    _require_zero_point(op, "W", w, w_zero_point, convolution.filters)
    return [TensorSpec(convolution.output_shape, np.int32)]


@conv_integer.reference
def conv_integer_reference(
    op: OperatorDef, x: Array, w: Array, x_zero_point: Optional[Array] = None, w_zero_point: Optional[Array] = None
) -> List[Any]:
    zero = np.zeros(1)
    sums = _convolved(
        op,
        x,
        zero if x_zero_point is None else x_zero_point.reshape(()),
        w,
        zero if w_zero_point is None else w_zero_point,
    )
    return [sums.astype(np.int32)]


def matmul_shape(op: OperatorDef, a: TensorSpec, b: TensorSpec) -> Shape:
    """The shape of ``numpy.matmul(a, b)``. ShapeError if the operands do not fit."""
    require(op, a.ndim > 0 and b.ndim > 0, "the operands of a matrix product must have dimensions", a, b)
    rows, columns = a.shape[:-1][-1:], b.shape[1:][-1:]
    inner = b.shape[-2] if b.ndim > 1 else b.shape[0]
    require(op, a.shape[-1] == inner, "the last dimension of A must be the last but one of B", a, b)
    batches = a.shape[:-2], b.shape[:-2]
    length = max(map(len, batches))
    padded = [(1,) * (length - len(batch)) + batch for batch in batches]
    require(op, all(m == n or 1 in (m, n) for m, n in zip(*padded)), "the leading dimensions must broadcast", a, b)
    return (*(n if m == 1 else m for m, n in zip(*padded)), *rows, *columns)


def along_rows(parameter: Array) -> Array:
    """A scale or zero point of the left factor. A vector has one element per row."""
    return parameter.reshape(-1, 1) if parameter.ndim == 1 and parameter.size > 1 else parameter


def _require_matrix_parameter(
    op: OperatorDef, what: str, matrix: TensorSpec, other: TensorSpec, parameter: Spec, axis: int
) -> None:
    """ShapeError unless there is one element; for matrices also a vector along ``axis``, or its shape with another
    dimension of 1."""
    if parameter is None or (parameter.size == 1 and parameter.ndim <= 1):
        return
    matrices = min(matrix.ndim, other.ndim) >= 2
    require(op, matrices, f"{what} must hold one element if a vector is multiplied", parameter)
    count = matrix.shape[axis]
    full = (*matrix.shape[:-2], *((count, 1) if axis == -2 else (1, count)))
    require(
        op,
        parameter.shape in ((count,), full),
        f"{what} must hold one element or {count}, or have shape {list(full)}",
        matrix,
        parameter,
    )


def _require_factor(
    op: OperatorDef, what: str, matrix: TensorSpec, other: TensorSpec, zero_point: Spec, axis: int
) -> None:
    require_dtype(op, what, matrix, EIGHT_BITS)
    if zero_point is not None:
        require(op, zero_point.dtype == matrix.dtype, f"the zero point of {what} must have its type", zero_point)
    _require_matrix_parameter(op, f"the zero point of {what}", matrix, other, zero_point, axis)


def multiplied(a: Array, a_zero_point: Optional[Array], b: Array, b_zero_point: Optional[Array]) -> Array:
    """The sums of a product of 8-bit matrices; exact."""
    left, right = a.astype(np.int64), b.astype(np.int64)
    if a_zero_point is not None:
        left = left - along_rows(a_zero_point)
    if b_zero_point is not None:
        right = right - b_zero_point
    return np.asarray(np.matmul(left.reshape(a.shape), right.reshape(b.shape)))


@operator("MatMulInteger", inputs=(2, 4), domain="onnx", multiply_adds=matrix_product)
def matmul_integer(
    op: OperatorDef, a: TensorSpec, b: TensorSpec, a_zero_point: Spec = None, b_zero_point: Spec = None
) -> List[TensorSpec]:
    """Y = matmul(A - a_zero, B - b_zero) in int32, with the dimensions of numpy.matmul.

    A (..., M, K) and B (..., K, N): int8 or uint8. Zero points: one element; M for A's rows, N for B's columns; or
    (..., M, 1) and (..., 1, N). Source: onnx/defs/math.
    """
    _require_factor(op, "A", a, b, a_zero_point, -2)
    _require_factor(op, "B", b, a, b_zero_point, -1)
    return [TensorSpec(matmul_shape(op, a, b), np.int32)]


@matmul_integer.reference
def matmul_integer_reference(
    op: OperatorDef, a: Array, b: Array, a_zero_point: Optional[Array] = None, b_zero_point: Optional[Array] = None
) -> Sequence[Any]:
    return [multiplied(a, a_zero_point, b, b_zero_point).astype(np.int32)]


@operator("QLinearMatMul", inputs=8, domain="onnx", multiply_adds=matrix_product)
def qlinear_matmul(
    op: OperatorDef,
    a: TensorSpec,
    a_scale: TensorSpec,
    a_zero_point: TensorSpec,
    b: TensorSpec,
    b_scale: TensorSpec,
    b_zero_point: TensorSpec,
    y_scale: TensorSpec,
    y_zero_point: TensorSpec,
) -> List[TensorSpec]:
    """Y = saturate(round(matmul(A - a_zero, B - b_zero) * (a_scale * b_scale / y_scale)) + y_zero).

    Ties are rounded to even. A (..., M, K), B (..., K, N) and Y: int8 or uint8; scales: float32 or float16. Parameters
    as in MatMulInteger; those of Y hold one element. Source: onnx/defs/math.
    """
    _require_factor(op, "A", a, b, a_zero_point, -2)
    _require_factor(op, "B", b, a, b_zero_point, -1)
    require_dtype(op, "the zero point of Y", y_zero_point, EIGHT_BITS)
    require(
        op,
        y_scale.size == y_zero_point.size == 1,
        "scale and zero point of Y must hold one element",
        y_scale,
        y_zero_point,
    )
    _require_matrix_parameter(op, "the scale of A", a, b, a_scale, -2)
    _require_matrix_parameter(op, "the scale of B", b, a, b_scale, -1)
    for what, scale in (("A", a_scale), ("B", b_scale), ("Y", y_scale)):
        require_dtype(op, f"the scale of {what}", scale, (np.float32, np.float16))
        if scale.value is not None:
            check_scale(op, what, scale.value)
    return [TensorSpec(matmul_shape(op, a, b), y_zero_point.dtype)]


@qlinear_matmul.reference
def qlinear_matmul_reference(
    op: OperatorDef,
    a: Array,
    a_scale: Array,
    a_zero_point: Array,
    b: Array,
    b_scale: Array,
    b_zero_point: Array,
    y_scale: Array,
    y_zero_point: Array,
) -> Sequence[Any]:
    for what, scale in (("A", a_scale), ("B", b_scale), ("Y", y_scale)):
        check_scale(op, what, scale)
    rows, columns, y = (scale.astype(np.float32) for scale in (along_rows(a_scale), b_scale, y_scale.reshape(())))
    sums = multiplied(a, a_zero_point, b, b_zero_point)
    return [requantize(sums, rows * columns / y, int(y_zero_point.reshape(())), y_zero_point.dtype)]
