"""The gradients of Caffe2's distances and products of rows. Source: caffe2/operators/distance_op.cc."""

from __future__ import annotations

from typing import Any, Callable, List

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dtypes import FLOAT32_64, FLOATS
from runtime_arm.operators.common.formulas import only_for
from runtime_arm.operators.common.slopes import same_floats
from runtime_arm.operators.rows.rowwise import product_rows, rows_of
from runtime_arm.registry.kernel import Call, Run
from runtime_arm.registry.schema import axis_of, operator, require
from runtime_arm.registry.specs import TensorSpec

Both = Callable[..., Any]  # (x, y, dz) -> (dx, dy), in float64: matrices, dz a column
Into = Callable[[Array, Array, Array, Array, Array], None]  # (x, y, dz, dx, dy)


def _declare(type: str, exact: Both, into: Any, doc: str) -> None:
    def shape(op: OperatorDef, x: TensorSpec, y: TensorSpec, dz: TensorSpec) -> List[TensorSpec]:
        same_floats(op, x, y)
        rows = product_rows(x) if type == "DotProductGradient" else rows_of(x)
        require(op, dz.size == rows and dz.dtype == x.dtype, f"dZ must have {rows} numbers, one for each row", x, dz)
        return [x, y]

    shape.__doc__ = doc
    schema = operator(type, inputs=3, outputs=2, dtypes=FLOATS)(shape)

    @schema.reference
    def reference(op: OperatorDef, x: Array, y: Array, dz: Array) -> List[Any]:
        if not x.size:
            return [np.zeros_like(x)] * 2
        flat = _matrix(x)
        results = exact(*(a.astype(np.float64).reshape(flat) for a in (x, y)), dz.astype(np.float64).reshape(-1, 1))
        return [result.reshape(x.shape).astype(x.dtype) for result in results]

    if into is None:
        return

    @schema.kernel("NUMPY", supports=only_for(FLOAT32_64))
    def kernel(call: Call) -> Run:
        if not call.inputs[0].size:
            return lambda: None
        flat = _matrix(call.inputs[0])
        x, y = (array.reshape(flat) for array in call.inputs[:2])
        dx, dy = (array.reshape(flat) for array in call.outputs)
        return lambda: into(x, y, call.inputs[2].reshape(-1, 1), dx, dy)


def _matrix(x: Array) -> Any:
    rows = rows_of(x)
    return rows, x.size // rows if rows else 0


def _squared(x: Array, y: Array, dz: Array, dx: Array, dy: Array) -> None:
    np.subtract(x, y, out=dx)
    np.multiply(dx, dz, out=dx)
    np.negative(dx, out=dy)


def _absolute(x: Array, y: Array, dz: Array, dx: Array, dy: Array) -> None:
    np.subtract(x, y, out=dx)
    np.sign(dx, out=dx)
    np.multiply(dx, dz, out=dx)
    np.negative(dx, out=dy)


def _crossed(x: Array, y: Array, dz: Array, dx: Array, dy: Array) -> None:
    np.multiply(y, dz, out=dx)
    np.multiply(x, dz, out=dy)


def _cosine(x: Any, y: Any, dz: Any) -> Any:
    """With the norms a and b and the cosine c: dx = dz (y / (a b) - c x / a^2), and the same for y."""
    a, b = (np.sqrt(np.maximum((v * v).sum(1, keepdims=True), 1e-12)) for v in (x, y))
    c = (x * y).sum(1, keepdims=True) / (a * b)
    return dz * (y / (a * b) - c * x / a**2), dz * (x / (a * b) - c * y / b**2)


def _signs(x: Any, y: Any, dz: Any) -> Any:
    return np.sign(x - y) * dz, np.sign(y - x) * dz


_declare(
    "SquaredL2DistanceGradient", lambda x, y, dz: ((x - y) * dz, (y - x) * dz), _squared, "dX = (X - Y) dZ, dY = -dX."
)
_declare("L1DistanceGradient", _signs, _absolute, "dX = sign(X - Y) dZ, 0 where they are equal; dY = -dX.")
_declare("DotProductGradient", lambda x, y, dz: (y * dz, x * dz), _crossed, "dX = Y dZ, dY = X dZ.")
_declare("CosineSimilarityGradient", _cosine, None, "dX = dZ (Y / (|X| |Y|) - Z X / |X|^2), and the same for Y.")


@operator("DotProductWithPaddingGradient", inputs=3, outputs=2, dtypes=FLOATS)
def dot_product_with_padding_gradient(
    op: OperatorDef, x: TensorSpec, y: TensorSpec, dz: TensorSpec
) -> List[TensorSpec]:
    """dX = Y dZ, dY = X dZ, with the shorter rows padded or, with ``replicate``, repeated as DotProductWithPadding
    does. What is left over of the longer rows gets ``pad_value`` dZ, or with ``replicate`` 0."""
    fits = x.ndim == y.ndim > 0 and dz.shape == x.shape[:1] == y.shape[:1] and x.dtype == y.dtype == dz.dtype
    require(op, fits, "inputs must have one type and the same rows, dZ a number for each", x, y, dz)
    return [x, y]


@dot_product_with_padding_gradient.reference
def dot_product_with_padding_gradient_reference(op: OperatorDef, x: Array, y: Array, dz: Array) -> List[Any]:
    rows = [array.astype(np.float64).reshape(_matrix(array)) for array in (x, y)]
    short, long = sorted(range(2), key=lambda i: rows[i].shape[1])
    column, width = dz.astype(np.float64).reshape(-1, 1), rows[short].shape[1]
    results = [np.zeros(array.shape) for array in rows]
    if op.get_bool("replicate"):
        whole = rows[long].shape[1] // max(width, 1) * width
        results[long][:, :whole] = np.tile(rows[short], whole // max(width, 1)) * column
        results[short][...] = (rows[long][:, :whole] * column).reshape(len(x), -1, width).sum(axis=1)
    else:
        results[long][...] = op.get_float("pad_value", 0.0) * column
        results[long][:, :width] = rows[short] * column
        results[short][...] = rows[long][:, :width] * column
    return [result.reshape(array.shape).astype(array.dtype) for result, array in zip(results, (x, y))]


@operator("ElementwiseLinearGradient", inputs=3, outputs=3, dtypes=FLOATS)
def elementwise_linear_gradient(op: OperatorDef, dy: TensorSpec, x: TensorSpec, w: TensorSpec) -> List[TensorSpec]:
    """dX = dY w, dw = the sum of dY X over the rows, db = that of dY. Arguments as for ElementwiseLinear."""
    same_floats(op, dy, x)
    axis = axis_of(op, op.get_int("axis", 1), x.ndim)
    inner = x.with_shape(x.shape[axis:]).size
    require(op, w.shape == (inner,), f"w must be a vector of {inner}", x, w)
    return [x, w, w]


@elementwise_linear_gradient.reference
def elementwise_linear_gradient_reference(op: OperatorDef, dy: Array, x: Array, w: Array) -> List[Any]:
    flat = (x.size // max(w.size, 1), w.size)
    d, a = (array.astype(np.float64).reshape(flat) for array in (dy, x))
    results = [(d * w).reshape(x.shape), (d * a).sum(axis=0), d.sum(axis=0)]
    return [result.astype(x.dtype) for result in results]
