"""Arithmetic, comparison and logic: NumPy, engines, both ways to broadcast, refusals."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel
from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import ArgumentError, OperatorError, ShapeError
from runtime_arm.registry.schema import lookup
from tests.support.allocation import NUMPY_NBYTES, allocated_nbytes
from tests.support.exact import assert_same
from tests.support.in_place import run_in_place
from tests.support.operands import caffe2, onnx, random

NUMPY = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}


@st.composite
def broadcast_shapes(draw: Any) -> List[Any]:
    """Two shapes that broadcast: some dimensions of one are 1 or missing in the other."""
    shape = draw(st.lists(st.integers(0, 4), max_size=4))
    first, second = ([draw(st.sampled_from([n, 1])) for n in shape] for _ in range(2))
    cut = draw(st.integers(0, len(shape)))
    return draw(st.permutations([first, second[cut:]]))


@given(st.sampled_from(sorted(NUMPY)), broadcast_shapes(), st.sampled_from(["f4", "i4", "i8", "f8"]))
@settings(max_examples=150)
def test_broadcasts_as_numpy(type: str, shapes: List[Any], dtype: str) -> None:
    a, b = (random(shape, seed).round(1) * 4 + 20 for seed, shape in enumerate(shapes))
    a, b = a.astype(dtype), b.astype(dtype)
    expected = NUMPY[type](a, b)
    if type == "Div" and a.dtype.kind == "i":
        expected = np.floor_divide(a, b)
    op = caffe2(type, "A B")
    assert_close(run_kernel(op, [a, b])[0], expected)
    assert_engines_match_reference(op, [a, b])


@given(st.integers(0, 3), st.integers(1, 2), st.data())
@settings(max_examples=60)
def test_legacy_broadcast_puts_the_second_operand_at_the_axis(axis: int, length: int, data: Any) -> None:
    a = random((2, 3, 4, 5))
    axis = min(axis, 4 - length)
    shape = [data.draw(st.sampled_from([n, 1])) for n in a.shape[axis : axis + length]]
    b = random(shape, 1)
    op = caffe2("Sub", "A B", broadcast=1, axis=axis)
    assert_close(run_kernel(op, [a, b])[0], a - b.reshape(shape + [1] * (4 - axis - length)))
    assert_engines_match_reference(op, [a, b])


def test_legacy_broadcast_takes_the_axis_by_letter() -> None:
    a, b = random((2, 4, 5, 3)), random((3,), 1)
    assert_close(run_kernel(caffe2("Mul", "A B", broadcast=1, axis_str="C", order="NHWC"), [a, b])[0], a * b)
    assert_close(run_kernel(caffe2("Mul", "A B", broadcast=1), [a, np.ones((1,) * 6, np.float32)])[0], a)


@pytest.mark.parametrize(
    ("arguments", "shape", "rule"),
    [
        ({"axis": 2}, (3, 4), "does not fit into the first from axis 2 on"),
        ({"axis": -2}, (3, 4), "does not fit into the first from axis -2 on"),
        ({"axis": 0, "axis_str": "C"}, (3, 4), "excludes axis"),
        ({"axis_str": "CH"}, (3, 4), "must be one letter"),
        ({"axis_str": "Q"}, (3, 4), "must be one letter of 'NCHW'"),
        ({}, (4, 4), "shapes do not match from axis 1 on"),
        ({}, (2, 2, 3, 4), "has more dimensions"),
    ],
)
def test_refuses_what_legacy_broadcast_cannot_place(arguments: Any, shape: Any, rule: str) -> None:
    with pytest.raises(OperatorError, match=rule):
        run_kernel(caffe2("Add", "A B", broadcast=1, **arguments), [random((2, 3, 4)), random(shape)])


def test_integers_are_divided_towards_zero() -> None:
    a, b = np.array([7, -7, 7, -7, 0]), np.array([2, 2, -2, -2, 3])
    for op in (caffe2("Div", "A B"), onnx("Div", "A B")):
        assert_same(run_kernel(op, [a, b])[0], np.array([3, -3, -3, 3, 0]))
        with pytest.raises(OperatorError, match="integer division by 0"):
            run_kernel(op, [a, b - 3])


def test_remainders_have_the_requested_sign() -> None:
    a, b = np.array([5, -5, 5, -5]), np.array([3, 3, -3, -3])
    assert_same(run_kernel(onnx("Mod", "A B"), [a, b])[0], np.array([2, 1, -1, -2]))
    assert_same(run_kernel(onnx("Mod", "A B", fmod=1), [a, b])[0], np.array([2, -2, 2, -2]))
    assert_same(run_kernel(caffe2("Mod", "A", divisor=-3), [a])[0], np.array([2, -2, 2, -2]))
    assert_same(run_kernel(caffe2("Mod", "A", divisor=-3, sign_follow_divisor=1), [a])[0], np.array([-1, -2, -1, -2]))
    with pytest.raises(OperatorError, match="integer division by 0"):
        run_kernel(onnx("Mod", "A B"), [a, b * 0])
    with pytest.raises(ArgumentError, match="divisor must not be 0"):
        run_kernel(caffe2("Mod", "A"), [a])


def test_strings_are_compared() -> None:
    a, b = np.array([b"x", b"y"], object), np.array([b"x", b"z"], object)
    assert_same(run_kernel(onnx("Equal", "A B"), [a, b])[0], np.array([True, False]))


@pytest.mark.parametrize("op", [caffe2("Add", "A B"), caffe2("Sub", "A B"), caffe2("Div", "A B"), onnx("Mul", "A B")])
def test_overwrites_an_operand(op: Any) -> None:
    a, b = random((3, 50)), random((3, 50), 1)
    for index in lookup(op).inplace[0]:
        np.testing.assert_array_equal(run_in_place(op, [a, b], "NUMPY", index), run_kernel(op, [a, b], "NUMPY")[0])


@pytest.mark.parametrize("shape", [(64, 128, 128), (64, 1, 1), (128,), ()])
def test_allocates_nothing_of_the_size_of_a_blob(shape: Any) -> None:
    for type in ("Add", "Mul", "Div", "LT"):
        assert allocated_nbytes(caffe2(type, "A B"), [random((64, 128, 128)), random(shape)], "NUMPY") < NUMPY_NBYTES


@pytest.mark.parametrize(
    ("op", "a", "b", "rule"),
    [
        (caffe2("Add", "A B"), np.ones(3, "f4"), np.ones(4, "f4"), "shapes do not broadcast"),
        (caffe2("Add", "A B"), np.ones((2, 3), "f4"), np.ones((0, 3), "f4"), "shapes do not broadcast"),
        (caffe2("Add", "A B"), np.ones(3, "f4"), np.ones(3, "i4"), "inputs must be of one dtype"),
        (caffe2("Add", "A B"), np.ones(3, "u1"), np.ones(3, "u1"), "must be int32 or int64 or float32 or float64"),
        (caffe2("And", "A B"), np.ones(3, "f4"), np.ones(3, "f4"), "must be bool"),
        (
            caffe2("Add", "A B", "A"),
            np.ones(3, "f4"),
            np.ones((2, 3), "f4"),
            "the output, .2, 3., overwrites an input of another shape",
        ),
        (
            caffe2("Add", "A B", "B", broadcast=1),
            np.ones(3, "f4"),
            np.ones(3, "f4"),
            "the output may overwrite only the first input",
        ),
        (caffe2("Div", "A B", "B"), np.ones(3, "f4"), np.ones(3, "f4"), "output 'B' must not overwrite"),
        (caffe2("EQ", "A B", "A"), np.ones(3, "f4"), np.ones(3, "f4"), "output 'A' must not overwrite"),
        (onnx("BitShift", "A B", direction="UP"), np.ones(3, "u1"), np.ones(3, "u1"), "LEFT or RIGHT, got 'UP'"),
    ],
)
def test_refuses(op: Any, a: Any, b: Any, rule: str) -> None:
    with pytest.raises((ShapeError, ArgumentError), match=rule):
        run_kernel(op, [a, b])
