"""Caffe2's matrix products: FC, FCTransposed, MatMul, BatchMatMul."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.files import drop_pages
from runtime_arm.machine import blas
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.multiply_adds import fully_connected, matrix_product
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import axis_of, operator, require
from runtime_arm.registry.specs import Shape, TensorSpec
from runtime_arm.registry.steps import in_turn, into, multiply

LONGER, FAR = 2, 1 << 20  # times as many terms as columns; bytes of weights that do not stay in a cache
MOST_TURNED = 1 << 23  # bytes of weights that are stored again, by rows
TURNED_NBYTES = 1 << 18  # of those that are at a time


def product64(a: Array, b: Array) -> Array:
    """a @ b: floats in float64, integers in their own type. The result has the type of ``a``."""
    if a.dtype.kind == "f":
        return np.asarray(np.matmul(a.astype(np.float64), b.astype(np.float64))).astype(a.dtype)
    return np.asarray(np.matmul(a, b))


def blas_multiplies(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    """A kernel's ``supports``: refuses float16, which NumPy would sum in float16."""
    return "float16 products are summed in float64 by the reference kernel" if outputs[0].dtype == np.float16 else None


def _require_one_float_type(op: OperatorDef, *specs: TensorSpec) -> None:
    same = all(spec.dtype == specs[0].dtype for spec in specs)
    require(op, same and specs[0].dtype.kind == "f", "the inputs must be floats of one type", *specs)


def flat_shape(op: OperatorDef, x: TensorSpec, axis_name: str) -> Tuple[int, int]:
    """Rows and columns of a blob as a matrix: the dimensions before the axis, and from it on."""
    axis = axis_of(op, op.get_int(axis_name, 1), x.ndim, axis_name)
    return math.prod(x.shape[:axis]), math.prod(x.shape[axis:])


def takes_transposed(op: OperatorDef) -> bool:
    """Whether the weights of a fully connected layer, plain or fused, are (K, N) rather than (N, K)."""
    return op.type.endswith("FCTransposed")


def fc_shape(op: OperatorDef, x: TensorSpec, w: TensorSpec, b: TensorSpec) -> List[TensorSpec]:
    _require_one_float_type(op, x, w, b)
    _, terms = flat_shape(op, x, "axis")
    rows, columns = flat_shape(op, w, "axis_w")
    width, depth = (columns, rows) if takes_transposed(op) else (rows, columns)
    require(op, terms == depth, f"a row of X has {terms} elements, but the weights take {depth}", x, w)
    require(op, b.shape == (width,), f"the bias must have {width} elements", w, b)
    axis = axis_of(op, op.get_int("axis", 1), x.ndim)
    return [x.with_shape((*x.shape[:axis], width))]


@operator("FC", inputs=3, multiply_adds=fully_connected(), kind=Kind.FULLY_CONNECTED, fused="FusedFC")
def fc(op: OperatorDef, x: TensorSpec, w: TensorSpec, b: TensorSpec) -> List[TensorSpec]:
    """Y = X W^T + b, with X and W as matrices. Source: caffe2/operators/fully_connected_op.h.

    X's rows are its dimensions before ``axis`` (1). W: (N, K); its rows are the dimensions before ``axis_w`` (1). b:
    (N). Y has the dimensions of X before ``axis``, then N.
    """
    return fc_shape(op, x, w, b)


@operator(
    "FCTransposed",
    inputs=3,
    multiply_adds=fully_connected(),
    kind=Kind.FULLY_CONNECTED,
    fused="FusedFCTransposed",
)
def fc_transposed(op: OperatorDef, x: TensorSpec, w: TensorSpec, b: TensorSpec) -> List[TensorSpec]:
    """Y = X W + b: as FC, but W is (K, N)."""
    return fc_shape(op, x, w, b)


def _fc_operands(op: OperatorDef, x: Array, w: Array) -> Tuple[Array, Array]:
    """The two matrices to multiply."""
    x = x.reshape(flat_shape(op, TensorSpec.known(x), "axis"))
    w = w.reshape(flat_shape(op, TensorSpec.known(w), "axis_w"))
    return x, w if takes_transposed(op) else w.T


@fc.reference
@fc_transposed.reference
def fc_reference(op: OperatorDef, x: Array, w: Array, b: Array) -> Sequence[Any]:
    shape = fc_shape(op, TensorSpec.known(x), TensorSpec.known(w), TensorSpec.known(b))[0].shape
    a, matrix = _fc_operands(op, x.astype(np.float64), w.astype(np.float64))
    return [(np.matmul(a, matrix) + b).astype(x.dtype).reshape(shape)]


def matrix_part(call: Call, shape: Sequence[int]) -> Tuple[slice, slice]:
    """This worker's rows and columns of a matrix product of this shape. The longer side is split."""
    cut = max((0, 1), key=lambda axis: shape[axis])
    rows, columns = (call.slice_of(shape[axis]) if axis == cut else slice(0, shape[axis]) for axis in (0, 1))
    return rows, columns


def fc_part(call: Call) -> Tuple[Array, slice]:
    """This worker's part of Y as a matrix, and the range of its columns."""
    y = call.outputs[0].reshape(-1, call.outputs[0].shape[-1])
    rows, columns = matrix_part(call, y.shape)
    return y[rows, columns], columns


def _pays_to_turn(w: Array) -> bool:
    """Whether the product of one row with weights (K, N), stored by columns, is faster with them stored by rows.

    Where weights come from memory, OpenBLAS's kernels for AVX-512 then take a quarter to a third less for columns of
    500 to 1,300 terms and rows of 1,000 (measured on Zen 4), but more where columns are twice as long as rows.
    """
    terms, width = w.shape
    suits = FAR <= w.nbytes <= MOST_TURNED and terms < LONGER * width
    return suits and w.dtype == np.float32 and not w.flags.c_contiguous and blas.is_wide()


def _turned(w: Array) -> Array:
    """The same (K, N), stored by rows. Columns that lie in a file are in memory a piece at a time; each time all that
    were read are given back, since to read a page brings its neighbours, too."""
    drop_pages(w.T)
    turned = np.empty(w.shape, w.dtype)
    step = max(1, TURNED_NBYTES // w[:, :1].nbytes)
    for begin in range(0, w.shape[1], step):
        turned[:, begin : begin + step] = w[:, begin : begin + step]
        drop_pages(w[:, : begin + step].T)
    return turned


@fc.kernel("NUMPY", supports=blas_multiplies, splits_work=True)
@fc_transposed.kernel("NUMPY", supports=blas_multiplies, splits_work=True)
def fc_numpy(call: Call) -> Run:
    x, w = _fc_operands(call.op, call.inputs[0], call.inputs[1])
    if len(x) == 1 and call.in_specs[1] is not None and call.in_specs[1].value is not None and _pays_to_turn(w):
        w = call.packed("turned", partial(_turned, w))
    rows, columns = matrix_part(call, (x.shape[0], w.shape[1]))
    y, _ = fc_part(call)
    b = call.inputs[2].reshape(-1)[columns]
    line = y[0] if len(y) == 1 else y
    return in_turn([multiply(x[rows], w[:, columns], y), into(np.add, line, b, line)])


def _products(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> int:
    a, b = inputs[:2]
    assert a is not None
    assert b is not None
    return outputs[0].size * _oriented(op, a, b)[0][1]


@operator("MatMul", inputs=(2, 3), multiply_adds=_products)
def matmul(op: OperatorDef, a: TensorSpec, b: TensorSpec, like: Optional[TensorSpec] = None) -> List[TensorSpec]:
    """Y = A B, as matrices whose rows are the dimensions before ``axis_a``, ``axis_b`` (1); then trans_a, trans_b.

    A third input, which gradients have, gives Y's shape if it has as many elements.
    """
    _require_one_float_type(op, a, b)
    (rows, depth), (other, columns) = _oriented(op, a, b)
    require(op, depth == other, f"A has {depth} columns, but B has {other} rows", a, b)
    return [a.with_shape(like.shape if like is not None and like.size == rows * columns else (rows, columns))]


def _oriented(op: OperatorDef, a: TensorSpec, b: TensorSpec) -> Tuple[Tuple[int, int], Tuple[int, int]]:
    """Rows and columns of the two matrices, transposed as the arguments say."""
    left, right = flat_shape(op, a, "axis_a"), flat_shape(op, b, "axis_b")
    return (left[::-1] if op.get_bool("trans_a") else left), (right[::-1] if op.get_bool("trans_b") else right)


def _matmul_operands(op: OperatorDef, a: Array, b: Array) -> Tuple[Array, Array]:
    left, right = _oriented(op, TensorSpec.known(a), TensorSpec.known(b))
    return (
        a.reshape(left[::-1]).T if op.get_bool("trans_a") else a.reshape(left),
        b.reshape(right[::-1]).T if op.get_bool("trans_b") else b.reshape(right),
    )


@matmul.reference
def matmul_reference(op: OperatorDef, a: Array, b: Array, like: Optional[Array] = None) -> Sequence[Any]:
    y = product64(*_matmul_operands(op, a, b))
    return [y.reshape(like.shape) if like is not None and like.size == y.size else y]


def stacked_product(call: Call, a: Array, b: Array, y: Array) -> Run:
    """This worker's part of y = a @ b for matrices or stacks of them that broadcast."""
    if any(size >= call.workers > 1 for size in y.shape[:-2]):
        stack = call.part(y.shape[:-2])
        return multiply(_of_stack(a, stack, y.ndim), _of_stack(b, stack, y.ndim), y[stack])
    rows, columns = matrix_part(call, y.shape[-2:])
    return multiply(a[..., rows, :], b[..., columns], y[..., rows, columns])


def _of_stack(x: Array, part: Sequence[slice], ndim: int) -> Array:
    """The matrices of ``x`` that a part of the whole stack needs. ``x`` broadcasts to ``ndim`` dimensions."""
    stack: Array = x[(np.newaxis,) * (ndim - x.ndim)]
    return stack[tuple(cut if size > 1 else slice(None) for cut, size in zip(part, stack.shape))]


@matmul.kernel("NUMPY", supports=blas_multiplies, splits_work=True)
def matmul_numpy(call: Call) -> Run:
    a, b = _matmul_operands(call.op, call.inputs[0], call.inputs[1])
    return stacked_product(call, a, b, call.outputs[0].reshape(a.shape[0], b.shape[1]))


@operator("BatchMatMul", inputs=2, multiply_adds=matrix_product)
def batch_matmul(op: OperatorDef, a: TensorSpec, b: TensorSpec) -> List[TensorSpec]:
    """Y[i] = A[i] B[i] over leading dimensions, which may differ with broadcast=1; trans_a, trans_b.

    A vector is a row of A or a column of B, and its dimension is left out of Y. The product of two vectors has one
    element. Source: caffe2/operators/batch_matmul_op.h.
    """
    _require_one_float_type(op, a, b)
    require(op, a.ndim >= 1 and b.ndim >= 1, "A and B must have dimensions", a, b)
    left, right = _stacks(op, a.shape, b.shape)
    require(op, left[-1] == right[-2], f"A has {left[-1]} columns, but B has {right[-2]} rows", a, b)
    batches = [1] * (len(right) - len(left)) + list(left[:-2]), [1] * (len(left) - len(right)) + list(right[:-2])
    require(
        op, batches[0] == batches[1] or op.get_bool("broadcast"), "the batches differ, which needs broadcast=1", a, b
    )
    fit = all(m == n or 1 in (m, n) for m, n in zip(*batches))
    require(op, fit, f"batches {batches[0]} and {batches[1]} do not broadcast", a, b)
    batch = [n if m == 1 else m for m, n in zip(*batches)]
    return [a.with_shape(_without_vectors((*batch, left[-2], right[-1]), a.ndim, b.ndim))]


def _stacks(op: OperatorDef, a: Shape, b: Shape) -> Tuple[Shape, Shape]:
    """The shapes as stacks of matrices, transposed as the arguments say."""
    left, right = (1, *a) if len(a) == 1 else a, (*b, 1) if len(b) == 1 else b
    if op.get_bool("trans_a") and len(a) > 1:
        left = (*left[:-2], left[-1], left[-2])
    if op.get_bool("trans_b") and len(b) > 1:
        right = (*right[:-2], right[-1], right[-2])
    return left, right


def _without_vectors(shape: Shape, a_ndim: int, b_ndim: int) -> Shape:
    if a_ndim == b_ndim == 1:
        return (1,)
    return shape[:-2] + (shape[-1:] if a_ndim == 1 else shape[-2:-1] if b_ndim == 1 else shape[-2:])


def _batch_operands(op: OperatorDef, a: Array, b: Array) -> Tuple[Array, Array]:
    left = a[None] if a.ndim == 1 else a.swapaxes(-1, -2) if op.get_bool("trans_a") else a
    right = b[:, None] if b.ndim == 1 else b.swapaxes(-1, -2) if op.get_bool("trans_b") else b
    return left, right


@batch_matmul.reference
def batch_matmul_reference(op: OperatorDef, a: Array, b: Array) -> Sequence[Any]:
    y = product64(*_batch_operands(op, a, b))
    return [y.reshape(_without_vectors(y.shape, a.ndim, b.ndim))]


@batch_matmul.kernel("NUMPY", supports=blas_multiplies, splits_work=True)
def batch_matmul_numpy(call: Call) -> Run:
    a, b = _batch_operands(call.op, call.inputs[0], call.inputs[1])
    y = call.outputs[0]
    batch = y.shape[: max(a.ndim, b.ndim) - 2]
    return stacked_product(call, a, b, y.reshape(*batch, a.shape[-2], b.shape[-1]))
