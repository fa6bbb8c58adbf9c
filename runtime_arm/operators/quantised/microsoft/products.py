"""onnxruntime's quantised matrix products: QGemm, MatMulIntegerToFloat, DynamicQuantizeMatMul.

Source: onnxruntime's ContribOperators.md.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.multiply_adds import fully_connected, matrix_product
from runtime_arm.operators.quantised.onnx.conversion import dynamic_parameters
from runtime_arm.operators.quantised.onnx.products import matmul_shape, multiplied
from runtime_arm.operators.quantised.parameters import (
    EIGHT_BITS,
    check_scale,
    parameters,
    quantized,
    require_dtype,
    require_parameters,
)
from runtime_arm.operators.quantised.rounding import requantize
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec

Spec = Optional[TensorSpec]
DOMAIN = "com.microsoft"


@operator("QGemm", inputs=(6, 9), domain=DOMAIN, multiply_adds=fully_connected(3))
def qgemm(
    op: OperatorDef,
    a: TensorSpec,
    a_scale: Spec,
    a_zero_point: Spec,
    b: TensorSpec,
    b_scale: Spec,
    b_zero_point: Spec,
    c: Spec = None,
    y_scale: Spec = None,
    y_zero_point: Spec = None,
) -> List[TensorSpec]:
    """Y = ((A - a_zero) @ (B - b_zero) + C) * (alpha * a_scale * b_scale): float32, or with y_scale quantised.

    A (M, K), with ``transA`` (K, M); B (K, N), with ``transB`` (N, K); B's scale and zero point: one or N. C int32
    broadcasts to (M, N). With y_scale:  saturate(round(Y / y_scale) + y_zero), of the type of Y's zero point.
    """
    require(op, a.ndim == b.ndim == 2, "A and B must be matrices", a, b)
    require_dtype(op, "A", a, EIGHT_BITS)
    require_dtype(op, "B", b, EIGHT_BITS)
    left, right = transposed(op, a, b)
    shape = matmul_shape(op, left, right)
    require_parameters(op, "A", a.dtype, a_scale, a_zero_point)
    require_parameters(op, "B", b.dtype, b_scale, b_zero_point, shape[1], "a column")
    if c is not None:
        fits = c.ndim <= 2 and all(n in (1, m) for n, m in zip(c.shape[::-1], shape[::-1]))
        require(op, c.dtype == np.int32 and fits, f"C must be int32 and broadcast to {list(shape)}", c)
    if y_scale is None:
        return [TensorSpec(shape, np.float32)]
    require(op, y_zero_point is not None, "Y's scale needs Y's zero point")
    assert y_zero_point is not None
    require_dtype(op, "the zero point of Y", y_zero_point, EIGHT_BITS)
    require_parameters(op, "Y", y_zero_point.dtype, y_scale, y_zero_point)
    return [TensorSpec(shape, y_zero_point.dtype)]


def transposed(op: OperatorDef, a: Any, b: Any) -> Any:
    """A and B, specs or arrays, in the orientation in which they are multiplied."""
    return [_turned(m) if op.get_bool(name) else m for m, name in ((a, "transA"), (b, "transB"))]


def _turned(matrix: Any) -> Any:
    if isinstance(matrix, TensorSpec):
        return TensorSpec(matrix.shape[::-1], matrix.dtype, None if matrix.value is None else matrix.value.T)
    return matrix.T


def qgemm_multiplier(op: OperatorDef, a_scale: Array, b_scale: Array, y_scale: Optional[Array]) -> Array:
    """The multiplier of the sums, float32, one or N."""
    alpha = np.float32(op.get_float("alpha", 1.0))
    scale = alpha * parameters(op, "A", a_scale).scale * parameters(op, "B", b_scale).scale
    return np.asarray(scale if y_scale is None else scale / parameters(op, "Y", y_scale).scale)


@qgemm.reference
def qgemm_reference(
    op: OperatorDef,
    a: Array,
    a_scale: Array,
    a_zero_point: Array,
    b: Array,
    b_scale: Array,
    b_zero_point: Array,
    c: Optional[Array] = None,
    y_scale: Optional[Array] = None,
    y_zero_point: Optional[Array] = None,
) -> List[Any]:
    left, right = transposed(op, a, b)
    sums = multiplied(left, a_zero_point, right, b_zero_point)
    if c is not None:
        sums = sums + c
    multiplier = qgemm_multiplier(op, a_scale, b_scale, y_scale)
    if y_zero_point is None:
        return [sums.astype(np.float32) * multiplier]
    return [requantize(sums, multiplier, int(y_zero_point.reshape(())), y_zero_point.dtype)]


def _to_float(
    op: OperatorDef, a: TensorSpec, b: TensorSpec, b_scale: Spec, b_zero_point: Spec, bias: Spec
) -> List[TensorSpec]:
    require_dtype(op, "B", b, EIGHT_BITS)
    shape = matmul_shape(op, a, b)
    columns = b.shape[-1] if b.ndim > 1 else 1
    require_parameters(op, "B", b.dtype, b_scale, b_zero_point, columns, "a column")
    require(
        op,
        bias is None or (bias.dtype == np.float32 and bias.shape == (columns,)),
        "the bias must be float32, one value per column",
        b,
        bias,
    )
    return [TensorSpec(shape, np.float32)]


def _scaled(sums: Array, scale: Array, bias: Optional[Array]) -> Array:
    reals = sums.astype(np.float32) * scale
    return reals if bias is None else reals + bias


@operator("MatMulIntegerToFloat", inputs=(4, 7), domain=DOMAIN, multiply_adds=matrix_product)
def matmul_integer_to_float(
    op: OperatorDef,
    a: TensorSpec,
    b: TensorSpec,
    a_scale: Spec,
    b_scale: Spec,
    a_zero_point: Spec = None,
    b_zero_point: Spec = None,
    bias: Spec = None,
) -> List[TensorSpec]:
    """Y = matmul(A - a_zero, B - b_zero) * (a_scale * b_scale) + bias in float32.

    A (..., M, K) and B (..., K, N) int8 or uint8. A's scale and zero point hold one element, B's one or N; bias (N).
    """
    require_dtype(op, "A", a, EIGHT_BITS)
    require_parameters(op, "A", a.dtype, a_scale, a_zero_point)
    return _to_float(op, a, b, b_scale, b_zero_point, bias)


@matmul_integer_to_float.reference
def matmul_integer_to_float_reference(
    op: OperatorDef,
    a: Array,
    b: Array,
    a_scale: Array,
    b_scale: Array,
    a_zero_point: Optional[Array] = None,
    b_zero_point: Optional[Array] = None,
    bias: Optional[Array] = None,
) -> List[Any]:
    scale = parameters(op, "A", a_scale).scale * parameters(op, "B", b_scale).scale
    return [_scaled(multiplied(a, a_zero_point, b, b_zero_point), scale, bias)]


@operator("DynamicQuantizeMatMul", inputs=(3, 5), domain=DOMAIN, multiply_adds=matrix_product)
def dynamic_quantize_matmul(
    op: OperatorDef, a: TensorSpec, b: TensorSpec, b_scale: Spec, b_zero_point: Spec = None, bias: Spec = None
) -> List[TensorSpec]:
    """Y = MatMulIntegerToFloat(DynamicQuantizeLinear(A), B) + bias. A: float32; B, its parameters and bias as there."""
    require_dtype(op, "A", a, (np.float32,))
    return _to_float(op, a, b, b_scale, b_zero_point, bias)


@dynamic_quantize_matmul.reference
def dynamic_quantize_matmul_reference(
    op: OperatorDef,
    a: Array,
    b: Array,
    b_scale: Array,
    b_zero_point: Optional[Array] = None,
    bias: Optional[Array] = None,
) -> Sequence[Any]:
    check_scale(op, "B", b_scale)
    found = dynamic_parameters(a)
    sums = multiplied(quantized(a, found, np.uint8), found.zero_point, b, b_zero_point)
    return [_scaled(sums, found.scale * parameters(op, "B", b_scale).scale, bias)]
