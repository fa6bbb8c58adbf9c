"""Gradient makers of matrix products."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

from runtime_arm.errors import GradientError
from runtime_arm.registry.gradients import Backward, Forward, gradient


@gradient("FC", "FCTransposed")
def fc(forward: Forward) -> Backward:
    given = [forward.input(0), forward.input(1), forward.gradient()]
    return forward.by(f"{forward.op.type}Gradient", given, [1, 2, 0])


@gradient("MatMul")
def matmul(forward: Forward) -> Backward:
    """Of C = A B: dA = dC B^T, dB = A^T dC, with the operands transposed as the operator says; the third input gives
    the shape. As in Caffe2 these products read axis_a and axis_b as 1, and are refused where that makes other matrices.
    """
    trans_a, trans_b = forward.op.get_bool("trans_a"), forward.op.get_bool("trans_b")
    a, b = forward.input(0), forward.input(1)
    da, db = forward.name(0), forward.name(1)
    (first, second), (third, fourth) = _products(forward)
    to_a: Dict[str, Any] = {"axis_a": 1} if trans_a else {"axis_b": 1}
    to_b: Dict[str, Any] = {"axis_b": 1} if trans_b else {"axis_a": 1}
    ops = [
        forward.make("MatMul", [*first, a], [da], copy=False, **second, **to_a),
        forward.make("MatMul", [*third, b], [db], copy=False, **fourth, **to_b),
    ]
    return forward.result(ops, {0: da, 1: db})


@gradient("BatchMatMul")
def batch_matmul(forward: Forward) -> Backward:
    if forward.op.get_bool("broadcast"):
        raise GradientError(forward.op, "with broadcast=1 there is no gradient")
    da, db = forward.name(0), forward.name(1)
    (first, second), (third, fourth) = _products(forward)
    ops = [
        forward.make("BatchMatMul", first, [da], copy=False, **second),
        forward.make("BatchMatMul", third, [db], copy=False, **fourth),
    ]
    return forward.result(ops, {0: da, 1: db})


Product = Tuple[List[str], Dict[str, Any]]


def _products(forward: Forward) -> Tuple[Product, Product]:
    """Operands and arguments of the products that give dA and dB."""
    a, b, dc = forward.input(0), forward.input(1), forward.gradient()
    trans_a, trans_b = forward.op.get_bool("trans_a"), forward.op.get_bool("trans_b")
    if trans_a:
        to_a = ([b, dc], {"trans_a": 1, "trans_b": 1} if trans_b else {"trans_b": 1})
    else:
        to_a = ([dc, b], {} if trans_b else {"trans_b": 1})
    if trans_b:
        return to_a, ([dc, a], {"trans_a": 1, "trans_b": 1} if trans_a else {"trans_a": 1})
    return to_a, ([a, dc], {} if trans_a else {"trans_a": 1})


@gradient("MatMul", domain="onnx")
def onnx_matmul(forward: Forward) -> Backward:
    return forward.by("MatMulGradient", [forward.gradient(), *forward.given(0, 1)], [0, 1], domain="armnet")


@gradient("Gemm", domain="onnx")
def onnx_gemm(forward: Forward) -> Backward:
    present = [index for index, name in enumerate(forward.op.input) if name]
    return forward.by("GemmGradient", [forward.gradient(), *forward.given(*present)], present, domain="armnet")
