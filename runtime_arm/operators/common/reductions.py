"""Reductions, independent of how an operator names their axes: the exact rule and the fast kernel of each."""

from __future__ import annotations

from math import prod
from typing import Any, Callable, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.operators.common.casting import cast
from runtime_arm.operators.common.statistics import StackSum
from runtime_arm.records import NamedTuple
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.specs import Shape, TensorSpec

Axes = Tuple[int, ...]


class Reduction(NamedTuple):
    """One way to reduce many numbers to one.

    exact(x, axes): the rule for float64 or integers, at least one element; reduced axes stay as 1. nothing(dtype): the
    result over no elements. Fast kernels apply ``each`` to every element if it is given, reduce with ``fold``, and let
    ``finish(y, count)`` change the result in place.
    """

    exact: Callable[[Array, Axes], Any]
    nothing: Callable[[np.dtype[Any]], Any]
    each: Optional[np.ufunc] = None
    fold: Optional[np.ufunc] = None
    finish: Optional[Callable[[Array, int], Any]] = None


def zero(dtype: np.dtype[Any]) -> Any:
    return 0


def lowest(dtype: np.dtype[Any]) -> Any:
    """The smallest finite number of the dtype; False for bool."""
    return False if dtype.kind == "b" else np.finfo(dtype).min if dtype.kind == "f" else np.iinfo(dtype).min


def highest(dtype: np.dtype[Any]) -> Any:
    """The largest finite number of the dtype; True for bool."""
    return True if dtype.kind == "b" else np.finfo(dtype).max if dtype.kind == "f" else np.iinfo(dtype).max


def _mean(x: Array, axes: Axes) -> Any:
    total, count = x.sum(axis=axes, keepdims=True), prod(x.shape[axis] for axis in axes)
    return total / count if x.dtype.kind == "f" else np.sign(total) * (np.abs(total) // count)  # towards zero, as in C


def _log_sum_exp(x: Array, axes: Axes) -> Any:
    largest = x.max(axis=axes, keepdims=True)
    offset = np.where(np.isfinite(largest), largest, 0)
    return np.log(np.exp(x - offset).sum(axis=axes, keepdims=True)) + offset


def _root(x: Array, axes: Axes) -> Any:
    return np.sqrt(np.square(x.astype(np.float64)).sum(axis=axes, keepdims=True))


SUM = Reduction(lambda x, axes: x.sum(axis=axes, keepdims=True, dtype=x.dtype), zero, fold=np.add)
MEAN = Reduction(_mean, zero, fold=np.add, finish=lambda y, count: np.divide(y, count, out=y))
MAX = Reduction(lambda x, axes: x.max(axis=axes, keepdims=True), lowest, fold=np.maximum)
MIN = Reduction(lambda x, axes: x.min(axis=axes, keepdims=True), highest, fold=np.minimum)
L1 = SUM._replace(exact=lambda x, axes: np.abs(x).sum(axis=axes, keepdims=True, dtype=x.dtype), each=np.absolute)
L2 = Reduction(_root, zero, np.square, np.add, lambda y, count: np.sqrt(y, out=y))
SUM_SQUARE = SUM._replace(
    exact=lambda x, axes: np.square(x).sum(axis=axes, keepdims=True, dtype=x.dtype), each=np.square
)
PRODUCT = Reduction(lambda x, axes: x.prod(axis=axes, keepdims=True, dtype=x.dtype), lambda dtype: 1, fold=np.multiply)
LOG_SUM = Reduction(
    lambda x, axes: np.log(x.sum(axis=axes, keepdims=True)),
    lambda dtype: -np.inf,
    fold=np.add,
    finish=lambda y, count: np.log(y, out=y),
)
LOG_SUM_EXP = Reduction(_log_sum_exp, lambda dtype: -np.inf)


def reduced_shape(shape: Shape, axes: Sequence[int], keepdims: bool) -> Shape:
    """The shape with the axes set to 1 (``keepdims``) or left out."""
    return tuple(1 if i in axes else n for i, n in enumerate(shape) if keepdims or i not in axes)


def reduce_exactly(reduction: Reduction, x: Array, axes: Axes, keepdims: bool) -> Array:
    """The reduction of X, in X's dtype."""
    shape = reduced_shape(x.shape, axes, keepdims)
    if prod(x.shape[axis] for axis in axes) == 0:
        return np.full(shape, reduction.nothing(x.dtype), x.dtype)
    exact = x.astype(np.float64) if x.dtype.kind == "f" else x
    return cast(np.asarray(reduction.exact(exact, axes)), x.dtype).reshape(shape)


def as_stack(shape: Shape, axes: Axes) -> Optional[Tuple[int, int, int]]:
    """The shape as (outer, n, inner), n being the axes. None if other axes, larger than 1, lie between them."""
    axes = tuple(axis for axis in axes if shape[axis] != 1)
    if not axes:
        return prod(shape), 1, 1
    first, last = min(axes), max(axes)
    if any(shape[i] != 1 for i in range(first, last) if i not in axes):
        return None
    return prod(shape[:first]), prod(shape[first : last + 1]), prod(shape[last + 1 :])


def why_slow(reduction: Reduction, x: TensorSpec) -> Optional[str]:
    """Why ``bind_reduction`` cannot compute this; None if it can. A part of a kernel's ``supports``."""
    if reduction.fold is None:
        return "this reduction has no fast kernel"
    if x.size == 0:
        return "X is empty"
    if x.dtype.kind == "f":
        return "float16 sums need a wider accumulator" if x.dtype.itemsize < 4 else None
    return "the result is scaled at the end, which rounds integers differently" if reduction.finish else None


def reduction_scratch(reduction: Reduction, x: TensorSpec) -> List[TensorSpec]:
    """The scratch of ``bind_reduction``: room for every element if ``each`` changes them."""
    return [TensorSpec(x.shape, x.dtype)] if reduction.each else []


def bind_reduction(reduction: Reduction, call: Call, axes: Axes) -> Run:
    """A run that reduces input 0 over the axes into output 0, with the scratch of ``reduction_scratch``."""
    x, y = call.inputs[0], call.outputs[0]
    source = call.scratch[0] if reduction.each else x
    fold = _bind_fold(reduction, source, y, axes)
    count = y.dtype.type(prod(x.shape[axis] for axis in axes)) if reduction.finish else 0
    each, finish = reduction.each, reduction.finish

    def run() -> None:
        if each is not None:
            each(x, out=source)
        fold()
        if finish is not None:
            finish(y, count)

    return run


def _bind_fold(reduction: Reduction, source: Array, y: Array, axes: Axes) -> Run:
    fold = reduction.fold
    assert fold is not None
    stack = as_stack(source.shape, axes)
    if stack is None:
        target = y.reshape(reduced_shape(source.shape, axes, keepdims=True))
        return lambda: fold.reduce(source, axis=axes, keepdims=True, dtype=source.dtype, out=target)
    whole, part = source.reshape(stack), y.reshape(stack[0], 1, stack[2])
    if fold is np.add and source.dtype.kind == "f":
        sums = StackSum(whole)
        return lambda: sums.into(whole, part)
    return lambda: fold.reduce(whole, axis=1, keepdims=True, dtype=whole.dtype, out=part)


def scratch_of(reduction: Reduction) -> Callable[[Any, Specs, Sequence[TensorSpec]], Sequence[TensorSpec]]:
    """``reduction_scratch`` for input 0, in the form of a kernel's ``scratch``."""

    def scratch(op: Any, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
        assert inputs[0] is not None
        return reduction_scratch(reduction, inputs[0])

    return scratch
