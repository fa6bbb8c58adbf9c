"""Matrix products."""

from __future__ import annotations

from typing import Optional, Tuple

import numpy as np

from exporter.to_tflite.graph import Operand
from exporter.to_tflite.layout import plain
from exporter.to_tflite.rules import Call, Results, rule
from runtime_arm.netdef import Array


def rows_of(call: Call, weights: Array, rows: int) -> Tuple[int, Array]:
    """Input 0 as a tensor (rows, K), and the weights (M, K) that fit it.

    A picture whose channels come last in its tensor stays so: the columns of the weights change places instead.
    """
    operand, x = call.operand(0), None
    source = operand if operand.flattened is None else operand.flattened
    if source.tensor is not None and source.order != plain(source.spec.ndim) and source.spec.shape[0] == rows:
        inner = source.spec.shape[1:]
        columns = weights.reshape(len(weights), *inner)
        weights = columns.transpose(0, *source.order[1:]).reshape(len(weights), -1) if source.order[0] == 0 else weights
        x = source.tensor if source.order[0] == 0 else None
    return call.graph.reshaped(call.take(0) if x is None else x, (rows, weights.shape[1])), weights


def connected(call: Call, weights: Array, bias: Optional[Array], rows: int) -> int:
    """Input 0, flattened to ``rows`` rows, times weights (M, K) transposed, plus the bias: a tensor (rows, M)."""
    x, weights = rows_of(call, weights, rows)
    bias = np.zeros(len(weights), weights.dtype) if bias is None else bias
    inputs = [x, call.graph.constant(np.ascontiguousarray(weights), _name(call, 1)), _bias(call, bias)]
    return call.emit("FULLY_CONNECTED", inputs, (rows, len(weights)))


def _name(call: Call, index: int) -> str:
    return call.op.input[index] if index < len(call.op.input) else "weights"


def _bias(call: Call, bias: Array) -> int:
    return call.graph.constant(bias.reshape(-1), _name(call, 2))


@rule("FC", "FCTransposed")
def fully_connected(call: Call) -> Results:
    """The input is a matrix: the dimensions before ``axis`` times those from it on."""
    axis, given = call.op.get_int("axis", 1), call.constant_value(1, "the weights")
    axis += call.spec().ndim if axis < 0 else 0
    split = call.op.get_int("axis_w", 1)
    weights = given.reshape(int(np.prod(given.shape[:split])), -1)
    weights = weights.T if call.op.type == "FCTransposed" else weights
    y = connected(call, weights, call.constant_value(2, "the bias"), int(np.prod(call.spec().shape[:axis])))
    return call.result(call.graph.reshaped(y, call.outputs[0].shape))


@rule("onnx.Gemm")
def gemm(call: Call) -> Results:
    """alpha A B + beta C, for constant B and C."""
    weights = call.constant_value(1, "the second matrix") * np.float32(call.op.get_float("alpha", 1.0))
    weights = weights if call.op.get_bool("transB") else weights.T
    rows, columns = call.outputs[0].shape
    addend = call.constant_value(2, "the addend") if call.has(2) else np.zeros((), weights.dtype)
    addend = np.broadcast_to(addend * np.float32(call.op.get_float("beta", 1.0)), (rows, columns))
    if call.op.get_bool("transA"):
        turned = call.spec().with_shape(call.spec().shape[::-1])
        call.operands[0] = Operand(turned, call.graph.turned(call.take(0), (1, 0)), (0, 1))
    same = bool((addend == addend[:1]).all())
    y = connected(call, weights, addend[0] if same and rows else None, rows)
    return call.result(y if same else call.same_shape("ADD", y, call.graph.constant(addend)))


@rule("MatMul")
def mat_mul(call: Call) -> Results:
    """Of matrices; ``axis_a`` and ``axis_b`` say where blobs of more dimensions are split."""
    flags = [call.op.get_bool(name) for name in ("trans_a", "trans_b")]
    weights = call.value(1)
    axis_a, axis_b = call.op.get_int("axis_a", 1), call.op.get_int("axis_b", 1)
    shapes = [
        (int(np.prod(call.spec(index).shape[:axis])), int(np.prod(call.spec(index).shape[axis:])))
        for index, axis in ((0, axis_a), (1, axis_b))
    ]
    if weights is not None and not flags[0]:
        matrix = weights.reshape(shapes[1])
        return call.result(connected(call, matrix if flags[1] else matrix.T, None, shapes[0][0]))
    a, b = (call.graph.reshaped(call.take(index), shapes[index]) for index in (0, 1))
    return call.result(call.emit("BATCH_MATMUL", [a, b], call.outputs[0].shape, AdjX=flags[0], AdjY=flags[1]))


@rule("BatchMatMul", "onnx.MatMul")
def batch_mat_mul(call: Call) -> Results:
    """Of stacks of matrices; a constant matrix is the weights of a fully connected layer."""
    flags = [call.op.get_bool(name) for name in ("trans_a", "trans_b")]
    weights, ndim = call.value(1), call.spec(0).ndim
    if weights is not None and weights.ndim == 2 and ndim >= 2 and not flags[0]:
        rows = int(np.prod(call.spec().shape[:-1]))
        y = connected(call, weights if flags[1] else weights.T, None, rows)
        return call.result(call.graph.reshaped(y, call.outputs[0].shape))
    numbers = [call.take(index) for index in (0, 1)]
    for index in (0, 1):
        shape = call.graph[numbers[index]].shape
        if len(shape) == 1:
            numbers[index] = call.graph.reshaped(numbers[index], (1, *shape) if index == 0 else (*shape, 1))
    a, b = (call.graph[number].shape for number in numbers)
    rows, columns = a[-1] if flags[0] else a[-2], b[-2] if flags[1] else b[-1]
    outer = np.broadcast_shapes(a[:-2], b[:-2])
    y = call.emit("BATCH_MATMUL", numbers, (*outer, rows, columns), AdjX=flags[0], AdjY=flags[1])
    return call.result(call.graph.reshaped(y, call.outputs[0].shape))
