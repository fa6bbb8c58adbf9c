"""Caffe2's random fills. Equal seeds give equal blobs, but not the numbers that Caffe2 would give."""

from __future__ import annotations

import math
from typing import Any, Callable, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError, OperatorError, ShapeError
from runtime_arm.netdef import Array, OperatorDef, dtypes
from runtime_arm.operators.common.random_numbers import generator
from runtime_arm.operators.fills.caffe2 import filled_shape
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import Shape, TensorSpec

Draw = Callable[[OperatorDef, Shape], Any]


def _declare(type: str, dtype: Any, draw: Draw, doc: str) -> None:
    """Declares a fill of Caffe2's whose elements are ``draw(op, shape)``."""

    @operator(type, inputs=(0, 1), inplace={0: 0}, pure=False)
    def schema(op: OperatorDef, like: Optional[TensorSpec] = None) -> List[TensorSpec]:
        return [TensorSpec(filled_shape(op, like), dtype)]

    schema.__doc__ = doc

    @schema.reference
    def reference(op: OperatorDef, like: Optional[Array] = None) -> List[Any]:
        shape = filled_shape(op, None if like is None else TensorSpec.known(like))
        return [np.asarray(draw(op, shape)).astype(dtype)]


def _fan(op: OperatorDef, shape: Shape, axis: int) -> int:
    """The number of elements per index of a dimension."""
    if len(shape) <= axis or shape[axis] == 0:
        raise ShapeError(op, f"the shape must have a dimension {axis} that is not 0, got {list(shape)}")
    return TensorSpec(shape, np.uint8).size // shape[axis]


def _xavier(op: OperatorDef, shape: Shape) -> Any:
    scale = math.sqrt(3.0 / max(_fan(op, shape, 0), 1))
    return generator(op).uniform(-scale, scale, shape)


def _msra(op: OperatorDef, shape: Shape) -> Any:
    return generator(op).normal(0.0, math.sqrt(2.0 / max(_fan(op, shape, 1), 1)), shape)


def _gaussian(op: OperatorDef, shape: Shape) -> Any:
    deviation = op.get_float("std", 1.0)
    if deviation < 0:
        raise ArgumentError(op, f"std must not be negative, got {deviation:g}")
    return generator(op).normal(op.get_float("mean", 0.0), deviation, shape)


def _half_uniform(op: OperatorDef, shape: Shape) -> Any:
    return generator(op).uniform(op.get_float("min", 0.0), op.get_float("max", 1.0), shape)


_declare(
    "XavierFill",
    np.float32,
    _xavier,
    "Y is uniformly distributed within +-sqrt(3 / n), with n elements per index of dimension 0.",
)
_declare(
    "MSRAFill",
    np.float32,
    _msra,
    "Y is normally distributed: deviation sqrt(2 / n), with n elements per index of dimension 1.",
)
_declare(
    "GaussianFill", np.float32, _gaussian, "Y is normally distributed: ``mean`` (0), standard deviation ``std`` (1)."
)
_declare(
    "Float16UniformFill",
    np.float16,
    _half_uniform,
    "Y is uniformly distributed from ``min`` (0) to ``max`` (1), in float16.",
)


def _declare_uniform(type: str, dtype: Any, draw: Callable[..., Any], doc: str) -> None:
    """Declares a fill between two bounds: ``draw(random, low, high, shape)``.

    The bounds are the arguments min and max, or inputs 1 and 2.
    """

    def bounds(op: OperatorDef, inputs: Sequence[Any]) -> Tuple[Any, Any]:
        if len(inputs) == 3:
            return inputs[1].reshape(-1)[0], inputs[2].reshape(-1)[0]
        if dtype == np.float32:
            return op.get_float("min", 0.0), op.get_float("max", 1.0)
        return op.get_int("min", 0), op.get_int("max", 1)

    def require_order(op: OperatorDef, low: Any, high: Any) -> None:
        if not low < high:
            raise ArgumentError(op, f"min must be less than max, got {low} and {high}")

    @operator(type, inputs=(0, 3), inplace={0: 0}, pure=False)
    def schema(op: OperatorDef, *inputs: TensorSpec) -> List[TensorSpec]:
        require(op, len(inputs) != 2, "min and max must both be inputs, or neither", *inputs)
        if len(inputs) < 3:
            require_order(op, *bounds(op, ()))
        else:
            single = all(spec.size == 1 and spec.dtype == dtype for spec in inputs[1:])
            require(op, single, f"min and max must each be one {np.dtype(dtype).name}", *inputs)
            require(
                op,
                not op.has("min") and not op.has("max"),
                "give min and max either as arguments or as inputs, not both",
            )
        return [TensorSpec(filled_shape(op, inputs[0] if inputs else None), dtype)]

    schema.__doc__ = doc

    @schema.reference
    def reference(op: OperatorDef, *inputs: Array) -> List[Any]:
        low, high = bounds(op, inputs)
        if low != high:  # as inputs they may be equal
            require_order(op, low, high)
        shape = filled_shape(op, TensorSpec.known(inputs[0]) if inputs else None)
        return [np.asarray(draw(generator(op), low, high, shape)).astype(dtype)]


def _between(random: np.random.RandomState, low: float, high: float, shape: Shape) -> Any:
    return random.uniform(low, high, shape)


def _among(random: np.random.RandomState, low: int, high: int, shape: Shape) -> Any:
    return random.randint(int(low), int(high) + 1, shape, np.int64)


_declare_uniform("UniformFill", np.float32, _between, "Y is uniformly distributed from min (0) to max (1).")
_declare_uniform(
    "UniformIntFill",
    np.int32,
    _among,
    "Y is uniformly distributed among the integers min (0) to max (1), both included.",
)


@operator("UniqueUniformFill", inputs=(0, 2), pure=False)
def unique_uniform_fill(
    op: OperatorDef, like: Optional[TensorSpec] = None, avoid: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """Y = distinct random integers from min (0) to max (1), both included; int32 or int64.

    Those in the second input are excluded.
    """
    dtype = dtypes.dtype_of(op.get_int("dtype", dtypes.INT32))
    if dtype not in (np.int32, np.int64):
        raise ArgumentError(op, f"dtype must be int32 or int64, got {op.get_int('dtype')}")
    return [TensorSpec(filled_shape(op, like), dtype)]


@unique_uniform_fill.reference
def unique_uniform_fill_reference(
    op: OperatorDef, like: Optional[Array] = None, avoid: Optional[Array] = None
) -> List[Any]:
    spec = unique_uniform_fill.shape(op, None if like is None else TensorSpec.known(like))[0]
    low, high = op.get_int("min", 0), op.get_int("max", 1)
    taken = set(() if avoid is None else avoid.reshape(-1).tolist())
    room = high + 1 - low - sum(low <= number <= high for number in taken)
    if spec.size > room:
        raise OperatorError(op, f"there are only {max(room, 0)} numbers to choose from, but {spec.size} are wanted")
    random = generator(op)
    numbers: List[int] = []
    while len(numbers) < spec.size:
        number = int(random.randint(low, high + 1, dtype=np.int64))
        if number not in taken:
            taken.add(number)
            numbers.append(number)
    return [np.array(numbers, spec.dtype).reshape(spec.shape)]
