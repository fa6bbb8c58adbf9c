"""ReverseSequence, Trilu and SequenceMask: worked examples, engines, refusals."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel
from runtime_arm.errors import OperatorError
from runtime_arm.netdef import OperatorDef


def test_windows_around_a_column_and_masks_over_more_than_one_dimension() -> None:
    x = np.ones((2, 2, 3), np.float32)
    op = OperatorDef.of("SequenceMask", ["X", "n"], ["Y"], mode="window", radius=1, axis=2, fill_val=0.0)
    (y,) = run_kernel(op, [x, np.array([0, 1, 2, 5], np.int32)])
    assert y.reshape(4, 3).tolist() == [[1, 1, 0], [1, 1, 1], [0, 1, 1], [0, 0, 0]]
    op = OperatorDef.of("SequenceMask", ["X"], ["Y"], mode="upper", grad=1)
    assert run_kernel(op, [x])[0].reshape(2, 6).sum(axis=1).tolist() == [1, 2]


@given(st.integers(0, 4), st.integers(0, 4), st.integers(-6, 6), st.booleans(), st.sampled_from(["f4", "i8", "?"]))
@settings(max_examples=80)
def test_trilu_engines_agree(rows: int, columns: int, k: int, upper: bool, dtype: str) -> None:
    x = np.full((2, rows, columns), np.nan if dtype == "f4" else 1, dtype)
    op = OperatorDef.of("Trilu", ["X", "k"], ["Y"], domain="onnx", upper=int(upper))
    assert assert_engines_match_reference(op, [x, np.array(k)], constants=(1,)) == ["NUMPY"]
    kept = run_kernel(op, [x, np.array(k)], "NUMPY", constants=(1,))[0] != 0
    np.testing.assert_array_equal(kept, (np.triu if upper else np.tril)(np.ones(x.shape, bool), k))


def test_an_unknown_diagonal_is_left_to_the_reference_kernel() -> None:
    op = OperatorDef.of("Trilu", ["X", "k"], ["Y"], domain="onnx")
    assert assert_engines_match_reference(op, [np.ones((3, 3)), np.array(1)]) == []


REVERSE = OperatorDef.of("ReverseSequence", ["X", "l"], ["Y"], domain="onnx")


@pytest.mark.parametrize(
    ("op", "inputs", "rule"),
    [
        (REVERSE, [np.zeros((3, 2)), np.array([3, 4])], "length 4 must be 0 to 3"),
        (REVERSE, [np.zeros((3, 2)), np.array([3])], "for each element"),
        (REVERSE.with_args(time_axis=2), [np.zeros((3, 2)), np.array([3, 1])], "must be 0 and 1"),
        (OperatorDef.of("SequenceMask", ["X"], ["Y"], mode="diag"), [np.zeros((3, 2), "f4")], "mode must be"),
        (
            OperatorDef.of("SequenceMask", ["X"], ["Y"], mode="sequence"),
            [np.zeros((3, 2), "f4")],
            "needs 3 int32 numbers",
        ),
        (OperatorDef.of("Trilu", ["X"], ["Y"], domain="onnx"), [np.zeros(3)], "must have two dimensions"),
    ],
)
def test_refuses(op: OperatorDef, inputs: List[Any], rule: str) -> None:
    with pytest.raises(OperatorError, match=rule):
        run_kernel(op, inputs)
