"""onnxruntime's quantised elementwise operators against onnxruntime; every engine against the reference; refusals."""

from __future__ import annotations

from typing import Any, List, Sequence

import numpy as np
import pytest

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel, specs_of, supporting_engines
from runtime_arm.errors import ArgumentError, ShapeError
from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.blocks import BLOCK
from runtime_arm.registry.schema import lookup
from tests.support.onnx_nodes import onnxruntime_outputs

DTYPES = ["uint8", "int8"]


def eight_bits(rng: np.random.Generator, dtype: str, *shape: int) -> np.ndarray:
    limits = np.iinfo(dtype)
    return np.asarray(rng.integers(limits.min, limits.max, shape, dtype, endpoint=True))


def operator(type: str, inputs: Sequence[Any], **arguments: Any) -> OperatorDef:
    names = ["" if value is None else f"i{index}" for index, value in enumerate(inputs)]
    return OperatorDef.of(type, names, ["y"], domain="com.microsoft", **arguments)


def assert_within_a_step(actual: np.ndarray, expected: np.ndarray, share: float = 0.0) -> None:
    """At most this share of the elements differs, and none by more than one step."""
    difference = np.abs(actual.astype(int) - expected.astype(int))
    assert difference.max(initial=0) <= 1
    assert np.count_nonzero(difference) <= share * difference.size


def binary_operands(seed: int, type: str, dtype: str, a: tuple[int, ...], b: tuple[int, ...]) -> List[Any]:
    rng = np.random.default_rng(seed)
    a_scale, b_scale = rng.uniform(0.01, 0.1, 2).astype(np.float32)
    c_scale = np.float32(rng.uniform(0.5, 2) * (a_scale if type == "QLinearAdd" else a_scale * b_scale * 90))
    a_zero, b_zero, c_zero = (eight_bits(rng, dtype) for _ in range(3))
    return [eight_bits(rng, dtype, *a), a_scale, a_zero, eight_bits(rng, dtype, *b), b_scale, b_zero, c_scale, c_zero]


SHAPES = [
    ((3, 4, 5), (3, 4, 5)),
    ((3, 4, 5), ()),
    ((), (3, 4)),
    ((2, 3, 5, 7), (3, 1, 1)),
    ((4, 1), (1, 6)),
    ((1, 1000), (1000,)),
    ((2, BLOCK + 3), (2, BLOCK + 3)),
    ((2, BLOCK), (BLOCK,)),
    ((0, 3), (3,)),
]


@pytest.mark.parametrize("type", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_binary(type: str, dtype: str, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    for seed in range(5):
        operands = binary_operands(seed, type, dtype, a, b)
        op = operator(type, operands)
        assert assert_engines_match_reference(op, operands, constants=[1, 2, 4, 5, 6, 7]) == ["NUMPY"]
        # with AVX2 onnxruntime uses fused multiply-add in QLinearAdd, which changes a few ties in a million
        expected, share = onnxruntime_outputs(op, operands, [dtype])[0], 1e-4 if type == "QLinearAdd" else 0
        assert_within_a_step(run_kernel(op, operands)[0], expected, share)


def test_left_out_zero_points_are_zero() -> None:
    operands = binary_operands(0, "QLinearAdd", "int8", (50,), (50,))
    operands[2] = operands[5] = operands[7] = np.int8(0)
    expected = onnxruntime_outputs(operator("QLinearAdd", operands), operands, ["int8"])[0]
    operands[2] = operands[5] = None  # onnxruntime crashes on these
    np.testing.assert_array_equal(run_kernel(operator("QLinearAdd", operands[:7]), operands[:7])[0], expected)


@pytest.mark.parametrize("type", ["QLinearSigmoid", "QLinearLeakyRelu"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(256,), (2, 3, 5), (BLOCK + 9,), (0,)])
def test_unary(type: str, dtype: str, shape: tuple[int, ...]) -> None:
    arguments = {"alpha": 0.3} if type == "QLinearLeakyRelu" else {}
    for seed in range(5):
        rng = np.random.default_rng(seed)
        x_scale, y_scale = np.float32(rng.uniform(0.01, 0.1)), np.float32(rng.uniform(1 / 256, 1 / 100))
        operands = [eight_bits(rng, dtype, *shape), x_scale, eight_bits(rng, dtype), y_scale, eight_bits(rng, dtype)]
        op = operator(type, operands, **arguments)
        assert assert_engines_match_reference(op, operands, constants=[1, 2, 3, 4]) == ["NUMPY"]
        np.testing.assert_array_equal(run_kernel(op, operands)[0], onnxruntime_outputs(op, operands, [dtype])[0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shapes", [((4, 5),) * 3, ((4, 1), (5,), ()), ((), (3, 4), (3, 4)), ((2, 3), (2, 1), (1, 3))])
def test_where(dtype: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    rng = np.random.default_rng(1)
    x, y = (eight_bits(rng, dtype, *shape) for shape in shapes[1:])
    zeros = [np.array(z, dtype) for z in (3, 7, 5)]
    x, y = (np.maximum(values, 9).astype(dtype) for values in (x, y))  # onnxruntime takes a 0 as not selected
    condition = np.asarray(rng.integers(0, 2, shapes[0]) == 1)
    operands = [condition, x, np.float32(0.2), zeros[0], y, np.float32(0.3), zeros[1], np.float32(0.25), zeros[2]]
    op = operator("QLinearWhere", operands)
    np.testing.assert_array_equal(run_kernel(op, operands)[0], onnxruntime_outputs(op, operands, [dtype])[0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("axis", "shapes"), [(0, [(2, 3), (4, 3)]), (-1, [(2, 3), (2, 5), (2, 1)]), (1, [(2, 3, 40, 300), (2, 1, 40, 300)])]
)
def test_concat(dtype: str, axis: int, shapes: List[tuple[int, ...]]) -> None:
    rng = np.random.default_rng(2)
    operands: List[Any] = [np.float32(0.1), np.array(3, dtype)]
    for i, shape in enumerate(shapes):
        same = i == 1  # copied; the others are looked up
        operands += [
            eight_bits(rng, dtype, *shape),
            np.float32(0.1 if same else rng.uniform(0.05, 0.2)),
            np.array(3 if same else rng.integers(0, 100), dtype),
        ]
    op = operator("QLinearConcat", operands, axis=axis)
    fed = [np.asarray(operand) for operand in operands]
    constants = [i for i in range(len(fed)) if i < 2 or i % 3 != 2]
    assert assert_engines_match_reference(op, fed, constants=constants) == ["NUMPY"]
    assert supporting_engines(op, fed, constants[1:]) == []
    np.testing.assert_array_equal(run_kernel(op, fed)[0], onnxruntime_outputs(op, fed, [dtype])[0])


Q, ZERO = np.zeros((2, 3), np.uint8), np.zeros((), np.uint8)
ONE, NOUGHT = np.ones((), np.float32), np.zeros((), np.float32)


@pytest.mark.parametrize(
    ("type", "operands", "error", "message"),
    [
        ("QLinearAdd", [Q, NOUGHT, ZERO, Q, ONE, ZERO, ONE, ZERO], ArgumentError, "of A must be positive and finite"),
        (
            "QLinearAdd",
            [Q, ONE, ZERO, Q, -ONE, ZERO, ONE, ZERO],
            ArgumentError,
            "of B must be positive and finite, got -1",
        ),
        ("QLinearMul", [Q, ONE, ZERO, Q, ONE, ZERO, NOUGHT, ZERO], ArgumentError, "scale of C must be positive"),
        ("QLinearAdd", [Q, ONE, ZERO, Q.astype(np.int8), ONE, np.int8(0), ONE, ZERO], ShapeError, "must have one type"),
        ("QLinearAdd", [Q, ONE, np.int8(0), Q, ONE, ZERO, ONE, ZERO], ShapeError, "zero point of A must have"),
        ("QLinearAdd", [Q, np.ones(3, np.float32), ZERO, Q, ONE, ZERO, ONE, ZERO], ShapeError, "of A must hold one"),
        ("QLinearAdd", [Q, ONE, ZERO, Q.T, ONE, ZERO, ONE, ZERO], ShapeError, "do not broadcast"),
        ("QLinearSigmoid", [Q.astype(np.float32), ONE, ZERO, ONE, ZERO], ShapeError, "X must be uint8 or int8"),
        ("QLinearSigmoid", [Q, ONE, ZERO, ONE, np.int8(0)], ShapeError, "zero point of Y must have the blob's type"),
        ("QLinearWhere", [Q, Q, ONE, ZERO, Q, ONE, ZERO, ONE, ZERO], ShapeError, "condition must be bool"),
        ("QLinearConcat", [ONE, ZERO, Q, ONE, ZERO, Q[:1], ONE, ZERO], ShapeError, "may only differ along axis 1"),
        ("QLinearConcat", [ONE, ZERO, Q, ONE, ZERO, Q, ONE], ShapeError, "followed by a scale and a zero point"),
        ("QLinearConcat", [ONE, ZERO, Q.astype(np.int8), ONE, ZERO], ShapeError, "blob 0 must be uint8"),
    ],
)
def test_refused(type: str, operands: List[Any], error: type, message: str) -> None:
    op = operator(type, operands, **({"axis": 1} if type == "QLinearConcat" else {}))
    with pytest.raises(error, match=message):
        lookup(op).infer(op, specs_of([np.asarray(x) for x in operands], range(1, 9)))
