"""Operators that multiply matrices say how many multiply-adds they take, and the counts are right."""

from __future__ import annotations

import dis
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any, Dict, Iterator, List, Set, Tuple

import numpy as np
import pytest

from runtime_arm.netdef import OperatorDef
from runtime_arm.planning.cost import cost_of
from runtime_arm.registry.schema import lookup, registered
from runtime_arm.registry.specs import Quantization, TensorSpec

PRODUCTS = {"dot", "einsum", "inner", "matmul", "tensordot", "vdot"}


def multiplies_matrices(function: Any, seen: Set[Any]) -> bool:
    """Whether a function of the runtime, or one that it names or holds, says ``@`` or calls one of NumPy's products."""
    if isinstance(function, (list, tuple, set, dict)):
        parts = function.values() if isinstance(function, dict) else function
        return any(multiplies_matrices(part, seen) for part in list(parts))
    if isinstance(function, partial):
        return multiplies_matrices([function.func, *function.args, *function.keywords.values()], seen)
    if isinstance(function, (MethodType, classmethod, staticmethod)):
        return multiplies_matrices(function.__func__, seen)
    if isinstance(function, property):
        return multiplies_matrices(function.fget, seen)
    if not str(getattr(function, "__module__", "")).startswith("runtime_arm.operators.") or id(function) in seen:
        return False
    seen.add(id(function))
    if isinstance(function, type):
        return multiplies_matrices(list(vars(function).values()), seen)
    if not isinstance(function, FunctionType):
        return False
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    named = {**function.__globals__, **dict(zip(function.__code__.co_freevars, cells))}
    return any(
        any(map(is_product, dis.get_instructions(code)))
        or multiplies_matrices([named.get(name) for name in (*code.co_names, *code.co_freevars)], seen)
        for code in codes(function.__code__)
    )


def codes(code: CodeType) -> Iterator[CodeType]:
    """The code of a function and of those inside of it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


def is_product(instruction: dis.Instruction) -> bool:
    if instruction.opname in ("LOAD_ATTR", "LOAD_METHOD"):
        return instruction.argval in PRODUCTS
    is_operator = instruction.opname == "BINARY_OP" and instruction.argrepr in ("@", "@=")  # Python 3.11
    return is_operator or instruction.opname in ("BINARY_MATRIX_MULTIPLY", "INPLACE_MATRIX_MULTIPLY")


def test_operators_that_multiply_matrices_state_their_multiply_adds() -> None:
    """The rule: a reference kernel in which a product of matrices is found. Without a count the planner would take the
    operator for a copy, and ``armnet inspect`` would show no work at all."""
    silent = [
        f"{schema.domain}:{schema.type}"
        for schema in registered()
        if schema.multiply_adds is None and multiplies_matrices(schema._reference, set())
    ]
    assert silent == [], "declare @operator(..., multiply_adds=...), see operators/common/multiply_adds.py"


def test_the_rule_finds_products_wherever_a_kernel_keeps_them() -> None:
    found = {(schema.domain, schema.type) for schema in registered() if multiplies_matrices(schema._reference, set())}
    assert {("", "Conv"), ("", "FC"), ("onnx", "LSTM"), ("tflite", "RNN"), ("com.microsoft", "QGemm")} <= found
    assert ("", "Relu") not in found
    assert ("onnx", "Transpose") not in found


Shapes = List[Any]
FLOAT, BYTE = np.float32, np.uint8
CASES: List[Tuple[str, str, Dict[str, Any], Shapes, int]] = [
    ("", "Conv", {"kernel": 3, "group": 2}, [(2, 4, 7, 6), (8, 2, 3, 3)], 2 * 8 * 5 * 4 * 2 * 9),
    ("", "Conv", {"kernel": 3, "order": "NHWC"}, [(1, 5, 5, 4), (8, 3, 3, 4)], 8 * 9 * 36),
    ("onnx", "Conv", {}, [(1, 4, 5, 5), (8, 4, 1, 1)], 8 * 25 * 4),
    ("armnet", "FusedConv", {"kernel": 1}, [(1, 4, 5, 5), (8, 4, 1, 1), None, (1, 8, 5, 5)], 8 * 25 * 4),
    ("", "ConvTranspose", {"kernel": 3, "stride": 2}, [(1, 4, 5, 5), (4, 8, 3, 3)], 4 * 25 * 8 * 9),
    ("", "LC", {"kernel": 2}, [(3, 4, 5, 5), (4, 4, 6, 4, 2, 2)], 3 * 6 * 16 * 16),
    ("", "FC", {}, [(3, 4, 5), (7, 20), (7,)], 3 * 20 * 7),
    ("", "FCTransposed", {"axis": 2}, [(3, 4, 5), (5, 7), (7,)], 12 * 5 * 7),
    ("", "MatMul", {"trans_a": 1}, [(5, 3), (5, 7)], 3 * 5 * 7),
    ("", "MatMul", {"axis_a": 2}, [(2, 3, 5), (5, 7)], 6 * 5 * 7),
    ("", "BatchMatMul", {"trans_a": 1}, [(2, 5, 3), (2, 5, 7)], 2 * 3 * 5 * 7),
    ("onnx", "MatMul", {}, [(6, 2, 3, 5), (5, 7)], 12 * 3 * 5 * 7),
    ("onnx", "Gemm", {"transA": 1, "transB": 1}, [(5, 3), (7, 5)], 3 * 5 * 7),
    ("onnx", "Einsum", {"equation": "bij,bjk->bik"}, [(2, 3, 5), (2, 5, 7)], 2 * 3 * 5 * 7),
    ("onnx", "Einsum", {"equation": "ij->j"}, [(3, 5)], 0),
    ("onnx", "LSTM", {"hidden_size": 6}, [(4, 2, 5), (1, 24, 5), (1, 24, 6)], 4 * 2 * 24 * 11),
    ("onnx", "GRU", {"direction": "bidirectional"}, [(4, 2, 5), (2, 18, 5), (2, 18, 6)], 4 * 2 * 2 * 18 * 11),
    ("caffe", "RNN", {}, [(4, 2, 5), (4, 2), (6, 5), (6,), (6, 6), (6, 6), (6,)], 4 * 2 * (6 * 5 + 2 * 36)),
    ("", "InferenceLSTM", {}, [(4, 2, 5), (1, 2, 6), (1, 2, 6), (24, 5), (24, 6), (24,), (24,)], 4 * 2 * 24 * 11),
    ("tflite", "RNN", {}, [(4, 2, 5), (6, 5), (6, 6), (6,), (2, 6)], 4 * 2 * 6 * 11),
    ("tflite", "SVDF", {"rank": 2}, [(3, 8), (8, 5), (3, 40)], 3 * 8 * 5),
    ("", "ReduceFrontWeightedSum", {}, [(4, 5, 6), (4,)], 4 * 5 * 6),
    ("caffe", "Interp", {"zoom_factor": 2}, [(1, 2, 3, 3)], 2 * 25 * 4),
    ("", "Relu", {}, [(4, 5)], 0),
]


@pytest.mark.parametrize(("domain", "type", "arguments", "shapes", "count"), CASES)
def test_the_count_is_that_of_the_plain_algorithm(
    domain: str, type: str, arguments: Dict[str, Any], shapes: Shapes, count: int
) -> None:
    specs = [None if shape is None else TensorSpec(shape, FLOAT) for shape in shapes]
    names = ["" if spec is None else f"x{i}" for i, spec in enumerate(specs)]
    schema = lookup(OperatorDef.of(type, names, ["y"], domain=domain))
    op = OperatorDef.of(type, names, [f"y{i}" for i in range(schema.outputs[0] or 1)], domain=domain, **arguments)
    assert cost_of(op, specs, schema.infer(op, specs)).multiply_adds == count


def test_quantised_operators_count_the_weights_where_they_stand() -> None:
    x, w = TensorSpec((1, 4, 5, 5), BYTE), TensorSpec((8, 4, 3, 3), BYTE)
    scale, zero = TensorSpec.known(np.float32(0.5)), TensorSpec.known(np.uint8(0))
    op = OperatorDef.of("QLinearConv", [f"x{i}" for i in range(8)], ["y"], domain="onnx")
    specs = [x, scale, zero, w, scale, zero, scale, zero]
    assert cost_of(op, specs, lookup(op).infer(op, specs)).multiply_adds == 8 * 9 * 36
    matrix = TensorSpec((3, 20), BYTE, quantization=Quantization(0.5, 0))
    weights = TensorSpec((7, 20), BYTE, quantization=Quantization(0.5, 0))
    op = OperatorDef.of("Int8FC", ["x", "w", "b"], ["y"], Y_scale=1.0, Y_zero_point=0)
    specs = [matrix, weights, TensorSpec((7,), np.int32)]
    assert cost_of(op, specs, lookup(op).infer(op, specs)).multiply_adds == 3 * 20 * 7
