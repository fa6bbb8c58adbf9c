"""Shape arithmetic: ranges, values known when the net is planned, refusals."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_tests.suite.kernels import run_kernel
from runtime_arm.errors import OperatorError
from runtime_arm.execution.executor import Executor
from runtime_arm.netdef import NetDef, OperatorDef
from tests.support.exact import assert_same


def test_shape_arithmetic_is_done_when_the_net_is_planned() -> None:
    ops = [
        OperatorDef.of("Shape", ["X"], ["s"], axes=[1, 0]),
        OperatorDef.of("Size", ["X"], ["n"]),
        OperatorDef.of("Range", ["n"], ["r"]),
        OperatorDef.of("Reshape", ["r", "s"], ["Y", "old"]),
    ]
    executor = Executor(NetDef(op=tuple(ops), external_input=("X",), external_output=("Y",)), {})
    for shape in ((2, 3), (4, 1)):
        x = np.zeros(shape, np.float32)
        segment = executor.plan({"X": x}, ["Y"])
        assert segment.runs == []
        assert segment.border is None
        np.testing.assert_array_equal(executor.run({"X": x}, ["Y"])["Y"], np.arange(x.size).reshape(shape[::-1]))


@given(st.integers(-20, 20), st.integers(-20, 20), st.integers(1, 7), st.sampled_from(["i4", "i8", "f4", "f8"]))
@settings(max_examples=100)
def test_range_agrees_with_numpy(start: int, stop: int, step: int, dtype: str) -> None:
    op = OperatorDef.of("Range", ["a", "b", "c"], ["Y"])
    (y,) = run_kernel(op, [np.array([n], dtype) for n in (start, stop, step)], constants=(0, 1, 2))
    assert_same(y, np.arange(start, stop, step, dtype))


def test_a_range_with_a_negative_integer_step_leaves_out_a_partial_last_step() -> None:
    op = OperatorDef.of("Range", ["a", "b", "c"], ["Y"])
    numbers = [np.array([n], np.int32) for n in (10, 2, -3)]
    assert run_kernel(op, numbers, constants=(0, 1, 2))[0].tolist() == [10, 7]
    assert run_kernel(op, [n.astype(np.float32) for n in numbers], constants=(0, 1, 2))[0].tolist() == [10, 7, 4]


@pytest.mark.parametrize(
    ("numbers", "rule"),
    [
        ([np.zeros(2, "i4")], "must be one number"),
        ([np.zeros(1, "i2")], "inputs must be all int32"),
        ([np.zeros(1, "i4"), np.zeros(1, "f4")], "inputs must be all int32"),
        ([np.zeros(1, "i4"), np.ones(1, "i4"), np.zeros(1, "i4")], "must not be 0"),
        ([np.array([np.nan], "f4")], "not a finite range"),
        ([np.array([np.inf], "f4")], "not a finite range"),
    ],
)
def test_range_refuses(numbers: List[Any], rule: str) -> None:
    with pytest.raises(OperatorError, match=rule):
        run_kernel(OperatorDef.of("Range", ["a", "b", "c"][: len(numbers)], ["Y"]), numbers, constants=(0, 1, 2))


def test_lengths_to_shape_refuses_unequal_lengths() -> None:
    with pytest.raises(OperatorError, match="must be equal"):
        run_kernel(OperatorDef.of("LengthsToShape", ["l"], ["Y"]), [np.array([2, 3], np.int32)])


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (2, 3)])
def test_emptiness_is_known_when_the_net_is_planned(shape: Any) -> None:
    x = np.zeros(shape, np.float32)
    for type, names, expected in (("IsEmpty", ["X"], x.size == 0), ("HasElements", ["X", "X"], x.size > 0)):
        assert_same(run_kernel(OperatorDef.of(type, names, ["Y"]), [x] * len(names))[0], np.array(expected))
        executor = Executor(NetDef(op=(OperatorDef.of(type, names, ["Y"]),), external_input=("X",)), {})
        assert executor.plan({"X": x}, ["Y"]).runs == []
