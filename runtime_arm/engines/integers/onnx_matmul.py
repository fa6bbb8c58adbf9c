"""INT8: products of 8-bit matrices by float32 GEMM, exact for the reasons given in ``onnx.py``.

Rows of the left factor are converted to float32, less their zero point, block by block; the right factor is converted
once, ahead of time if it is constant. Small matrices of a batch are multiplied by one call. A sum that may reach 2**24
is cut into slices that cannot, and the slices are added in float64.
"""

from __future__ import annotations

import math
from functools import cached_property, partial
from typing import Any, Callable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.engines.integers.arithmetic import EXACT, INT32
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.quantised.onnx.products import matmul_integer, qlinear_matmul
from runtime_arm.operators.quantised.parameters import all_known, check_scale
from runtime_arm.operators.quantised.rounding import Requantizer
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.specs import Shape, TensorSpec
from runtime_arm.registry.steps import Step, in_turn, multiply

BLOCK_SIZE = 1 << 18  # elements of a block's rows and sums together; 1 MB of float32
TOGETHER = 1 << 16  # elements of the factors and sums of small matrices that are multiplied by one call

Fill = Callable[[Array, Array], List[Step]]  # (rows of A, float32 buffer) -> the steps that convert them
Finish = Callable[[Array, Array, Array], List[Step]]  # (sums, float32 buffer, y) -> the steps that make outputs of sums


class Factors(NamedTuple):
    """matmul(a - a_zero_point, b - b_zero_point), of specs or of arrays. Zero points may be None."""

    a: Any
    a_zero_point: Any
    b: Any
    b_zero_point: Any

    @staticmethod
    def at(values: Sequence[Any], a: int, a_zero_point: int, b: int, b_zero_point: int) -> Factors:
        """The factors among an operator's inputs, by index; None for inputs that are left out at the end."""
        return Factors(*(values[i] if i < len(values) else None for i in (a, a_zero_point, b, b_zero_point)))


class IntegerProduct:
    """A product with the dimensions of numpy.matmul, cut into blocks of rows, and the arithmetic that keeps it exact.

    factors: specs. offset: the largest magnitude that is added to the sums. ``batch`` is () where B is one matrix.
    """

    def __init__(self, factors: Factors, y: TensorSpec, offset: int = 0):
        self._factors, self._y = factors, y
        a, b = factors.a.shape, factors.b.shape
        one = len(b) <= 2
        self.batch: Shape = () if one else y.shape[:-2] if len(a) > 1 else y.shape[:-1]
        self.terms, self.columns = a[-1], b[-1] if len(b) > 1 else 1
        self.rows = math.prod(a[:-1]) if one else a[-2] if len(a) > 1 else 1
        self.step = max(min(self.rows, BLOCK_SIZE // max(self.terms + self.columns, 1)), 1)
        self.constant = all_known([factors.b, factors.b_zero_point])
        self.together = 1  # matrices
        if not one and not self.constant and a[:-2] == b[:-2] and self.step == self.rows:
            whole = self.rows * self.terms + (self.rows + self.terms) * self.columns
            self.together = max(min(math.prod(self.batch), TOGETHER // max(whole, 1)), 1)
        self.offset = offset

    @property
    def dtype(self) -> Any:
        """What factors and sums are computed in: float32, or float64 if a factor has 16 bits."""
        return np.float64 if max(of.dtype.itemsize for of in (self._factors.a, self._factors.b)) == 2 else np.float32

    @cached_property
    def arithmetic(self) -> Tuple[int, bool]:
        """Products in one slice of a sum, and whether slices are added in float64."""
        if self.dtype == np.float64:
            return max(self.terms, 1), False
        magnitude = _largest_magnitude(self._factors.a.dtype, self._factors.a_zero_point)
        largest, reach = 255, 255 * self.terms
        if self.constant:
            zero_point = self._factors.b_zero_point
            right = np.abs(_right_factor(self._factors.b.value, None if zero_point is None else zero_point.value))
            largest, reach = int(right.max(initial=1)), int(right.sum(-2, dtype=np.int64).max(initial=0))
        if reach * magnitude + self.offset < EXACT:
            return max(self.terms, 1), False
        return max((EXACT - 1) // (magnitude * largest), 1), True

    @property
    def sums(self) -> int:
        """The most sums that are finished by one call."""
        return int(self.together * self.step * self.columns)

    def refusal(self, a_scale: Optional[TensorSpec] = None, b_scale: Optional[TensorSpec] = None) -> Optional[str]:
        """Why the product cannot be computed in blocks, or None."""
        _, a_zero_point, _, b_zero_point = self._factors
        if any(spec is not None and spec.size != 1 for spec in (a_zero_point, a_scale)):
            return "takes one scale and zero point for all rows of A"
        of_columns = [spec for spec in (b_zero_point, b_scale) if spec is not None]
        if any(spec.shape not in ((), (spec.size,), (1, spec.size)) for spec in of_columns):
            return "takes the same scales and zero points for every matrix of B"
        if self._y.dtype == np.int32 and self.terms * 255 * 255 >= INT32:
            return "the sums may exceed 32 bits"
        return None

    def scratch(self) -> List[TensorSpec]:
        """Rows of A, sums, what is multiplied together of B (nothing where it is constant), float64 sums where they are
        wide."""
        right = 0 if self.constant else self.together * self.terms * self.columns
        sizes = self.together * self.step * self.terms, self.sums, right
        specs = [TensorSpec((size,), self.dtype) for size in sizes]
        return [*specs, TensorSpec((self.sums,), np.float64)] if self.arithmetic[1] else specs

    def steps(self, call: Call, factors: Factors, finish: Finish, fill: Optional[Fill] = None) -> List[Step]:
        """The steps that compute it for the arrays in ``factors``. fill: converts rows of A that are not integers."""
        b, zero_point = factors.b, factors.b_zero_point
        if self.constant:
            b = call.packed("right", lambda: np.ascontiguousarray(_right_factor(factors.b, zero_point), self.dtype))
        zero = None if factors.a_zero_point is None else factors.a_zero_point.reshape(())
        steps: List[Step] = []
        for left, right, out in self._matrices(factors.a, b, call.outputs[0]):
            if not self.constant:
                converted = call.scratch[2][: right.size].reshape(right.shape)
                steps += convert(right, converted, zero_point)
                right = converted
            for first in range(0, self.rows, self.step):
                rows = left[..., first : first + self.step, :]
                factor = call.scratch[0][: rows.size].reshape(rows.shape)
                steps += convert(rows, factor, zero) if fill is None else fill(rows, factor)
                steps += self._block(call, factor, right, out[..., first : first + self.step, :], finish)
        return steps

    def _matrices(self, a: Array, b: Array, y: Array) -> Iterator[Tuple[Array, Array, Array]]:
        """What is multiplied by one call, after the other: matrices, or stacks of matrices."""
        if self.together > 1:
            a, b, y = (array.reshape(-1, *array.shape[-2:]) for array in (a, b, y))
            for first in range(0, len(y), self.together):
                stack = slice(first, first + self.together)
                yield a[stack], b[stack], y[stack]
            return
        b = b.reshape(-1, 1) if b.ndim == 1 else b
        if not self.batch:
            yield a.reshape(self.rows, self.terms), b, y.reshape(self.rows, self.columns)
            return
        a = np.broadcast_to(a.reshape(*a.shape[:-2], self.rows, self.terms), (*self.batch, self.rows, self.terms))
        b = np.broadcast_to(b, (*self.batch, self.terms, self.columns))
        y = y.reshape(*self.batch, self.rows, self.columns)
        for index in np.ndindex(*self.batch):
            yield a[index], b[index], y[index]

    def _block(self, call: Call, factor: Array, right: Array, y: Array, finish: Finish) -> List[Step]:
        slice_terms, wide = self.arithmetic
        work = call.scratch[1][: y.size].reshape(y.shape)
        sums = call.scratch[3][: y.size].reshape(y.shape) if wide else work
        steps: List[Step] = []
        for first in range(0, max(self.terms, 1), slice_terms):
            part = slice(first, first + slice_terms)
            steps.append(multiply(factor[..., part], right[..., part, :], work))
            if wide:
                steps.append(partial(np.copyto, sums, work) if first == 0 else partial(np.add, sums, work, sums))
        return [*steps, *finish(sums, work, y)]


def _right_factor(b: Array, zero_point: Optional[Array]) -> Array:
    """B less its zero point as int16, (..., K, N)."""
    factor = (b.reshape(-1, 1) if b.ndim == 1 else b).astype(np.int16)
    return factor if zero_point is None else factor - zero_point.astype(np.int16)


def _largest_magnitude(dtype: Any, zero_point: Optional[TensorSpec]) -> int:
    """The largest magnitude of an integer of the dtype less its zero point, which may not be known."""
    limits = np.iinfo(dtype)
    zero = 0
    if zero_point is not None:
        if zero_point.value is None:
            return int(limits.max) - int(limits.min)
        zero = int(zero_point.value.reshape(()))
    return max(int(limits.max) - zero, zero - int(limits.min))


def convert(integers: Array, target: Array, zero_point: Optional[Array]) -> List[Step]:
    """target = integers - zero_point in float32; the zero point is read while running."""
    steps: List[Step] = [partial(np.copyto, target, integers)]
    if zero_point is not None:
        steps.append(partial(np.subtract, target, zero_point, target))
    return steps


def as_integers(sums: Array, work: Array, y: Array) -> List[Step]:
    """Finish with the sums themselves."""
    return [partial(np.copyto, y, sums, casting="unsafe")]


def requantized(multiplier: Array, zero_point: Array) -> Finish:
    """Finish with saturate(round(sums * multiplier) + zero_point). multiplier: float32, one or (N)."""
    limits = np.iinfo(zero_point.dtype)
    zero, low, high = int(zero_point.reshape(())), int(limits.min), int(limits.max)
    requantize = Requantizer("onnx_even", multiplier.reshape(1, -1), zero, low, high)
    return lambda sums, work, y: [partial(requantize, sums, y, (work,))]


def _matmul_integer(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> IntegerProduct:
    return IntegerProduct(Factors.at(inputs, 0, 2, 1, 3), outputs[0])


@matmul_integer.kernel(
    "INT8",
    supports=lambda op, inputs, outputs: _matmul_integer(op, inputs, outputs).refusal(),
    scratch=lambda op, inputs, outputs: _matmul_integer(op, inputs, outputs).scratch(),
)
def matmul_integer_int8(call: Call) -> Run:
    product = _matmul_integer(call.op, call.in_specs, call.out_specs)
    return in_turn(product.steps(call, Factors.at(call.inputs, 0, 2, 1, 3), as_integers))


def _qlinear_matmul(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> IntegerProduct:
    return IntegerProduct(Factors.at(inputs, 0, 2, 3, 5), outputs[0])


def _refuse_qlinear(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    if not all_known([inputs[i] for i in (1, 4, 6, 7)]):
        return "scales and the zero point of Y must be constants"
    return _qlinear_matmul(op, inputs, outputs).refusal(inputs[1], inputs[4])


@qlinear_matmul.kernel(
    "INT8", supports=_refuse_qlinear, scratch=lambda op, inputs, outputs: _qlinear_matmul(op, inputs, outputs).scratch()
)
def qlinear_matmul_int8(call: Call) -> Run:
    scales = [call.inputs[i].astype(np.float32).reshape(-1) for i in (1, 4, 6)]
    for what, scale in zip("ABY", scales):
        check_scale(call.op, what, scale)
    product = _qlinear_matmul(call.op, call.in_specs, call.out_specs)
    finish = requantized(scales[0] * scales[1] / scales[2], call.inputs[7])
    return in_turn(product.steps(call, Factors.at(call.inputs, 0, 2, 3, 5), finish))
