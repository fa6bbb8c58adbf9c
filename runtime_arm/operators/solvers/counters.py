"""The count of iterations, as Caffe2 keeps it: Iter, AtomicIter, and the mutex that AtomicIter takes."""

from __future__ import annotations

from typing import Any, List

import numpy as np

from runtime_arm.errors import OperatorError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


def _counted(op: OperatorDef, count: TensorSpec) -> List[TensorSpec]:
    require(op, count.size == 1 and count.dtype.kind in "iu", "the count must be one integer", count)
    return [TensorSpec(count.shape, np.int64)]


def _next(op: OperatorDef, count: Array) -> List[Any]:
    if count.dtype == np.int64 and count.reshape(-1)[0] < 0:
        raise OperatorError(op, f"the count must not be negative, it is {count.reshape(-1)[0]}")
    return [np.add(count, 1) if count.dtype == np.int64 else np.ones(count.shape, np.int64)]


@operator("Iter", inputs=1, inplace={0: 0})
def iteration(op: OperatorDef, count: TensorSpec) -> List[TensorSpec]:
    """Y = X + 1, one int64 in the shape of X. A count of another type starts again: Y = 1. Source: Caffe2.

    Caffe2 also knows Iter without an input, which counts on from its own output: a Workspace adds that input.
    """
    return _counted(op, count)


@iteration.reference
def iteration_reference(op: OperatorDef, count: Array) -> List[Any]:
    return _next(op, count)


@operator("AtomicIter", inputs=2, inplace={0: 1})
def atomic_iteration(op: OperatorDef, mutex: TensorSpec, count: TensorSpec) -> List[TensorSpec]:
    """Iter of input 1. Input 0 is the mutex under which Caffe2 counts; one net at a time runs here. Source: Caffe2."""
    return _counted(op, count)


@atomic_iteration.reference
def atomic_iteration_reference(op: OperatorDef, mutex: Array, count: Array) -> List[Any]:
    return _next(op, count)


@operator("CreateMutex", inputs=0)
def create_mutex(op: OperatorDef) -> List[TensorSpec]:
    """A mutex, here an empty blob. Source: Caffe2."""
    return [TensorSpec((0,), np.uint8, np.empty(0, np.uint8))]


@create_mutex.reference
def create_mutex_reference(op: OperatorDef) -> List[Any]:
    return [np.empty(0, np.uint8)]
