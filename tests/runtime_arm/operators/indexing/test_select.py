"""Selections whose size depends on data: planning up to them and after them, refusals."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest

from device_tests.suite.kernels import run_kernel, specs_of
from runtime_arm.errors import OperatorError
from runtime_arm.execution.executor import Executor
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.registry.schema import DataDependent, lookup
from tests.support.exact import assert_same


@pytest.mark.parametrize(
    ("op", "inputs"),
    [
        (OperatorDef.of("NonZero", ["X"], ["Y"], domain="onnx"), [np.array([0, 3, 4])]),
        (OperatorDef.of("Compress", ["X", "c"], ["Y"], domain="onnx"), [np.array([0, 3, 4]), np.array([True, False])]),
        (OperatorDef.of("Unique", ["X"], ["Y"], domain="onnx"), [np.array([3, 3, 4])]),
        (OperatorDef.of("Unique", ["X"], ["Y"]), [np.array([3, 3, 4])]),
        (OperatorDef.of("FindDuplicateElements", ["X"], ["Y"]), [np.array([3, 3, 4])]),
        (OperatorDef.of("BooleanMask", ["X", "m"], ["Y"]), [np.array([0, 3]), np.array([True, False])]),
    ],
)
def test_unknown_content_raises_data_dependent(op: OperatorDef, inputs: List[Any]) -> None:
    with pytest.raises(DataDependent):
        lookup(op).infer(op, specs_of(inputs))


def test_what_follows_a_selection_is_planned_for_its_size() -> None:
    ops = [
        OperatorDef.of("NonZero", ["X"], ["n"], domain="onnx"),
        OperatorDef.of("Transpose", ["n"], ["t"]),
        OperatorDef.of("GatherND", ["X", "t"], ["v"], domain="onnx"),
        OperatorDef.of("Shape", ["v"], ["Y"]),
    ]
    executor = Executor(NetDef(op=tuple(ops), external_input=("X",), external_output=("v", "Y")), {})
    draw = np.random.default_rng(0)
    for _ in range(12):
        x = draw.integers(0, 3, (4, 5)).astype(np.float32)
        results = executor.run({"X": x}, ["v", "Y"])
        assert_same(results["v"], x[x != 0])
        assert results["Y"].tolist() == [np.count_nonzero(x)]


@pytest.mark.parametrize("content", [0, 5])
def test_nonzero_of_a_number_has_no_rows(content: int) -> None:
    op = OperatorDef.of("NonZero", ["X"], ["Y"], domain="onnx")
    assert run_kernel(op, [np.array(content)], constants=(0,))[0].shape == (0, int(content != 0))


def test_find_takes_the_last_of_equal_elements() -> None:
    index, needles = np.array([3, 5, 3, 9], np.int32), np.array([[3, 4], [9, 5]], np.int32)
    op = OperatorDef.of("Find", ["i", "n"], ["Y"], missing_value=-7)
    assert_same(run_kernel(op, [index, needles])[0], np.array([[2, -7], [3, 1]], np.int32))


def test_find_duplicate_elements() -> None:
    op = OperatorDef.of("FindDuplicateElements", ["X"], ["Y"])
    assert run_kernel(op, [np.array([4, 1, 4, 2, 1, 4])], constants=(0,))[0].tolist() == [2, 4, 5]


COMPRESS = OperatorDef.of("Compress", ["X", "c"], ["Y"], domain="onnx")


@pytest.mark.parametrize(
    ("op", "inputs", "rule"),
    [
        (COMPRESS.with_args(axis=0), [np.zeros(2), np.ones(3, bool)], "not be longer than 2"),
        (COMPRESS, [np.zeros(2), np.ones(2)], "vector of bool"),
        (OperatorDef.of("Unique", ["X"], ["Y"]), [np.zeros((2, 2), np.int32)], "must be a vector"),
        (OperatorDef.of("Unique", ["X"], ["Y"], domain="onnx", axis=2), [np.zeros((2, 2))], "axis 2 is out of range"),
        (OperatorDef.of("Find", ["X", "n"], ["Y"]), [np.zeros(2, np.int32), np.zeros(2, np.int64)], "both be int32 or"),
        (OperatorDef.of("BooleanMask", ["X", "m"], ["Y"]), [np.zeros((3, 2)), np.ones(2, bool)], "one for each row"),
    ],
)
def test_refuses(op: OperatorDef, inputs: List[Any], rule: str) -> None:
    with pytest.raises(OperatorError, match=rule):
        run_kernel(op, inputs, constants=(0, 1))
