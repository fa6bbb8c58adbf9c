"""Sums, means, maxima and minima of any number of blobs, elementwise: Caffe2's and ONNX's.

In ONNX all blobs broadcast. In Caffe2 they have the same shape, except the second input of Max and Min: Caffe2 reads as
many of its elements as the first has. If it has fewer, Caffe2 reads beyond its end; here it broadcasts.
"""

from __future__ import annotations

from functools import partial, reduce
from typing import Any, Callable, List, Optional, Sequence

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.broadcasting import broadcast
from runtime_arm.operators.common.dtypes import (
    CAFFE2_NUMBERS,
    FLOAT32,
    FLOAT32_64,
    FLOATS,
    NUMBERS,
    Dtypes,
    require_same_dtype,
)
from runtime_arm.operators.common.formulas import exactly
from runtime_arm.records import NamedTuple
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.kernel import Call, Run
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


def _one_shape(op: OperatorDef, *inputs: TensorSpec) -> List[TensorSpec]:
    require_same_dtype(op, *inputs)
    require(op, all(spec.shape == inputs[0].shape for spec in inputs), "inputs must have one shape", *inputs)
    return [inputs[0]]


def _shape_of_first(op: OperatorDef, *inputs: TensorSpec) -> List[TensorSpec]:
    require_same_dtype(op, *inputs)
    first, *others = inputs
    fits = all(spec.size == first.size or broadcast(op, (first, spec)) == first.shape for spec in others[:1])
    require(op, fits, "the second input must have as many elements as the first, or broadcast to it", *inputs)
    require(op, all(spec.shape == first.shape for spec in others[1:]), "inputs must have one shape", *inputs)
    return [first]


def _broadcast(op: OperatorDef, *inputs: TensorSpec) -> List[TensorSpec]:
    require_same_dtype(op, *inputs)
    return [TensorSpec(broadcast(op, inputs), inputs[0].dtype)]


def _mean(total: Any, count: int, **out: Any) -> Any:
    return np.divide(total, count, **out)


def _caffe2_mean(total: Any, count: int, **out: Any) -> Any:
    return np.multiply(total, np.float32(1 / count), **out)  # Caffe2 rounds the factor to float32 even for float64


def _relu(total: Any, count: int, **out: Any) -> Any:
    return np.fmax(total, 0, **out)  # NaN becomes 0, as in Caffe2


class Row(NamedTuple):
    """An operator that folds its inputs with one ufunc and may ``finish`` the result."""

    type: str
    domain: str
    dtypes: Dtypes
    shape: Callable[..., List[TensorSpec]]
    ufunc: Any
    finish: Optional[Callable[..., Any]]
    doc: str


TABLE = (
    Row("Sum", "", CAFFE2_NUMBERS, _one_shape, np.add, None, "Y = the sum of the inputs."),
    Row("SumInt", "", CAFFE2_NUMBERS, _one_shape, np.add, None, "Y = the sum of the inputs."),
    Row("SumRelu", "", ("int32", *FLOAT32_64), _one_shape, np.add, _relu, "Y = max(the sum of the inputs, 0)."),
    Row("Mean", "", FLOAT32_64, _one_shape, np.add, _caffe2_mean, "Y = the mean of the inputs."),
    Row("Max", "", FLOAT32, _shape_of_first, np.maximum, None, "Y = the largest of the inputs."),
    Row("Min", "", FLOAT32, _shape_of_first, np.minimum, None, "Y = the smallest of the inputs."),
    Row("Sum", "onnx", FLOATS, _broadcast, np.add, None, "Y = the sum of the inputs."),
    Row("Mean", "onnx", FLOATS, _broadcast, np.add, _mean, "Y = the mean of the inputs."),
    Row("Max", "onnx", NUMBERS, _broadcast, np.maximum, None, "Y = the largest of the inputs."),
    Row("Min", "onnx", NUMBERS, _broadcast, np.minimum, None, "Y = the smallest of the inputs."),
)


def _declare(row: Row) -> None:
    def shape(op: OperatorDef, *inputs: TensorSpec) -> List[TensorSpec]:
        return row.shape(op, *inputs)

    shape.__doc__ = row.doc
    declare = operator(
        row.type, domain=row.domain, inputs=(1, None), dtypes=row.dtypes, inplace={0: 0}, kind=Kind.ELEMENTWISE
    )
    schema = declare(shape)

    @schema.reference
    def reference(op: OperatorDef, *inputs: Array) -> List[Any]:
        def total(*operands: Any) -> Any:
            result = reduce(row.ufunc, operands)
            return row.finish(result, len(operands)) if row.finish else result

        return [exactly(total, *_fitted(inputs, row.shape is _shape_of_first))]

    @schema.kernel("NUMPY")
    def kernel(call: Call) -> Run:
        first, *others = _fitted(call.inputs, row.shape is _shape_of_first)
        return _accumulate(row, call.outputs[0], first, others)


def _fitted(inputs: Sequence[Array], to_first: bool) -> List[Array]:
    return [x.reshape(inputs[0].shape) if to_first and x.size == inputs[0].size else x for x in inputs]


def _accumulate(row: Row, y: Array, first: Array, others: Sequence[Array]) -> Run:
    runs: List[Run] = [partial(row.ufunc, first, others[0], out=y) if others else partial(np.copyto, y, first)]
    runs += [partial(row.ufunc, y, x, out=y) for x in others[1:]]
    if row.finish:
        runs.append(partial(row.finish, y, 1 + len(others), out=y))

    def run() -> None:
        for step in runs:
            step()

    return runs[0] if len(runs) == 1 else run


for _row in TABLE:
    _declare(_row)


@operator("WeightedSum", inputs=(2, None), dtypes=FLOAT32, inplace={0: 0}, kind=Kind.ELEMENTWISE)
def weighted_sum(op: OperatorDef, *inputs: TensorSpec) -> List[TensorSpec]:
    """Y = the sum of X_i w_i. The inputs are X_0, w_0, X_1, w_1, ...; each w is one number."""
    require(op, len(inputs) % 2 == 0, "each blob needs a weight", *inputs)
    require_same_dtype(op, *inputs)
    require(op, all(weight.size == 1 for weight in inputs[1::2]), "weights must be one number each", *inputs)
    require(op, inputs[0].size > 0, "blobs must not be empty", *inputs)
    return _shape_of_first(op, *inputs[::2])


@weighted_sum.reference
def weighted_sum_reference(op: OperatorDef, *inputs: Array) -> List[Any]:
    def total(*operands: Any) -> Any:
        return sum(x * weight.reshape(()) for x, weight in zip(operands[::2], operands[1::2]))

    return [exactly(total, *(x.reshape(inputs[0].shape) if i % 2 == 0 else x for i, x in enumerate(inputs)))]
