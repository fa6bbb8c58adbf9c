"""Helpers of normalisations: checks of dtypes and channels, mean and variance, exact and fast; powers for softmax."""

from __future__ import annotations

from math import exp, inf, nan, prod, sqrt
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import require
from runtime_arm.registry.specs import Shape, TensorSpec


def require_floats(op: OperatorDef, *specs: Optional[TensorSpec]) -> None:
    """ShapeError unless all inputs that are given hold floats of one dtype."""
    given = [spec for spec in specs if spec is not None]
    require(
        op,
        all(spec.dtype.kind == "f" for spec in given) and len({spec.dtype for spec in given}) == 1,
        "inputs must be floats of one dtype",
        *specs,
    )


def single_or_double(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    """A kernel's ``supports``: refuses all but float32 and float64.

    BLAS has no float16, and sums need at least float32.
    """
    name = outputs[0].dtype.name
    return None if name in ("float32", "float64") else f"only float32 and float64, got {name}"


def require_channels(op: OperatorDef, x: TensorSpec, axis: int, *parameters: TensorSpec) -> None:
    """ShapeError unless every parameter has as many elements as X's dimension ``axis``."""
    for parameter in parameters:
        require(
            op,
            parameter.size == x.shape[axis],
            f"parameters must have {x.shape[axis]} elements, one per channel",
            x,
            parameter,
        )


def along_axis(parameter: Array, axis: int, ndim: int) -> Array:
    """The vector, reshaped so that it broadcasts along one axis of an array of ``ndim`` dimensions."""
    return parameter.reshape([-1 if i == axis % ndim else 1 for i in range(ndim)])


def moments(x: Array, axes: Sequence[int]) -> Tuple[Array, Array]:
    """Mean and variance over axes, which stay as 1; float64. Both are 0 for no elements.

    The variance is divided by the number of elements.
    """
    exact = x.astype(np.float64)
    count = max(prod(x.shape[axis] for axis in axes), 1)
    mean = exact.sum(axis=tuple(axes), keepdims=True) / count
    variance = np.square(exact - mean).sum(axis=tuple(axes), keepdims=True) / count
    return mean, variance


def standardized(x: Array, axes: Sequence[int], epsilon: float) -> Tuple[Array, Array, Array]:
    """(X - mean) / sqrt(variance + epsilon), mean and 1 / sqrt(variance + epsilon); float64, reduced axes stay as 1."""
    mean, variance = moments(x, axes)
    inverse = 1 / np.sqrt(variance + epsilon)
    return (x.astype(np.float64) - mean) * inverse, mean, inverse


class RowStatistics:
    """Fast standardisation of the rows of matrix ``x`` into ``y`` of the same shape, which may be the same array.

    ``mean`` and ``inverse``, 1 / sqrt(variance + epsilon), are columns that the caller provides.
    """

    def __init__(self, x: Array, y: Array, mean: Array, inverse: Array, epsilon: float):
        self.x, self.y, self.mean, self.inverse = x, y, mean, inverse
        self._ones = np.ones((x.shape[1], 1), x.dtype)
        self._count = x.dtype.type(max(x.shape[1], 1))
        self._epsilon = x.dtype.type(epsilon)
        self._one_row = _one_row(x, y, mean, inverse, epsilon) if x.shape[0] == 1 and x.size else None

    def centre(self) -> None:
        """Computes ``mean`` and y = x - mean."""
        np.matmul(self.x, self._ones, out=self.mean)
        np.divide(self.mean, self._count, out=self.mean)
        np.subtract(self.x, self.mean, out=self.y)

    def measure(self, rows: Array) -> None:
        """Computes ``inverse`` of ``rows``, taking their mean as 0."""
        np.matmul(rows[:, None, :], rows[:, :, None], out=self.inverse[:, :, None])
        np.divide(self.inverse, self._count, out=self.inverse)
        np.add(self.inverse, self._epsilon, out=self.inverse)
        np.sqrt(self.inverse, out=self.inverse)
        np.divide(1, self.inverse, out=self.inverse)

    def standardise(self) -> None:
        """Computes ``mean``, ``inverse`` and y = (x - mean) * inverse."""
        if self._one_row is not None:
            self._one_row()
            return
        self.centre()
        self.measure(self.y)
        np.multiply(self.y, self.inverse, out=self.y)


def _one_row(x: Array, y: Array, mean: Array, inverse: Array, epsilon: float) -> Run:
    """``RowStatistics.standardise`` of a single row: vectors and numbers take a third of the time in calls."""
    x, y, mean, inverse = x.reshape(-1), y.reshape(-1), mean.reshape(()), inverse.reshape(())
    ones, count, size = np.ones(x.size, x.dtype), np.array(x.size, x.dtype), x.size
    add_up, squares, divide, subtract, multiply = x.dot, y.dot, np.divide, np.subtract, np.multiply

    def run() -> None:
        add_up(ones, mean)
        divide(mean, count, mean)
        subtract(x, mean, y)
        squares(y, inverse)
        variance = inverse.item() / size + epsilon
        inverse[()] = 1 / sqrt(variance) if variance > 0 else inf if variance == 0 else nan
        multiply(y, inverse, y)

    return run


class StackSum:
    """Sums along the middle axis of floats (outer, n, inner) by a matrix product.

    That is three times as fast as ``np.add.reduce``.
    """

    def __init__(self, stack: Array):
        self._is_matrix = stack.shape[2] == 1
        self._ones = np.ones((stack.shape[1], 1) if self._is_matrix else (1, stack.shape[1]), stack.dtype)

    def into(self, stack: Array, out: Array) -> None:
        """Writes the sums into ``out``, (outer, 1, inner)."""
        if self._is_matrix:
            np.matmul(stack[:, :, 0], self._ones, out=out[:, :, 0])
        else:
            np.matmul(self._ones, stack, out=out)


def affine(y: Array, scale: Optional[Array] = None, shift: Optional[Array] = None) -> Run:
    """A run of y = y * scale + shift, in place; a factor or shift of None is left out. Both broadcast to ``y``."""

    def run() -> None:
        if scale is not None:
            np.multiply(y, scale, y)
        if shift is not None:
            np.add(y, shift, y)

    return run


def columns(count: int, dtype: Any, number: int) -> List[TensorSpec]:
    """Specs of ``number`` columns of ``count`` elements: scratch for statistics."""
    return [TensorSpec((count, 1), dtype) for _ in range(number)]


def statistics_buffers(call: Call) -> List[Array]:
    """Columns for the mean and 1 / sqrt(variance + epsilon): outputs 1 and 2 if the operator has them, else scratch."""
    wanted = [output.reshape(-1, 1) for output in call.outputs[1:]]
    return wanted + list(call.scratch[len(wanted) : 2])


def split_at(shape: Shape, axis: int) -> Tuple[int, int]:
    """The number of elements before an axis and from it on: the shape of the matrix that a blob is reshaped to."""
    return prod(shape[:axis]), prod(shape[axis:])


DISTANCE = 16.0  # of a row's largest element from the block's, in exponents
SHORT = 16  # elements of a row: up to here sums are made for each element, so that a division needs no loop a row


def ones_for(n: int, dtype: Any) -> Array:
    """The factor whose product with rows of ``n`` elements gives their sums, in one column or, if short, in ``n``."""
    return np.ones((n, sums_columns(n)), dtype)


def sums_columns(n: int) -> int:
    """The number of columns of these sums."""
    return n if n <= SHORT else 1


def powers_into(x: Array, y: Array, ones: Array, sums: Array) -> bool:
    """y = exp(x - m) for contiguous rows (R, n) with one m, and their sums: softmax without a maximum for each row.

    A row's probabilities are exp(x - m) / sum of exp(x - m) for any m. Let m be the largest element of the block. Then
    no power exceeds 1, so none overflows. If a row's sum is at least n exp(-16), its largest element is at most 16
    below m, since the sum has n powers. So x - m, for elements near the row's largest, is rounded by at most 2^-21 in
    float32, a relative error of 2^-21 of the power; elements further below are rounded more, but count less. Powers
    that underflow are below exp(-87), which is negligible in the sum. If a sum is smaller, or NaN, the rows need maxima
    of their own.

    A row's own maximum, a subtraction and a sum by NumPy cost five times as much: each is a loop of its own for
    every row.

    ``y`` may be ``x``. ones: those of ``ones_for``, or a column of n. False if the rows need maxima of their own.
    """
    np.subtract(x, np.maximum.reduce(x.reshape(-1)), y)
    np.exp(y, y)
    np.matmul(y, ones, sums)
    return bool(np.minimum.reduce(sums.reshape(-1)) >= x.shape[1] * exp(-DISTANCE))
