"""Matrix products."""

from __future__ import annotations

from typing import Any, List

import numpy as np

from exporter.to_onnx.rules import Call, Results, rule


def _matrix(call: Call, index: int, axis: int) -> str:
    """The input as a matrix: the dimensions before the axis times those from the axis on."""
    dims = call.known_dims(index)
    if dims is not None and len(dims) == 2 and axis % 2 == 1:
        return call.input(index)
    flat = call.weight(index, lambda w: w.reshape(int(np.prod(w.shape[:axis])), -1)) if axis >= 0 else None
    return flat or call.node("Flatten", call.input(index), axis=axis)


@rule("FC", "FCTransposed")
def fully_connected(call: Call) -> Results:
    """Gemm on the flattened input; a reshape restores a result of more than two dimensions."""
    axis = call.op.get_int("axis", 1)
    if axis < 0:
        axis += call.rank()
    x, weights = _matrix(call, 0, axis), _matrix(call, 1, call.op.get_int("axis_w", 1))
    y = call.node("Gemm", x, weights, call.input(2), transB=1 if call.op.type == "FC" else None)
    if axis == 1:
        return y
    leading = call.node("Shape", call.x, start=0, end=axis)
    return call.node("Reshape", y, call.node("Concat", leading, call.ints(-1), axis=0))


@rule("MatMul")
def mat_mul(call: Call) -> Results:
    op = call.op
    a, b = _matrix(call, 0, op.get_int("axis_a", 1)), _matrix(call, 1, op.get_int("axis_b", 1))
    a, b = (
        call.node("Transpose", name, perm=[1, 0]) if op.get_bool(flag) else name
        for name, flag in ((a, "trans_a"), (b, "trans_b"))
    )
    return call.node("MatMul", a, b)


@rule("BatchMatMul")
def batch_mat_mul(call: Call) -> Results:
    """NumPy's matmul after the transpositions; two vectors give one element."""
    names: List[str] = []
    for index, flag in ((0, "trans_a"), (1, "trans_b")):
        rank = call.rank(index) if call.op.get_bool(flag) else 0
        order = [*range(rank - 2), rank - 1, rank - 2]
        names.append(call.transposed(call.input(index), order) if rank > 1 else call.input(index))
    y = call.node("MatMul", *names)
    vectors = all(dims is not None and len(dims) == 1 for dims in (call.known_dims(0), call.known_dims(1)))
    return call.reshaped(y, 1) if vectors else y


@rule("DotProduct", "SquaredL2Distance", "L1Distance", "CosineSimilarity")
def by_row(call: Call) -> Results:
    """One number per row of two matrices, or of two blobs flattened to matrices."""
    a, b = (_rows(call, index) for index in (0, 1))
    if call.op.type == "DotProduct":
        return _row_sum(call, call.node("Mul", a, b))
    if call.op.type == "CosineSimilarity":
        return _cosine(call, a, b)
    difference = call.node("Sub", a, b)
    if call.op.type == "L1Distance":
        return _row_sum(call, call.node("Abs", difference))
    return call.node("Mul", _row_sum(call, call.node("Mul", difference, difference)), call.number(0.5))


def _rows(call: Call, index: int) -> str:
    return call.input(index) if call.rank(index) == 2 else call.node("Flatten", call.input(index), axis=1)


def _row_sum(call: Call, name: str) -> str:
    return call.node("ReduceSum", name, call.ints(1), keepdims=0)


def _cosine(call: Call, a: str, b: str) -> str:
    lengths: List[Any] = []
    for name in (a, b):
        length = _row_sum(call, call.node("Mul", name, name))
        lengths.append(call.node("Sqrt", call.node("Max", length, call.number(1e-12))))
    return call.node("Div", _row_sum(call, call.node("Mul", a, b)), call.node("Mul", *lengths))


@rule("RowMul")
def row_mul(call: Call) -> Results:
    return call.node("Mul", call.x, call.reshaped(call.input(1), -1, *[1] * (call.rank() - 1)))


@rule("SquareRootDivide")
def square_root_divide(call: Call) -> Results:
    """A row whose scale is 0 is unchanged."""
    scale = call.input(1)
    is_zero = call.node("Equal", scale, call.number(0))
    root = call.node("Sqrt", call.node("Where", is_zero, call.number(1), scale))
    return call.node("Div", call.x, call.reshaped(root, -1, *[1] * (call.rank() - 1)))


@rule("ElementwiseLinear")
def elementwise_linear(call: Call) -> Results:
    """X as a matrix, times one row, plus another, in X's shape."""
    matrix = _matrix(call, 0, call.op.get_int("axis", 1))
    y = call.node("Add", call.node("Mul", matrix, call.input(1)), call.input(2))
    return y if matrix == call.x else call.node("Reshape", y, call.node("Shape", call.x))
