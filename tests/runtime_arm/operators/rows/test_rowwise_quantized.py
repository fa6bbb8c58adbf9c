"""Rows of 8, 4 and 2 bit numbers: packing against loops over bits, lookups against the plain operators, refusals."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest

from device_tests.suite.kernels import run_kernel
from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import ArgumentError, ShapeError
from runtime_arm.netdef import OperatorDef
from tests.support.exact import assert_same
from tests.support.operands import random

NAMES = {"float32": "Float", "float16": "Half"}


def run(type: str, inputs: List[Any], outputs: int = 1, **arguments: Any) -> List[Any]:
    op = OperatorDef.of(type, [f"x{i}" for i in range(len(inputs))], [f"y{i}" for i in range(outputs)], **arguments)
    return run_kernel(op, inputs, constants=range(len(inputs)))


def packed_by_hand(x: np.ndarray, bits: int) -> np.ndarray:
    """Packs each row bit by bit: the lowest bits of a byte hold the first number; then scale and bias as float16."""
    rows = []
    for row in x.astype(np.float32):
        bias = np.float16(row.min())
        scale = np.float16((row.max() - np.float32(bias)) / (2**bits - 1))
        scale = np.float16(1) if scale == 0 else scale
        codes = [
            int(np.clip(np.rint((v - np.float32(bias)) * (np.float32(1) / np.float32(scale))), 0, 2**bits - 1))
            for v in row
        ]
        per_byte = 8 // bits
        packed = [
            sum(code << (bits * place) for place, code in enumerate(codes[at : at + per_byte]))
            for at in range(0, len(codes), per_byte)
        ]
        rows.append(packed + list(np.array([scale, bias], "<f2").view(np.uint8)))
    return np.array(rows, np.uint8)


@pytest.mark.parametrize("bits", [4, 2])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_numbers_of_few_bits_share_bytes(bits: int, dtype: str) -> None:
    x = random((5, 12), dtype=dtype)
    x[2] = 0.5
    (packed,) = run(f"{NAMES[dtype]}ToFused{bits}BitRowwiseQuantized", [x])
    assert_same(packed, packed_by_hand(x, bits))
    (back,) = run(f"Fused{bits}BitRowwiseQuantizedTo{NAMES[dtype]}", [packed])
    assert back.dtype == dtype
    step = (x.max(1) - x.min(1)).astype(np.float64) / (2**bits - 1)
    assert (np.abs(back.astype(np.float64) - x) <= step[:, None] * 0.51 + 2e-3).all()


@pytest.mark.parametrize("bits", [4, 2])
def test_the_fake_form_uses_one_byte_per_number(bits: int) -> None:
    x = random((3, 8))
    (fake,) = run(f"FloatToFused{bits}BitFakeRowwiseQuantized", [x])
    assert fake.shape == (3, 16)
    (real,) = run(f"FloatToFused{bits}BitRowwiseQuantized", [x])
    assert_same(
        run("Fused8BitRowwiseQuantizedToFloat", [fake])[0], run(f"Fused{bits}BitRowwiseQuantizedToFloat", [real])[0]
    )


@pytest.mark.parametrize(
    ("prefix", "suffix", "trailer"),
    [("", "", 8), ("", "HalfScaleBias", 4), ("Half", "", 8), ("Half", "HalfScaleBias", 4)],
)
def test_eight_bits_with_either_trailer(prefix: str, suffix: str, trailer: int) -> None:
    x = random((2, 3, 5), dtype=np.float16 if prefix else np.float32)
    (packed,) = run(f"{prefix}FloatToFused8BitRowwiseQuantized{suffix}", [x])
    assert packed.shape == (2, 3, 5 + trailer)
    (back,) = run(f"Fused8BitRowwiseQuantized{suffix}To{prefix}Float", [packed])
    assert (back.shape, back.dtype) == (x.shape, x.dtype)
    step = (x.max(2) - x.min(2)).astype(np.float64)[..., None] / 255
    assert (np.abs(back.astype(np.float64) - x) <= step * 0.6 + (2e-3 if suffix or prefix else 1e-6)).all()


@pytest.mark.parametrize("bits", [8, 4, 2])
def test_lookups_are_those_of_the_real_rows(bits: int) -> None:
    (packed,) = run(f"FloatToFused{bits}BitRowwiseQuantized", [random((6, 8))])
    (rows,) = run(f"Fused{bits}BitRowwiseQuantizedToFloat", [packed])
    indices, lengths = np.array([5, 0, 0, 3, 1], np.int32), np.array([2, 0, 3], np.int32)
    weights = np.array([1, 2, -1, 0.5, 3], np.float32)
    for name, picks in (("Sum", [indices]), ("Mean", [indices]), ("WeightedSum", [weights, indices])):
        expected = np.zeros((3, 8))
        for place, segment in enumerate([0, 0, 2, 2, 2]):
            expected[segment] += rows[indices[place]] * (weights[place] if name == "WeightedSum" else 1.0)
        expected /= np.array([[2], [1], [3]]) if name == "Mean" else 1
        (result,) = run(f"SparseLengths{name}Fused{bits}BitRowwise", [packed, *picks, lengths])
        assert_close(result, expected.astype(np.float32), terms=3, magnitude=10)
    with pytest.raises(ShapeError, match="index 6"):
        run(f"SparseLengthsSumFused{bits}BitRowwise", [packed, np.array([6]), np.array([1], np.int32)])


def test_rows_are_gathered_by_indices_of_any_shape() -> None:
    (packed,) = run("FloatToFused8BitRowwiseQuantized", [random((4, 3))])
    (rows,) = run("Fused8BitRowwiseQuantizedToFloat", [packed])
    indices = np.array([[3, 0], [1, 1]], np.int32)
    assert_same(run("GatherFused8BitRowwise", [packed, indices])[0], rows[indices])
    assert run("GatherFused8BitRowwise", [packed, indices[:0]])[0].shape == (0, 2, 3)


def test_scales_may_be_in_a_separate_matrix() -> None:
    x = random((4, 2, 3))
    x[1] = -2
    codes, scales = run("FloatToRowwiseQuantized8Bits", [x], 2)
    assert scales[1].tolist() == [1, -2]
    assert not codes[1].any()
    for row, (scale, bias), original in zip(codes, scales, x):
        assert bias == original.min()
        assert (np.abs(row * scale + bias - original) <= scale * 0.5001).all()
    (rows,) = run("Rowwise8BitQuantizedToFloat", [codes, scales])
    indices, lengths = np.array([3, 1, 0], np.int64), np.array([1, 2], np.int32)
    weights = np.array([2, -1, 3], np.float32)
    total = [rows[3], rows[1] + rows[0]]
    weighted = [2 * rows[3], -rows[1] + 3 * rows[0]]
    for name, picks, expected in (
        ("Sum", [indices], total),
        ("Mean", [indices], [total[0], total[1] / 2]),
        ("WeightedSum", [weights, indices], weighted),
        ("WeightedMean", [weights, indices], [weighted[0], weighted[1] / 2]),
    ):
        (result,) = run(f"SparseLengths{name}8BitsRowwise", [codes, *picks, lengths, scales])
        assert_close(result, np.stack(expected), terms=2, magnitude=10)


def test_bytes_stand_for_numbers_between_two_bounds() -> None:
    (y,) = run("ByteWeightDequant", [np.array([0, 255, 51], np.uint8)], shape=[3, 1], min=-1.0, max=4.0)
    assert_close(y, np.array([[-1], [4], [0]], np.float32), magnitude=4)
    with pytest.raises(ArgumentError, match="does not have the 2 elements"):
        run("ByteWeightDequant", [np.zeros(2, np.uint8)], shape=[3])


@pytest.mark.parametrize(
    ("type", "inputs", "rule"),
    [
        ("FloatToFused4BitRowwiseQuantized", [random((2, 3))], "multiple of 2"),
        ("FloatToFused2BitRowwiseQuantized", [random((2, 6))], "multiple of 4"),
        ("Fused4BitRowwiseQuantizedToFloat", [np.zeros((2, 4), np.uint8)], "more than 4 columns"),
        ("HalfToFused4BitRowwiseQuantized", [random((2, 4))], "float16"),
        (
            "SparseLengthsSumFused4BitRowwise",
            [np.zeros((1, 2, 8), np.uint8), np.array([0]), np.array([1], np.int32)],
            "matrix",
        ),
        (
            "Rowwise8BitQuantizedToFloat",
            [np.zeros((2, 4), np.uint8), random((2, 3))],
            "one float32 scale and bias per row",
        ),
    ],
)
def test_refusals_say_why(type: str, inputs: List[Any], rule: str) -> None:
    with pytest.raises(ShapeError, match=rule):
        run(type, inputs)
