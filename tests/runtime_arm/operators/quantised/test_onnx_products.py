"""QLinearConv, ConvInteger, QLinearMatMul, MatMulInteger: compared with onnxruntime, engines, refusals."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import numpy as np
import pytest

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel, specs_of, supporting_engines
from runtime_arm.engines.integers.arithmetic import EXACT, choose_arithmetic
from runtime_arm.errors import ArgumentError, ShapeError
from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.schema import lookup
from tests.support.onnx_nodes import onnxruntime_outputs

WEIGHTS = range(1, 9)  # all operands but the first are constants


def eight_bits(rng: np.random.Generator, dtype: str, *shape: int) -> np.ndarray:
    limits = np.iinfo(dtype)
    return np.asarray(rng.integers(limits.min, limits.max, shape, dtype, endpoint=True))


def qlinear_conv(inputs: int = 9, **arguments: Any) -> OperatorDef:
    names = ["x", "x_scale", "x_zero", "w", "w_scale", "w_zero", "y_scale", "y_zero", "b"]
    return OperatorDef.of("QLinearConv", names[:inputs], ["y"], domain="onnx", **arguments)


def conv_operands(
    seed: int,
    x: tuple[int, ...],
    w: tuple[int, ...],
    x_dtype: str = "uint8",
    w_dtype: str = "int8",
    y_dtype: str = "uint8",
    channels: Optional[int] = None,
    bias: bool = True,
) -> List[Any]:
    """Random operands of QLinearConv whose outputs cover the range of 8 bits."""
    rng = np.random.default_rng(seed)
    terms = int(np.prod(w[1:]))
    w_scale = rng.uniform(0.5, 1.5, () if channels is None else channels).astype(np.float32)
    y_scale = np.float32(np.sqrt(terms) * 70)
    w_zero = eight_bits(rng, w_dtype, *w_scale.shape) if w_dtype == "uint8" else np.zeros(w_scale.shape, np.int8)
    operands = [
        eight_bits(rng, x_dtype, *x),
        np.float32(0.7),
        eight_bits(rng, x_dtype),
        eight_bits(rng, w_dtype, *w),
        np.asarray(w_scale),
        w_zero,
        y_scale,
        eight_bits(rng, y_dtype),
    ]
    return [*operands, rng.integers(-9999, 9999, w[0]).astype(np.int32)] if bias else operands


CONVOLUTIONS: Dict[str, Any] = {
    "pointwise": ((2, 6, 7, 5), (8, 6, 1, 1), {}),
    "3x3": ((1, 3, 9, 8), (4, 3, 3, 3), {"pads": [1, 1, 1, 1]}),
    "strided": ((2, 3, 11, 10), (4, 3, 3, 3), {"pads": [1, 0, 2, 1], "strides": [2, 3]}),
    "dilated": ((1, 2, 12, 12), (3, 2, 3, 2), {"dilations": [2, 3], "pads": [2, 1, 0, 3]}),
    "grouped": ((2, 6, 6, 6), (9, 2, 3, 3), {"group": 3, "pads": [1, 1, 1, 1]}),
    "depthwise": ((2, 5, 7, 7), (5, 1, 3, 3), {"group": 5, "pads": [1, 1, 1, 1], "strides": [2, 2]}),
    "multiplied": ((1, 3, 6, 6), (6, 1, 2, 2), {"group": 3}),
    "wide depthwise": ((2, 5, 13, 12), (5, 1, 3, 3), {"group": 5, "pads": [1, 1, 1, 1]}),
    "strided depthwise": ((1, 4, 9, 31), (4, 1, 5, 3), {"group": 4, "pads": [2, 0, 1, 2], "strides": [1, 2]}),
    "dilated depthwise": ((1, 3, 14, 14), (6, 1, 3, 3), {"group": 3, "dilations": [2, 1], "pads": [1, 1, 1, 1]}),
    "same upper": ((1, 2, 7, 8), (3, 2, 2, 4), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    "same lower": ((1, 2, 7, 8), (3, 2, 2, 4), {"auto_pad": "SAME_LOWER"}),
    "valid": ((1, 2, 7, 8), (3, 2, 2, 4), {"auto_pad": "VALID"}),
    "1-D": ((2, 3, 20), (4, 3, 5), {"pads": [2, 2], "strides": [2]}),
    "3-D": ((1, 2, 5, 6, 7), (3, 2, 2, 3, 3), {"pads": [1, 0, 1, 0, 1, 1]}),
    "many blocks": ((2, 16, 70, 60), (24, 16, 3, 3), {"pads": [1, 1, 1, 1]}),
    "more padding than image": ((1, 1, 1, 1), (2, 1, 3, 3), {"pads": [3, 3, 3, 3]}),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize(
    ("x_dtype", "w_dtype", "y_dtype"),
    [("uint8", "int8", "uint8"), ("uint8", "uint8", "uint8"), ("int8", "int8", "int8")],
)
def test_qlinear_conv(name: str, x_dtype: str, w_dtype: str, y_dtype: str) -> None:
    x, w, arguments = CONVOLUTIONS[name]
    op = qlinear_conv(**arguments)
    operands = conv_operands(1, x, w, x_dtype, w_dtype, y_dtype, channels=w[0] if w_dtype == "int8" else None)
    expected = run_kernel(op, operands)[0]
    assert expected.std() > 5
    engines = assert_engines_match_reference(op, operands, constants=WEIGHTS)
    assert engines == ["INT8_DEPTHWISE", "INT8"] if name.endswith(" depthwise") else ["INT8"]
    np.testing.assert_array_equal(expected, onnxruntime_outputs(op, operands, [y_dtype])[0])


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("zero_points", [0, 1, 2])
def test_conv_integer(name: str, zero_points: int) -> None:
    x, w, arguments = CONVOLUTIONS[name]
    operands = conv_operands(2, x, w, "uint8", "uint8")
    inputs = [operands[0], operands[3], operands[2], operands[5]][: 2 + zero_points]
    op = OperatorDef.of("ConvInteger", ["x", "w", "x_zero", "w_zero"][: len(inputs)], ["y"], domain="onnx", **arguments)
    for constants in ([1, 2, 3], [1, 3]):  # the input's zero point may be computed
        assert "INT8" in assert_engines_match_reference(op, inputs, constants=constants)
    np.testing.assert_array_equal(run_kernel(op, inputs)[0], onnxruntime_outputs(op, inputs, ["int32"])[0])


@pytest.mark.parametrize(
    ("channels", "extreme", "arithmetic"),
    [
        (16, False, (0, False)),  # sums stay below 2**24
        (600, False, (128, False)),  # they do with centred pixels
        (1500, True, (128, True)),  # they do not: slices are added in float64
    ],
)
@pytest.mark.parametrize("zero_point", [0, 128, 255])
def test_sums_beyond_float32_stay_exact(channels: int, extreme: bool, arithmetic: Any, zero_point: int) -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(0, 256, (1, channels, 4, 5)).astype(np.uint8)
    x[..., :2, :] = 255 - zero_point // 255 * 255
    w = np.full((3, channels, 1, 1), -128 if extreme else 100, np.int8)
    w[1] = 127 if extreme else 99
    w[2] = eight_bits(rng, "int8", channels, 1, 1)
    op = OperatorDef.of("ConvInteger", ["x", "w", "x_zero"], ["y"], domain="onnx")
    chosen = choose_arithmetic(w.reshape(3, -1).astype(np.int16), np.zeros(3, np.int64), np.uint8, [128])
    assert (chosen.centre, chosen.wide) == arithmetic
    inputs = [x, w, np.uint8(zero_point)]
    exact = np.einsum("mc,nchw->nmhw", w[..., 0, 0].astype(np.int64), x.astype(np.int64) - zero_point).astype(np.int32)
    np.testing.assert_array_equal(run_kernel(op, inputs)[0], exact)
    assert "INT8" in assert_engines_match_reference(op, inputs, constants=[1, 2])


def test_a_large_bias_stays_exact() -> None:
    operands = conv_operands(4, (1, 3, 6, 6), (4, 3, 3, 3))
    operands[8] = np.array([2**31 - 1, -(2**31), EXACT + 1, 3], np.int32)
    operands[6] = np.float32(2.0**24)
    assert_engines_match_reference(qlinear_conv(), operands, constants=WEIGHTS)


def test_int8_needs_constants() -> None:
    operands = conv_operands(5, (1, 3, 6, 6), (4, 3, 3, 3))
    assert supporting_engines(qlinear_conv(), operands, WEIGHTS) == ["INT8"]
    for index in (1, 2, 3, 4, 7, 8):
        assert supporting_engines(qlinear_conv(), operands, [i for i in WEIGHTS if i != index]) == []


def test_empty_batch() -> None:
    operands = conv_operands(6, (0, 3, 6, 6), (4, 3, 3, 3))
    assert_engines_match_reference(qlinear_conv(), operands, constants=WEIGHTS)


GOOD = conv_operands(7, (1, 4, 6, 6), (6, 4, 3, 3), channels=6)


def changed(index: int, value: Any) -> List[Any]:
    return [np.asarray(value) if i == index else operand for i, operand in enumerate(GOOD)]


@pytest.mark.parametrize(
    ("operands", "error", "message"),
    [
        (changed(1, np.float32(0)), ArgumentError, "scale of X must be positive and finite, got 0"),
        (changed(4, np.float32([1, 1, 1, -1, 1, 1])), ArgumentError, "scale of W must be positive and finite, got -1"),
        (changed(6, np.float32(np.inf)), ArgumentError, "scale of Y must be positive and finite, got inf"),
        (changed(1, np.float64(1)), ShapeError, "scale of X must be float32"),
        (changed(1, np.ones(4, np.float32)), ShapeError, "scale of X must hold one element"),
        (changed(2, np.int8(0)), ShapeError, "zero point of X must have the blob's type, uint8"),
        (changed(4, np.ones(5, np.float32)), ShapeError, "scale of W must hold one element, or 6, one a filter"),
        (changed(5, np.zeros(4, np.int8)), ShapeError, "zero point of W must hold one element, or 6"),
        (changed(5, np.uint8(0)), ShapeError, "zero point of W must have the blob's type, int8"),
        (changed(7, np.int32(0)), ShapeError, "zero point of Y must be uint8 or int8"),
        (changed(8, np.zeros(5, np.int32)), ShapeError, "bias must be int32, one value per filter"),
        (changed(8, np.zeros(6, np.float32)), ShapeError, "bias must be int32"),
        (changed(0, np.zeros((1, 4, 6, 6), np.float32)), ShapeError, "X must be uint8 or int8"),
        (changed(3, np.zeros((6, 3, 3, 3), np.int8)), ShapeError, "channels"),
    ],
)
def test_refused(operands: List[Any], error: type, message: str) -> None:
    op = qlinear_conv()
    with pytest.raises(error, match=message):
        lookup(op).infer(op, specs_of(operands, WEIGHTS))


# Products of matrices


def matmul_integer(inputs: int = 4) -> OperatorDef:
    return OperatorDef.of("MatMulInteger", ["a", "b", "a_zero", "b_zero"][:inputs], ["y"], domain="onnx")


def qlinear_matmul() -> OperatorDef:
    names = ["a", "a_scale", "a_zero", "b", "b_scale", "b_zero", "y_scale", "y_zero"]
    return OperatorDef.of("QLinearMatMul", names, ["y"], domain="onnx")


MATRICES = [
    ((5, 7), (7, 3)),
    ((2, 5, 7), (7, 3)),
    ((2, 5, 7), (2, 7, 3)),
    ((3, 50, 20, 30), (3, 50, 30, 20)),
    ((3, 2, 300), (3, 300, 4)),
    ((3, 1, 5, 7), (2, 7, 3)),
    ((7,), (7, 3)),
    ((2, 5, 7), (7,)),
    ((1, 1), (1, 1)),
    ((700, 600), (600, 33)),
    ((7,), (2, 7, 3)),
    ((3, 0), (0, 2)),
]


@pytest.mark.parametrize(("a", "b"), MATRICES)
@pytest.mark.parametrize(("a_dtype", "b_dtype"), [("uint8", "int8"), ("uint8", "uint8"), ("int8", "int8")])
def test_matmul_integer(a: tuple[int, ...], b: tuple[int, ...], a_dtype: str, b_dtype: str) -> None:
    rng = np.random.default_rng(8)
    inputs = [eight_bits(rng, a_dtype, *a), eight_bits(rng, b_dtype, *b)]
    inputs += [eight_bits(rng, a_dtype), eight_bits(rng, b_dtype)]
    for count in (2, 3, 4):
        expected = np.matmul(*(m.astype(np.int64) - zero for m, zero in zip(inputs, [*inputs[2:count], 0, 0][:2])))
        np.testing.assert_array_equal(run_kernel(matmul_integer(count), inputs[:count])[0], expected)
        for constants in ([], [1], [1, 3], [2], [3], [1, 2, 3]):
            engines = assert_engines_match_reference(matmul_integer(count), inputs[:count], constants=constants)
            assert engines == ["INT8"]


@pytest.mark.parametrize(("a", "b"), MATRICES[:-2])
@pytest.mark.parametrize(("a_dtype", "b_dtype"), [("uint8", "int8"), ("uint8", "uint8"), ("int8", "int8")])
@pytest.mark.parametrize("per_column", [False, True])
def test_qlinear_matmul(a: tuple[int, ...], b: tuple[int, ...], a_dtype: str, b_dtype: str, per_column: bool) -> None:
    per_column = per_column and len(b) == 2 and len(a) > 1
    rng = np.random.default_rng(9)
    counts = b[1:] if per_column else ()
    b_scale, b_zero = np.asarray(rng.uniform(0.5, 1, counts), np.float32), eight_bits(rng, b_dtype, *counts)
    operands = [
        eight_bits(rng, a_dtype, *a),
        np.float32(0.3),
        eight_bits(rng, a_dtype),
        eight_bits(rng, b_dtype, *b),
        b_scale,
        b_zero,
        np.float32(np.sqrt(a[-1]) * 40),
        eight_bits(rng, a_dtype),
    ]
    for constants in (WEIGHTS, [1, 2, 4, 5, 6, 7]):
        assert assert_engines_match_reference(qlinear_matmul(), operands, constants=constants) == ["INT8"]
    expected = onnxruntime_outputs(qlinear_matmul(), operands, [a_dtype])[0]
    np.testing.assert_array_equal(run_kernel(qlinear_matmul(), operands)[0], expected)


def test_parameters_of_rows_and_columns() -> None:
    rng = np.random.default_rng(10)
    a, b = eight_bits(rng, "int8", 2, 3, 4), eight_bits(rng, "int8", 2, 4, 5)
    a_zero, b_zero = eight_bits(rng, "int8", 2, 3, 1), eight_bits(rng, "int8", 2, 1, 5)
    exact = np.matmul(a.astype(int) - a_zero, b.astype(int) - b_zero)
    np.testing.assert_array_equal(run_kernel(matmul_integer(), [a, b, a_zero, b_zero])[0], exact)
    vectors = [a[0], b[0], a_zero[0, :, 0], b_zero[0, 0]]
    np.testing.assert_array_equal(run_kernel(matmul_integer(), vectors)[0], exact[0])
    assert supporting_engines(matmul_integer(), [a, b, a_zero, b_zero], [1, 2, 3]) == []
    one = np.ones((), np.float32)
    operands = [a[0], np.float32([1, 2, 4]), a_zero[0, :, 0], b[0], one, b_zero[0, 0], one, np.int8(0)]
    y = run_kernel(qlinear_matmul(), operands)[0]
    np.testing.assert_array_equal(y, np.clip(exact[0] * [[1], [2], [4]], -128, 127))


@pytest.mark.parametrize(("terms", "zero_point"), [(300, 0), (3000, 0), (3000, 255), (30000, 7)])
def test_long_products_stay_exact(terms: int, zero_point: int) -> None:
    a = np.full((3, terms), 255, np.uint8)
    b = np.full((terms, 2), 127, np.int8)
    a[1], b[:, 1] = 254, -128
    a[2, ::2] = 1
    inputs = [a, b, np.uint8(zero_point)]
    for constants in ([], [1], [1, 2]):
        assert assert_engines_match_reference(matmul_integer(3), inputs, constants=constants) == ["INT8"]


def test_sums_beyond_32_bits_are_left_to_the_reference() -> None:
    a, b = np.full((1, 40000), 255, np.uint8), np.full((40000, 1), 255, np.uint8)
    assert supporting_engines(matmul_integer(2), [a, b]) == []
    assert run_kernel(matmul_integer(2), [a, b])[0].item() == 40000 * 255 * 255 - 2**32


EIGHT, ONE, NOUGHT, ZERO = np.zeros((4, 5), np.uint8), np.float32(1), np.float32(0), np.uint8(0)


@pytest.mark.parametrize(
    ("operands", "error", "message"),
    [
        ([EIGHT, ONE, ZERO, EIGHT.T, NOUGHT, ZERO, ONE, ZERO], ArgumentError, "scale of B must be positive"),
        ([EIGHT, ONE, np.int8(0), EIGHT.T, ONE, ZERO, ONE, ZERO], ShapeError, "zero point of A must have its type"),
        ([EIGHT, np.ones(5, np.float32), ZERO, EIGHT.T, ONE, ZERO, ONE, ZERO], ShapeError, "scale of A must hold"),
        ([EIGHT, ONE, ZERO, EIGHT, ONE, ZERO, ONE, ZERO], ShapeError, "last dimension of A"),
        ([EIGHT, ONE, ZERO, EIGHT.T, ONE, ZERO, np.ones(4, np.float32), ZERO], ShapeError, "Y must hold one"),
        ([EIGHT, np.float64(1), ZERO, EIGHT.T, ONE, ZERO, ONE, ZERO], ShapeError, "float32 or float16"),
    ],
)
def test_product_refused(operands: List[Any], error: type, message: str) -> None:
    op = qlinear_matmul()
    with pytest.raises(error, match=message):
        lookup(op).infer(op, specs_of([np.asarray(x) for x in operands], WEIGHTS))
