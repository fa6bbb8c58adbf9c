"""Reductions over dimensions."""

from __future__ import annotations

from typing import List, Sequence

import numpy as np

from exporter.to_onnx.rules import Call, Results, rule
from exporter.to_onnx.rules.arithmetic import second
from runtime_arm.errors import ExportError


@rule("ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum")
def reduce(call: Call) -> Results:
    """No axes mean all axes."""
    axes = call.op.get_ints("axes")
    inputs = [call.x, call.ints(*axes)] if axes else [call.x]
    return call.node(call.op.type, *inputs, keepdims=int(call.op.get_bool("keepdims", True)))


@rule("com.microsoft.QLinearReduceMean")
def quantised_mean(call: Call) -> Results:
    """onnxruntime names the operator and cannot run it: the mean of the floats, quantised."""
    axes = call.op.get_ints("axes")
    given = [call.node("DequantizeLinear", *call.inputs[:3]), *([call.ints(*axes)] if axes else [])]
    mean = call.node("ReduceMean", *given, keepdims=int(call.op.get_bool("keepdims", True)))
    return call.node("QuantizeLinear", mean, *call.inputs[3:])


@rule("ReduceFrontMax", "ReduceFrontMean", "ReduceFrontSum", "ReduceBackMax", "ReduceBackMean", "ReduceBackSum")
def reduce_end(call: Call) -> Results:
    """Over the first or last dimensions."""
    if call.has(1):
        raise ExportError("ONNX cannot reduce part of a dimension")
    count, front = call.op.get_int("num_reduce_dim", 1), "Front" in call.op.type
    if not count:
        return call.x
    return _over(
        call,
        "Reduce" + call.op.type[len("ReduceFront" if front else "ReduceBack") :],
        range(count) if front else range(-count, 0),
    )


def _over(call: Call, type: str, axes: Sequence[int]) -> str:
    return call.node(type, call.x, call.ints(*axes), keepdims=0)


@rule("ReduceTailSum")
def reduce_tail_sum(call: Call) -> Results:
    return _over(call, "ReduceSum", range(1, call.rank())) if call.rank() > 1 else call.x


@rule("SumElements", "SumElementsInt", "AveragedLoss")
def sum_elements(call: Call) -> Results:
    average = call.op.type == "AveragedLoss" or call.op.get_bool("average")
    return call.node("ReduceMean" if average else "ReduceSum", call.x, keepdims=0)


@rule("SumSqrElements")
def sum_squares(call: Call) -> Results:
    if call.op.get_bool("average"):
        return call.node("ReduceMean", call.node("Mul", call.x, call.x), keepdims=0)
    return call.node("ReduceSumSquare", call.x, keepdims=0)


@rule("RowwiseMax")
def rowwise_max(call: Call) -> Results:
    return _over(call, "ReduceMax", [2])


@rule("ColwiseMax")
def colwise_max(call: Call) -> Results:
    return _over(call, "ReduceMax", [1])


@rule("ArgMax", "ArgMin")
def position(call: Call) -> Results:
    return call.node(
        call.op.type, call.x, axis=call.op.get_int("axis", -1), keepdims=int(call.op.get_bool("keepdims", True))
    )


@rule("TopK")
def top_k(call: Call) -> Results:
    """ONNX gives no indices into the whole blob and does not pad where there are fewer than k elements."""
    call.refuse_outputs_from(2)
    axis, dims = call.op.get_int("axis", -1), call.known_dims()
    if call.has(1):
        return call.nodes("TopK", [call.x, call.reshaped(call.input(1), 1)], 2, axis=axis)
    count = call.op.get_int("k", -1)
    length = dims[axis] if dims is not None else None
    if length is not None and length < count:
        raise ExportError(f"k is {count}, dimension {axis} has {length}")
    return call.nodes("TopK", [call.x, call.ints(count)], 2, axis=axis)


@rule("SumReduceLike")
def sum_reduce_like(call: Call) -> Results:
    """The sum over the dimensions along which the second input would be broadcast."""
    shape, like = call.shape(0), call.shape(1)
    axis = call.op.get_int("axis", -1)
    start = len(shape) - len(like) if axis == -1 else axis
    aligned = [1] * start + list(like) + [1] * (len(shape) - start - len(like))
    axes = [i for i, n in enumerate(aligned) if n == 1]
    total = call.node("ReduceSum", call.x, call.ints(*axes), keepdims=0) if axes else call.x
    return call.reshaped(total, *like) if like else call.node("Squeeze", second(call)) if not axes else total


@rule("caffe.Reduction")
def reduction(call: Call) -> Results:
    """Over the dimensions from ``axis`` on, times a coefficient."""
    op, rank = call.op, call.rank()
    axis = op.get_int("axis", 0)
    type = {"SUM": "ReduceSum", "ASUM": "ReduceL1", "SUMSQ": "ReduceSumSquare", "MEAN": "ReduceMean"}
    axes = range(axis + rank if axis < 0 else axis, rank)
    y = call.node(type[op.get_str("operation", "SUM")], call.x, call.ints(*axes), keepdims=0)
    coefficient = op.get_float("coeff", 1.0)
    return y if coefficient == 1 else call.node("Mul", y, call.number(coefficient))


@rule("caffe.ArgMax")
def arg_max(call: Call) -> Results:
    """Of equal elements Caffe chooses the last, so the search runs over the reversed dimension."""
    op, count, values = call.op, call.op.get_int("top_k", 1), call.op.get_bool("out_max_val")
    axis = op.get_int("axis") if op.has("axis") else -1
    x = call.x if op.has("axis") else call.node("Flatten", call.x, axis=1)
    behind = call.node("Slice", x, call.ints(-1), call.ints(np.iinfo(np.int64).min), call.ints(axis), call.ints(-1))
    largest, places = call.nodes("TopK", [behind, call.ints(count)], 2, axis=axis)
    last = call.node("Sub", call.node("Shape", x, start=axis, end=axis + 1 or None), call.ints(1))
    indices = call.node("Cast", call.node("Sub", last, places), to=call.dtype())
    if op.has("axis"):
        return largest if values else indices
    parts: List[str] = [
        call.node("Unsqueeze", part, call.ints(1)) for part in ([indices, largest] if values else [indices])
    ]
    stacked = call.node("Concat", *parts, axis=1) if values else parts[0]
    return call.reshaped(stacked, 0, 0, 0, *[1] * (call.rank() - 3)) if call.rank() > 3 else stacked
