"""Reductions over dimensions. What is left keeps the order of the input's tensor."""

from __future__ import annotations

from typing import Optional, Sequence

import numpy as np

from exporter.to_tflite.graph import Operand
from exporter.to_tflite.layout import Order
from exporter.to_tflite.rules import Call, Results, rule
from runtime_arm.registry.schema import axis_of

_TYPES = {"Max": "REDUCE_MAX", "Mean": "MEAN", "Min": "REDUCE_MIN", "Prod": "REDUCE_PROD", "Sum": "SUM"}
_KINDS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")


def reduced(call: Call, kind: str, axes: Sequence[int], keepdims: bool, x: Optional[int] = None) -> Operand:
    """The first input, or a tensor in its order, reduced over axes of the blob."""
    order = call.order()
    x = call.as_held() if x is None else x
    places = sorted(order.index(axis) for axis in axes)
    shape = [1 if at in places else n for at, n in enumerate(call.graph[x].shape) if keepdims or at not in places]
    if axes:
        x = call.emit(_TYPES[kind], [x, call.ints(*places)], shape, KeepDims=keepdims)
    return call.result(x, order if keepdims else _without(order, axes))


def _without(order: Order, axes: Sequence[int]) -> Order:
    """The order of the dimensions that are left, renumbered."""
    left = [axis for axis in order if axis not in axes]
    return tuple(sorted(left).index(axis) for axis in left)


@rule(*(f"Reduce{kind}" for kind in _KINDS), *(f"onnx.Reduce{kind}" for kind in _KINDS))
def reduce(call: Call) -> Results:
    """Axes are an argument in Caffe2, an input in ONNX; none are all, unless the operator says otherwise."""
    ndim, kind = call.spec().ndim, call.op.type[len("Reduce") :]
    given = list(call.constant_value(1, "the axes")) if call.has(1) else call.op.get_ints("axes")
    nothing = not len(given) and call.op.get_bool("noop_with_empty_axes")
    axes = [] if nothing else sorted({axis_of(call.op, int(axis), ndim) for axis in given} or set(range(ndim)))
    keepdims, x = call.op.get_bool("keepdims", True), call.as_held()
    if kind in ("L2", "SumSquare"):
        x = call.same_shape("SQUARE", x)
    elif kind == "L1":
        x = call.same_shape("ABS", x)
    elif kind == "LogSumExp":
        x = call.same_shape("EXP", x)
    y = reduced(call, kind if kind in _TYPES else "Sum", axes, keepdims, x)
    finish = {"L2": "SQRT", "LogSum": "LOG", "LogSumExp": "LOG"}.get(kind)
    if finish is None or y.tensor is None:
        return y
    return y._replace(tensor=call.same_shape(finish, y.tensor))


@rule("ReduceFrontMax", "ReduceFrontMean", "ReduceFrontSum", "ReduceBackMax", "ReduceBackMean", "ReduceBackSum")
def reduce_end(call: Call) -> Results:
    """Over the first or last dimensions."""
    count, ndim, front = call.op.get_int("num_reduce_dim", 1), call.spec().ndim, "Front" in call.op.type
    kind = call.op.type[len("ReduceFront" if front else "ReduceBack") :]
    return reduced(call, kind, range(count) if front else range(ndim - count, ndim), False)


@rule("ReduceTailSum", "SumElements", "AveragedLoss")
def reduce_all(call: Call) -> Results:
    """Over all dimensions, or all but the first."""
    average = call.op.type == "AveragedLoss" or call.op.get_bool("average")
    axes = range(1 if call.op.type == "ReduceTailSum" else 0, call.spec().ndim)
    return reduced(call, "Mean" if average else "Sum", axes, False)


@rule("RowwiseMax", "ColwiseMax")
def reduce_matrices(call: Call) -> Results:
    return reduced(call, "Max", [2 if call.op.type == "RowwiseMax" else 1], False)


@rule("caffe.Reduction")
def reduction(call: Call) -> Results:
    """Over the dimensions from ``axis`` on, times a coefficient."""
    ndim, x = call.spec().ndim, call.as_held()
    operation = call.op.get_str("operation", "SUM")
    if operation in ("ASUM", "SUMSQ"):
        x = call.same_shape("ABS" if operation == "ASUM" else "SQUARE", x)
    axes = range(axis_of(call.op, call.op.get_int("axis", 0), ndim), ndim)
    y = reduced(call, "Mean" if operation == "MEAN" else "Sum", axes, False, x)
    coefficient = call.op.get_float("coeff", 1.0)
    if coefficient == 1 or y.tensor is None:
        return y
    return y._replace(tensor=call.same_shape("MUL", y.tensor, call.number(coefficient)))


@rule("ArgMax", "ArgMin", "onnx.ArgMax", "onnx.ArgMin")
def position(call: Call) -> Results:
    """TFLite's drop the dimension. Of equal elements the first is found."""
    ndim, order = call.spec().ndim, call.order()
    axis = axis_of(call.op, call.op.get_int("axis", 0 if call.op.domain == "onnx" else -1), ndim)
    x, at = call.as_held(), order.index(axis)
    shape = [n for place, n in enumerate(call.graph[x].shape) if place != at]
    number = {np.dtype(np.int32): 2, np.dtype(np.int64): 4}[call.outputs[0].dtype]
    type = "ARG_MAX" if call.op.type == "ArgMax" else "ARG_MIN"
    y = call.emit(type, [x, call.ints(at)], shape, OutputType=number)
    kept = call.outputs[0].ndim == ndim
    if kept:
        return call.result(call.graph.reshaped(y, call.shape_in(order)), order)
    return call.result(y, _without(order, [axis]))
