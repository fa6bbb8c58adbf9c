"""Casts: numbers that do not fit, engines, strings, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel
from runtime_arm.errors import ArgumentError, OperatorError, ShapeError
from runtime_arm.netdef.dtypes import number_of
from runtime_arm.registry.blocks import BLOCK
from tests.support.allocation import NUMPY_NBYTES, allocated_nbytes
from tests.support.exact import assert_same
from tests.support.operands import caffe2, onnx, random, tflite

INTEGERS = ["uint8", "int8", "uint16", "int16", "int32", "int64", "uint32", "uint64"]
NUMBERS = [*INTEGERS, "bool", "float16", "float32", "float64"]


@pytest.mark.parametrize(
    ("number", "name", "expected"),
    [
        (300.5, "uint8", 44),
        (-1.5, "uint8", 255),
        (np.nan, "int32", -(2**31)),
        (3e9, "int32", 2**31 - 1),
        (-3e9, "int32", -(2**31)),
        (3e9, "uint32", 3000000000),
        (1e30, "int64", 2**63 - 1),
        (1e30, "uint64", 2**64 - 1),
        (-1.0, "uint64", 0),
        (np.inf, "int16", -1),
    ],
)
def test_numbers_that_do_not_fit_are_the_same_on_every_cpu(number: float, name: str, expected: int) -> None:
    op = onnx("Cast", "X", to=number_of(np.dtype(name)))
    for engine in ("REFERENCE", "NUMPY"):
        assert_same(run_kernel(op, [np.array([number])], engine)[0], np.array([expected], name))


@pytest.mark.parametrize("target", NUMBERS)
@pytest.mark.parametrize("source", NUMBERS)
def test_engines_agree(source: str, target: str) -> None:
    x = (random((3, BLOCK // 2)) * 100).astype(source)
    if source.startswith("float"):
        with np.errstate(over="ignore"):
            x[1, :10] = np.array([np.nan, np.inf, -np.inf, 3e9, -3e9, 300.5, -1.5, 1e30, 2.0**31, 2.0**63], source)
    assert assert_engines_match_reference(onnx("Cast", "X", to=number_of(np.dtype(target))), [x]) == ["NUMPY"]
    assert assert_engines_match_reference(onnx("CastLike", "X T"), [x, np.ones(1, target)]) == ["NUMPY"]


@pytest.mark.parametrize("largest", [1.0, 1e30])
def test_allocates_nothing_while_it_runs(largest: float) -> None:
    x = random((8 * BLOCK,)) * np.float32(largest)
    for name in ("uint8", "int32", "uint32", "int64", "uint64", "float64"):
        assert allocated_nbytes(onnx("Cast", "X", to=number_of(np.dtype(name))), [x], "NUMPY") < NUMPY_NBYTES
    for name in ("int8", "int32", "int64"):
        assert allocated_nbytes(tflite("Cast", "X", to=number_of(np.dtype(name))), [x], "NUMPY") < NUMPY_NBYTES


@pytest.mark.parametrize("engine", ["REFERENCE", "NUMPY"])
@pytest.mark.parametrize(("clip", "largest"), [(0, np.inf), (1, 65504)])
def test_floats_beyond_float16_are_infinite_or_clipped(clip: int, largest: float, engine: str) -> None:
    x = np.array([1.5, 65504, 65519, 65520, -1e6, np.inf, -np.inf, np.nan, 1 + 2.0**-11, 2.0**-24], np.float32)
    y = np.array([1.5, 65504, 65504, largest, -largest, largest, -largest, np.nan, 1, 2.0**-24], np.float16)
    assert_same(run_kernel(caffe2("FloatToHalf", "X", clip=clip), [x], engine)[0], y)


def test_clipped_halves_are_made_without_a_copy() -> None:
    op = caffe2("FloatToHalf", "X", clip=1)
    assert allocated_nbytes(op, [random((1 << 21,))], "NUMPY") < NUMPY_NBYTES


def test_halves_become_floats_exactly() -> None:
    x = np.array([1.5, np.inf, -(2.0**-24), 65504], np.float16)
    for engine in ("REFERENCE", "NUMPY"):
        assert_same(run_kernel(caffe2("HalfToFloat", "X"), [x], engine)[0], x.astype(np.float32))


def test_strings_are_read_and_written() -> None:
    texts = np.array([b"1.5", b"-INF", b"1e2"], object)
    assert_same(run_kernel(onnx("Cast", "X", to=1), [texts])[0], np.array([1.5, -np.inf, 100], np.float32))
    numbers = np.array([0.1, 2], np.float32)
    assert_same(run_kernel(onnx("Cast", "X", to=4), [numbers])[0], np.array([b"0.1", b"2.0"], object))
    assert_same(run_kernel(caffe2("Cast", "X", to="string"), [np.array([0.1])])[0], np.array([b"0.100000"], object))
    with pytest.raises(OperatorError, match=r"could not convert string to float: b?'one'"):
        run_kernel(onnx("Cast", "X", to=1), [np.array([b"one"], object)])


@pytest.mark.parametrize(
    ("op", "dtype", "rule"),
    [
        (caffe2("Cast", "X", to="FLOAT64"), "f4", "to must be one of FLOAT, INT32"),
        (caffe2("Cast", "X", to=12), "f4", "to must be"),
        (caffe2("Cast", "X", to=0), "f4", "to must be"),
        (caffe2("Cast", "X", to=1.0), "f4", "to"),
        (caffe2("Cast", "X"), "f2", "input 'X'"),
        (onnx("Cast", "X"), "f4", "'to' is required"),
        (onnx("Cast", "X", to=77), "f4", "not a data type: 77"),
        (onnx("BitCast", "X", to=10), "f4", "as many bits as float32, got int64"),
    ],
)
def test_refuses(op: Any, dtype: str, rule: str) -> None:
    with pytest.raises((ArgumentError, ShapeError), match=rule):
        run_kernel(op, [np.ones(2, dtype)])
