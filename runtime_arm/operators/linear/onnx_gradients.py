"""The gradients of ONNX's MatMul and Gemm, armnet's own operators."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dialects import forward_form
from runtime_arm.operators.common.multiply_adds import gradient_products
from runtime_arm.operators.common.statistics import require_floats
from runtime_arm.operators.common.unbroadcast import sum_into, sum_to
from runtime_arm.operators.linear.caffe2 import blas_multiplies
from runtime_arm.operators.linear.onnx import gemm, onnx_matmul
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


def _products(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> int:
    """Every number of dY is multiplied with a row of B, and with a column of A."""
    dy, a, b = inputs[:3]
    assert dy is not None
    assert a is not None
    return 2 * a.size * (b.shape[-1] if b is not None and b.ndim > 1 else 1)


@operator("MatMulGradient", domain="armnet", inputs=3, outputs=2, multiply_adds=_products)
def matmul_gradient(op: OperatorDef, dy: TensorSpec, a: TensorSpec, b: TensorSpec) -> List[TensorSpec]:
    """dA = dY B^T, dB = A^T dY for ONNX's MatMul; a stack that was broadcast gets the sum."""
    require_floats(op, dy, a, b)
    (y,) = onnx_matmul.shape(forward_form(op), a, b)
    require(op, dy.shape == y.shape, f"dY must have the shape {list(y.shape)} of the product", dy, a, b)
    return [a, b]


def _stacks(dy: Array, a: Array, b: Array) -> Tuple[Array, Array, Array]:
    """All three as stacks of matrices; a vector is a row of A, a column of B."""
    left, right = (a[None] if a.ndim == 1 else a), (b[:, None] if b.ndim == 1 else b)
    batch = dy.shape[: max(left.ndim, right.ndim) - 2]
    return dy.reshape(*batch, left.shape[-2], right.shape[-1]), left, right


@matmul_gradient.reference
def matmul_gradient_reference(op: OperatorDef, dy: Array, a: Array, b: Array) -> List[Any]:
    d, left, right = _stacks(*(x.astype(np.float64) for x in (dy, a, b)))
    da, db = np.matmul(d, right.swapaxes(-1, -2)), np.matmul(left.swapaxes(-1, -2), d)
    results = sum_to(da, left.shape).reshape(a.shape), sum_to(db, right.shape).reshape(b.shape)
    return [result.astype(a.dtype) for result in results]


def _not_broadcast(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    dy, a, b = inputs[:3]
    assert dy is not None
    assert a is not None
    assert b is not None
    if min(a.ndim, b.ndim) < 2 or not (b.ndim == 2 or a.shape[:-2] == b.shape[:-2]):
        return "only for stacks of equal sizes, or one matrix B"
    return blas_multiplies(op, inputs, outputs)


@matmul_gradient.kernel("NUMPY", supports=_not_broadcast)
def matmul_gradient_numpy(call: Call) -> Run:
    (dy, a, b), (da, db) = call.inputs, call.outputs
    if b.ndim == 2:
        rows = (a.size // max(a.shape[-1], 1), a.shape[-1])
        dy, a, da = dy.reshape(rows[0], b.shape[1]), a.reshape(rows), da.reshape(rows)

    def run() -> None:
        np.matmul(dy, b.swapaxes(-1, -2), out=da)
        np.matmul(a.swapaxes(-1, -2), dy, out=db)

    return run


@operator("GemmGradient", domain="armnet", inputs=(3, 4), outputs=(2, 3), multiply_adds=gradient_products)
def gemm_gradient(
    op: OperatorDef, dy: TensorSpec, a: TensorSpec, b: TensorSpec, c: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """dA = alpha dY B'^T, dB = alpha A'^T dY, transposed as Gemm does, and dC = beta dY, summed to C's shape."""
    require_floats(op, dy, a, b, c)
    (y,) = gemm.shape(forward_form(op), a, b, c)
    require(op, dy.shape == y.shape, f"dY must have the shape {list(y.shape)} of the product", dy, a, b)
    return [a, b] if c is None else [a, b, c]


def _factors(op: OperatorDef, a: Array, b: Array, dy: Array) -> Tuple[Tuple[Array, Array], Tuple[Array, Array]]:
    """The operands whose products are dA and dB, except for alpha."""
    left, right = a.T if op.get_bool("transA") else a, b.T if op.get_bool("transB") else b
    to_a = (right, dy.T) if op.get_bool("transA") else (dy, right.T)
    return to_a, ((dy.T, left) if op.get_bool("transB") else (left.T, dy))


@gemm_gradient.reference
def gemm_gradient_reference(op: OperatorDef, dy: Array, a: Array, b: Array, c: Optional[Array] = None) -> List[Any]:
    d = dy.astype(np.float64)
    to_a, to_b = _factors(op, a.astype(np.float64), b.astype(np.float64), d)
    alpha = op.get_float("alpha", 1.0)
    results = [alpha * np.matmul(*to_a), alpha * np.matmul(*to_b)]
    if c is not None:
        results.append(op.get_float("beta", 1.0) * sum_to(d, c.shape))
    return [result.astype(a.dtype) for result in results]


@gemm_gradient.kernel("NUMPY", supports=blas_multiplies)
def gemm_gradient_numpy(call: Call) -> Run:
    op, (dy, a, b), (da, db, *dc) = call.op, call.inputs[:3], call.outputs
    to_a, to_b = _factors(op, a, b, dy)
    alpha, beta = (dy.dtype.type(op.get_float(name, 1.0)) for name in ("alpha", "beta"))
    totals = [sum_into(dy, out) for out in dc]

    def run() -> None:
        np.matmul(*to_a, out=da)
        np.matmul(*to_b, out=db)
        for product in (da, db) if alpha != 1 else ():
            np.multiply(product, alpha, out=product)
        for total, out in zip(totals, dc):
            total()
            if beta != 1:
                np.multiply(out, beta, out=out)

    return run
