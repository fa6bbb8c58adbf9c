"""Caffe2's operators that compare or scale rows. Dimension 0 counts the rows; all others form one row."""

from __future__ import annotations

from math import prod
from typing import Any, List, Union

import numpy as np

from runtime_arm.errors import OperatorError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dtypes import FLOAT32, require_same_dtype
from runtime_arm.operators.common.formulas import exactly
from runtime_arm.registry.schema import axis_of, operator, require
from runtime_arm.registry.specs import TensorSpec


def rows_of(x: Union[TensorSpec, Array]) -> int:
    return int(x.shape[0]) if x.ndim else 1


def product_rows(x: Union[TensorSpec, Array]) -> int:
    """How many numbers DotProduct gives: one a row, but none at all where rows have no elements, as in Caffe2."""
    return rows_of(x) if x.size else 0


def _declare_distance(type: str, distance: Any, doc: str) -> None:
    @operator(type, inputs=2, dtypes=FLOAT32)
    def schema(op: OperatorDef, x: TensorSpec, y: TensorSpec) -> List[TensorSpec]:
        require_same_dtype(op, x, y)
        require(op, x.shape == y.shape, "inputs must have one shape", x, y)
        return [TensorSpec((product_rows(x) if type == "DotProduct" else rows_of(x),), x.dtype)]

    schema.__doc__ = doc

    @schema.reference
    def reference(op: OperatorDef, x: Array, y: Array) -> List[Any]:
        rows = product_rows(x) if type == "DotProduct" else rows_of(x)
        flat = (rows, x.size // rows if rows else 0)
        return [exactly(distance, x.reshape(flat), y.reshape(flat))]


def _cosine(x: Any, y: Any) -> Any:
    norms = np.sqrt(np.maximum((x * x).sum(1), 1e-12) * np.maximum((y * y).sum(1), 1e-12))
    return (x * y).sum(1) / norms


_declare_distance("DotProduct", lambda x, y: (x * y).sum(1), "Z = the sum of X Y per row.")
_declare_distance("CosineSimilarity", _cosine, "Z = X Y / (|X| |Y|) per row; norms count as at least 1e-6.")
_declare_distance("L1Distance", lambda x, y: np.abs(x - y).sum(1), "Z = the sum of |X - Y| per row.")
_declare_distance("SquaredL2Distance", lambda x, y: ((x - y) ** 2).sum(1) / 2, "Z = half the sum of (X - Y)^2 per row.")


@operator("DotProductWithPadding", inputs=2, dtypes=FLOAT32)
def dot_product_with_padding(op: OperatorDef, x: TensorSpec, y: TensorSpec) -> List[TensorSpec]:
    """DotProduct of rows of different lengths. The shorter rows are padded with ``pad_value`` (0).

    With ``replicate`` they are repeated instead, as often as they fit entirely.
    """
    require_same_dtype(op, x, y)
    require(
        op,
        x.ndim == y.ndim > 0 and x.shape[0] == y.shape[0],
        "inputs must have the same number of rows and of dimensions",
        x,
        y,
    )
    shorter = min(prod(x.shape[1:]), prod(y.shape[1:]))
    require(op, shorter > 0 or not op.get_bool("replicate"), "an empty row cannot be repeated", x, y)
    return [TensorSpec((product_rows(x),), x.dtype)]


@dot_product_with_padding.reference
def dot_product_with_padding_reference(op: OperatorDef, x: Array, y: Array) -> List[Any]:
    if not x.size:
        return [np.zeros(0, x.dtype)]
    short, long = sorted((rows.reshape(len(rows), prod(rows.shape[1:])) for rows in (x, y)), key=lambda a: a.shape[1])
    if op.get_bool("replicate"):
        short = np.tile(short, long.shape[1] // short.shape[1])
        long = long[:, : short.shape[1]]
    missing = np.full((len(x), long.shape[1] - short.shape[1]), op.get_float("pad_value", 0.0), short.dtype)
    return [exactly(lambda a, b: (a * b).sum(1), np.concatenate([short, missing], axis=1), long)]


@operator("RowMul", inputs=2, dtypes=FLOAT32)
def row_mul(op: OperatorDef, x: TensorSpec, w: TensorSpec) -> List[TensorSpec]:
    """Each row of Y is the row of X times its element of w."""
    require_same_dtype(op, x, w)
    require(op, x.ndim > 0 and w.size == x.shape[0], "w must have one element per row", x, w)
    return [x]


@row_mul.reference
def row_mul_reference(op: OperatorDef, x: Array, w: Array) -> List[Any]:
    return [exactly(np.multiply, x, _column(w, x.ndim))]


def _column(w: Array, ndim: int) -> Array:
    return w.reshape((-1,) + (1,) * (ndim - 1))


@operator("SquareRootDivide", inputs=2, dtypes=FLOAT32, inplace={0: 0})
def square_root_divide(op: OperatorDef, x: TensorSpec, scale: TensorSpec) -> List[TensorSpec]:
    """Each row of Y is the row of X divided by the square root of its scale, or unchanged if the scale is 0."""
    require_same_dtype(op, x, scale)
    require(op, x.ndim > 0 and scale.shape == x.shape[:1], "there must be one scale per row", x, scale)
    return [x]


@square_root_divide.reference
def square_root_divide_reference(op: OperatorDef, x: Array, scale: Array) -> List[Any]:
    if not bool(np.all(scale >= 0)):
        raise OperatorError(op, f"scales must not be negative, got {scale[~(scale >= 0)][0]}")
    return [exactly(np.divide, x, _column(np.sqrt(np.where(scale == 0, 1, scale)), x.ndim))]


@operator("ElementwiseLinear", inputs=3, dtypes=FLOAT32)
def elementwise_linear(op: OperatorDef, x: TensorSpec, w: TensorSpec, b: TensorSpec) -> List[TensorSpec]:
    """Y = X w + b. w and b are vectors over the dimensions from ``axis`` (1) on, flattened."""
    require_same_dtype(op, x, w, b)
    require(op, x.ndim > 0, "X must have a dimension", x)
    axis = axis_of(op, op.get_int("axis", 1), x.ndim)
    inner = TensorSpec(x.shape[axis:], x.dtype).size
    require(op, w.shape == b.shape == (inner,), f"w and b must be vectors of {inner}", x, w, b)
    return [x]


@elementwise_linear.reference
def elementwise_linear_reference(op: OperatorDef, x: Array, w: Array, b: Array) -> List[Any]:
    rows = x.reshape(-1, w.size) if w.size else x.reshape(0, 0)
    return [exactly(lambda x, w, b: x * w + b, rows, w, b).reshape(x.shape)]
