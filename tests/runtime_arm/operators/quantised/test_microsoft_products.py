"""onnxruntime's quantised matrix products against onnxruntime; every engine against the reference; refusals."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import numpy as np
import pytest

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel, specs_of, supporting_engines
from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import ArgumentError, ShapeError
from runtime_arm.registry.schema import lookup
from tests.runtime_arm.operators.quantised.test_microsoft_elementwise import eight_bits, operator
from tests.support.onnx_nodes import onnxruntime_outputs

TYPES = [("uint8", "int8"), ("uint8", "uint8"), ("int8", "int8")]


def gemm_operands(
    seed: int,
    types: tuple[str, str],
    shape: tuple[int, int, int],
    per_column: bool,
    c: Optional[tuple[int, ...]],
    real: bool,
) -> List[Any]:
    rng = np.random.default_rng(seed)
    rows, terms, columns = shape
    counts = (columns,) if per_column else ()
    operands: List[Any] = [
        eight_bits(rng, types[0], rows, terms),
        np.float32(0.3),
        eight_bits(rng, types[0]),
        eight_bits(rng, types[1], terms, columns),
        np.asarray(rng.uniform(0.5, 1, counts), np.float32),
        eight_bits(rng, types[1], *counts),
    ]
    if c is not None or not real:
        operands.append(None if c is None else np.asarray(rng.integers(-9999, 9999, c), np.int32))
    if not real:
        operands += [np.float32(np.sqrt(terms) * 40), eight_bits(rng, types[0])]
    return operands


@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize("shape", [(3, 5, 4), (1, 64, 10), (500, 900, 7)])
@pytest.mark.parametrize(("per_column", "c"), [(False, None), (True, (1, 1)), (True, "columns"), (False, "all")])
@pytest.mark.parametrize("real", [False, True])
def test_qgemm(types: tuple[str, str], shape: tuple[int, int, int], per_column: bool, c: Any, real: bool) -> None:
    c_shape = {"columns": (shape[2],), "all": (shape[0], shape[2])}.get(c, c) if isinstance(c, str) else c
    operands = gemm_operands(1, types, shape, per_column, c_shape, real)
    op = operator("QGemm", operands, alpha=0.7)
    constants = [i for i in range(1, len(operands)) if operands[i] is not None]
    engines = assert_engines_match_reference(op, operands, constants=constants)
    assert engines == ([] if c == "all" and shape[0] > 1 else ["INT8"])
    y = run_kernel(op, operands)[0]
    assert_close(y, onnxruntime_outputs(op, operands, [y.dtype])[0])


@pytest.mark.parametrize(("trans_a", "trans_b"), [(0, 1), (1, 0), (1, 1)])
def test_qgemm_of_transposed_factors(trans_a: int, trans_b: int) -> None:
    operands = gemm_operands(2, TYPES[0], (3, 5, 4), True, (4,), False)
    plain = run_kernel(operator("QGemm", operands), operands)[0]
    for index, flag in ((0, trans_a), (3, trans_b)):
        operands[index] = np.ascontiguousarray(operands[index].T) if flag else operands[index]
    op = operator("QGemm", operands, transA=trans_a, transB=trans_b)
    np.testing.assert_array_equal(run_kernel(op, operands)[0], plain)
    for constants in (range(1, 9), [1, 4, 7, 8]):
        assert assert_engines_match_reference(op, operands, constants=constants) == ["INT8"]


SHAPES = [((4, 6), (6, 5)), ((2, 4, 6), (6, 5)), ((2, 4, 6), (2, 6, 5)), ((300, 700), (700, 33)), ((6,), (6, 5))]


@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize(("a", "b"), SHAPES)
@pytest.mark.parametrize("extras", [0, 1, 2, 3])
def test_matmul_integer_to_float(types: tuple[str, str], a: tuple[int, ...], b: tuple[int, ...], extras: int) -> None:
    rng = np.random.default_rng(3)
    counts = b[1:] if len(b) == 2 else ()
    b_scale, b_zero = np.asarray(rng.uniform(0.01, 0.02, counts), np.float32), eight_bits(rng, types[1], *counts)
    operands: List[Any] = [
        eight_bits(rng, types[0], *a),
        eight_bits(rng, types[1], *b),
        np.float32(0.02),
        b_scale,
        eight_bits(rng, types[0]),
        b_zero,
        rng.standard_normal(b[-1]).astype(np.float32),
    ]
    operands = operands[: 4 + extras]
    op = operator("MatMulIntegerToFloat", operands)
    y = run_kernel(op, operands)[0]
    magnitude = float(np.abs(y).max()) + 4
    for constants in ([1, 2, 3, 4, 5, 6], [1, 3, 5, 6], []):
        assert assert_engines_match_reference(op, operands, constants=constants, magnitude=magnitude) == ["INT8"]
    assert_close(y, onnxruntime_outputs(op, operands, ["float32"])[0], magnitude=magnitude)


@pytest.mark.parametrize("b_dtype", ["uint8", "int8"])
@pytest.mark.parametrize(("a", "b"), SHAPES)
@pytest.mark.parametrize("extras", [0, 1, 2])
def test_dynamic_quantize_matmul(b_dtype: str, a: tuple[int, ...], b: tuple[int, ...], extras: int) -> None:
    rng = np.random.default_rng(4)
    counts = b[1:] if len(b) == 2 else ()
    b_scale, b_zero = np.asarray(rng.uniform(0.01, 0.02, counts), np.float32), eight_bits(rng, b_dtype, *counts)
    operands: List[Any] = [
        rng.standard_normal(a).astype(np.float32),
        eight_bits(rng, b_dtype, *b),
        b_scale,
        b_zero,
        rng.standard_normal(b[-1]).astype(np.float32),
    ][: 3 + extras]
    op = operator("DynamicQuantizeMatMul", operands)
    y = run_kernel(op, operands)[0]
    magnitude = float(np.abs(y).max()) + 4
    for constants in ([1, 2, 3, 4], [1], []):
        assert assert_engines_match_reference(op, operands, constants=constants, magnitude=magnitude) == ["INT8"]
    assert_close(y, onnxruntime_outputs(op, operands, ["float32"])[0], magnitude=magnitude)


def test_dynamic_quantize_matmul_of_zeros() -> None:
    operands = [np.zeros((2, 3), np.float32), np.ones((3, 2), np.int8), np.ones((), np.float32)]
    op = operator("DynamicQuantizeMatMul", operands)
    assert run_kernel(op, operands)[0].tolist() == [[0, 0], [0, 0]]
    assert_engines_match_reference(op, operands, constants=[1, 2])


def test_dynamic_quantize_matmul_of_no_rows() -> None:
    operands = [np.zeros((0, 3), np.float32), np.ones((3, 2), np.int8), np.ones((), np.float32)]
    op = operator("DynamicQuantizeMatMul", operands)
    assert run_kernel(op, operands)[0].shape == onnxruntime_outputs(op, operands, ["float32"])[0].shape == (0, 2)
    assert_engines_match_reference(op, operands, constants=[1, 2])


def test_scales_of_rows_are_refused() -> None:
    operands = [np.zeros((2, 3), np.uint8), np.zeros((3, 2), np.int8), np.ones(2, np.float32), np.ones((), np.float32)]
    op = operator("MatMulIntegerToFloat", operands)
    with pytest.raises(ShapeError, match="scale of A must hold one element"):
        lookup(op).infer(op, specs_of(operands))


def test_a_computed_output_scale_is_left_to_the_reference() -> None:
    operands = gemm_operands(5, TYPES[0], (3, 5, 4), False, None, False)
    assert supporting_engines(operator("QGemm", operands), operands, [1, 4, 8]) == []


M, ZERO = np.zeros((2, 3), np.uint8), np.zeros((), np.uint8)
ONE, NOUGHT = np.ones((), np.float32), np.zeros((), np.float32)


@pytest.mark.parametrize(
    ("type", "operands", "arguments", "error", "message"),
    [
        ("QGemm", [M, NOUGHT, ZERO, M.T, ONE, ZERO], {}, ArgumentError, "scale of A must be positive"),
        ("QGemm", [M, ONE, ZERO, M, ONE, ZERO], {}, ShapeError, "last dimension of A"),
        (
            "QGemm",
            [M, ONE, ZERO, M.T, np.ones(3, np.float32), ZERO],
            {},
            ShapeError,
            "of B must hold one element, or 2",
        ),
        ("QGemm", [M, ONE, np.int8(0), M.T, ONE, ZERO], {}, ShapeError, "zero point of A must have"),
        (
            "QGemm",
            [M, ONE, ZERO, M.T, ONE, ZERO, np.zeros(3, np.int32)],
            {},
            ShapeError,
            "C must be int32 and broadcast",
        ),
        ("QGemm", [M, ONE, ZERO, M.T, ONE, ZERO, None, ONE], {}, ShapeError, "Y's scale needs Y's zero point"),
        ("QGemm", [M[None], ONE, ZERO, M.T, ONE, ZERO], {}, ShapeError, "must be matrices"),
        ("DynamicQuantizeMatMul", [M, M.T, ONE], {}, ShapeError, "A must be float32"),
        ("DynamicQuantizeMatMul", [M.astype(np.float32), M.T, -ONE], {}, ArgumentError, "scale of B must be positive"),
        ("MatMulIntegerToFloat", [M, M.T, ONE, ONE, ZERO, ZERO, np.zeros(3)], {}, ShapeError, "bias must be float32"),
    ],
)
def test_refused(type: str, operands: List[Any], arguments: Dict[str, Any], error: type, message: str) -> None:
    op = operator(type, operands, **arguments)
    with pytest.raises(error, match=message):
        lookup(op).infer(op, specs_of([None if x is None else np.asarray(x) for x in operands], range(1, 9)))
