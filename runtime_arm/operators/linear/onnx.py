"""ONNX's matrix products, MatMul and Gemm, for all number types, and Det."""

from __future__ import annotations

from functools import partial
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.multiply_adds import fully_connected, matrix_product
from runtime_arm.operators.linear.caffe2 import blas_multiplies, matrix_part, product64, stacked_product
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import Shape, TensorSpec
from runtime_arm.registry.steps import Step, in_turn


def _require_one_number_type(op: OperatorDef, *specs: TensorSpec) -> None:
    same = all(spec.dtype == specs[0].dtype for spec in specs)
    require(op, same and specs[0].dtype.kind in "iuf", "the inputs must be numbers of one type", *specs)


@operator("MatMul", domain="onnx", inputs=2, multiply_adds=matrix_product)
def onnx_matmul(op: OperatorDef, a: TensorSpec, b: TensorSpec) -> List[TensorSpec]:
    """Y = numpy.matmul(A, B): stacks of matrices that broadcast. A vector is a row of A or a column of B.

    Integers wrap around.
    """
    _require_one_number_type(op, a, b)
    require(op, a.ndim >= 1 and b.ndim >= 1, "A and B must have dimensions", a, b)
    left, right = (1, *a.shape)[-max(a.ndim, 2) :], b.shape if b.ndim > 1 else (*b.shape, 1)
    require(op, left[-1] == right[-2], f"A has {left[-1]} columns, but B has {right[-2]} rows", a, b)
    batch = broadcast_shape(op, left[:-2], right[:-2])
    return [a.with_shape((*batch, *left[-2:-1][: a.ndim - 1], *right[-1:][: b.ndim - 1]))]


def broadcast_shape(op: OperatorDef, *shapes: Shape) -> Shape:
    """The shape to which the shapes broadcast; ShapeError if they do not."""
    ndim = max(map(len, shapes))
    result = []
    for sizes in zip(*[(1,) * (ndim - len(shape)) + shape for shape in shapes]):
        wanted = set(sizes) - {1}
        require(op, len(wanted) <= 1, f"the dimensions {' and '.join(map(str, map(list, shapes)))} do not broadcast")
        result.append(wanted.pop() if wanted else 1)
    return tuple(result)


@onnx_matmul.reference
def onnx_matmul_reference(op: OperatorDef, a: Array, b: Array) -> Sequence[Any]:
    return [product64(a, b)]


@onnx_matmul.kernel("NUMPY", supports=blas_multiplies, splits_work=True)
def onnx_matmul_numpy(call: Call) -> Run:
    a, b, y = call.inputs[0], call.inputs[1], call.outputs[0]
    if a.ndim == 1 or b.ndim == 1:
        return partial(np.matmul, a, b, out=y) if call.worker == 0 else in_turn([])
    return stacked_product(call, a, b, y)


@operator("Gemm", domain="onnx", inputs=(2, 3), multiply_adds=fully_connected())
def gemm(op: OperatorDef, a: TensorSpec, b: TensorSpec, c: Optional[TensorSpec] = None) -> List[TensorSpec]:
    """Y = alpha * A' B' + beta * C with A' = A^T if transA, B' = B^T if transB. C broadcasts to Y; alpha, beta are 1.0.

    For integers, alpha and beta must be whole numbers.
    """
    _require_one_number_type(op, a, b, *([] if c is None else [c]))
    require(op, a.ndim == 2 and b.ndim == 2, "A and B must be matrices", a, b)
    rows, depth = a.shape[::-1] if op.get_bool("transA") else a.shape
    other, columns = b.shape[::-1] if op.get_bool("transB") else b.shape
    require(op, depth == other, f"A has {depth} columns, but B has {other} rows", a, b)
    if c is not None:
        fits = c.ndim <= 2 and broadcast_shape(op, c.shape, (rows, columns)) == (rows, columns)
        require(op, fits, f"C must broadcast to {[rows, columns]}", c)
    for name, factor in zip(("alpha", "beta"), _factors(op)):
        if a.dtype.kind in "iu" and not factor.is_integer():
            raise ArgumentError(op, f"{name} must be a whole number for {a.dtype.name}, got {factor}")
    return [a.with_shape((rows, columns))]


def _factors(op: OperatorDef) -> Tuple[float, float]:
    return op.get_float("alpha", 1.0), op.get_float("beta", 1.0)


def _operands(op: OperatorDef, a: Array, b: Array) -> Tuple[Array, Array]:
    return a.T if op.get_bool("transA") else a, b.T if op.get_bool("transB") else b


@gemm.reference
def gemm_reference(op: OperatorDef, a: Array, b: Array, c: Optional[Array] = None) -> Sequence[Any]:
    wide = np.float64 if a.dtype.kind == "f" else a.dtype
    alpha, beta = (np.asarray(factor).astype(wide) for factor in _factors(op))
    y = alpha * np.matmul(*_operands(op, a.astype(wide), b.astype(wide)))
    if c is not None:
        y = y + beta * c.astype(wide)
    return [y.astype(a.dtype)]


def _scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    c = inputs[2] if len(inputs) > 2 else None
    return () if c is None or op.get_float("beta", 1.0) == 1 else [TensorSpec(c.shape, c.dtype)]


@gemm.kernel("NUMPY", supports=blas_multiplies, scratch=_scratch, splits_work=True)
def gemm_numpy(call: Call) -> Run:
    a, b = _operands(call.op, call.inputs[0], call.inputs[1])
    rows, columns = matrix_part(call, call.outputs[0].shape)
    a, b, y = a[rows], b[:, columns], call.outputs[0][rows, columns]
    c = call.inputs[2] if len(call.inputs) > 2 else None
    alpha, beta = (y.dtype.type(factor) for factor in _factors(call.op))
    steps: List[Step] = [partial(np.matmul, a, b, out=y)]
    if alpha != 1:
        steps.append(partial(np.multiply, y, alpha, out=y))
    if c is not None:
        addend = call.scratch[0] if call.scratch else c
        if call.scratch:
            steps.append(partial(np.multiply, c, beta, out=addend))
        addend = np.broadcast_to(addend, call.outputs[0].shape)[rows, columns]
        steps.append(partial(np.add, y, addend, out=y))
    return in_turn(steps)


@operator("Det", domain="onnx", dtypes=("float16", "float32", "float64"))
def det(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = the determinant of each matrix of a stack: (..., m, m) to (...)."""
    require(op, x.ndim >= 2 and x.shape[-1] == x.shape[-2], "the input must be a stack of square matrices", x)
    return [x.with_shape(x.shape[:-2])]


@det.reference
def det_reference(op: OperatorDef, x: Array) -> Sequence[Any]:
    return [np.asarray(np.linalg.det(x.astype(np.float64))).astype(x.dtype)]
