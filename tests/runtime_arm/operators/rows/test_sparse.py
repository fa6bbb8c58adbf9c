"""Sparse and dense rows, rows of bytes: worked examples, identities, refusals."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest

from device_tests.suite.kernels import run_kernel
from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import ShapeError
from runtime_arm.netdef import OperatorDef

ROWS = np.array([[1, 2], [3, 4], [5, 6]], np.float32)


def i32(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int32)


def run(type: str, inputs: List[Any], outputs: int = 1, **arguments: Any) -> List[Any]:
    op = OperatorDef.of(type, [f"x{i}" for i in range(len(inputs))], [f"y{i}" for i in range(outputs)], **arguments)
    return run_kernel(op, inputs, constants=range(len(inputs)))


def test_values_of_one_index_are_added() -> None:
    assert run("SparseToDense", [i32(2, 0, 2), ROWS])[0].tolist() == [[3, 4], [0, 0], [6, 8]]
    assert run("SparseToDense", [i32(2, 0, 2), ROWS, np.zeros((4, 1))])[0].shape == (4, 2)


def test_a_mask_selects_rows() -> None:
    inputs = [i32(7, 9, 1), ROWS, np.array([-1, -2], np.float32)]
    dense, present = run("SparseToDenseMask", inputs, 2, mask=[1, 5, 7], return_presence_mask=True)
    assert dense.tolist() == [[5, 6], [-1, -2], [1, 2]]
    assert present.tolist() == [True, False, True]
    (dense,) = run("SparseToDenseMask", [*inputs, i32(1, 0, 2)], mask=[1, 7])
    assert dense.tolist() == [[[-1, -2], [1, 2]], [[-1, -2], [-1, -2]], [[5, 6], [-1, -2]]]


def test_rows_are_permuted() -> None:
    np.testing.assert_array_equal(run("BatchPermutation", [ROWS, i32(2, 0, 1)])[0], ROWS[[2, 0, 1]])


def test_unmasking_undoes_masking() -> None:
    x = np.arange(6.0)
    first = np.array([1, 0, 0, 1, 0, 1], bool)
    np.testing.assert_array_equal(run("BooleanUnmask", [first, x[first], ~first, x[~first]])[0], x)


def test_ranges_are_gathered() -> None:
    ranges = np.array([[[0, 1], [2, 2]], [[4, 1], [0, 0]]], np.int32)
    values, lengths = run("GatherRanges", [np.arange(10, 16), ranges], 2)
    assert values.tolist() == [10, 12, 13, 14]
    assert lengths.tolist() == [3, 1]


def test_empty_segments_get_a_row_of_zeros() -> None:
    lengths, rows = run("PadEmptySamples", [i32(0, 2, 0, 1), ROWS], 2)
    assert lengths.tolist() == [1, 2, 1, 1]
    assert rows.tolist() == [[0, 0], [1, 2], [3, 4], [0, 0], [5, 6]]


def test_rows_of_bytes_are_within_half_a_step() -> None:
    x = np.random.default_rng(1).standard_normal((9, 17)).astype(np.float32)
    x[3] = 0.25
    (packed,) = run("FloatToFused8BitRowwiseQuantized", [x])
    assert packed.shape == (9, 25)
    assert (packed[:, :17].min(1) == 0).all()
    assert (np.delete(packed, 3, 0)[:, :17].max(1) == 255).all()
    (back,) = run("Fused8BitRowwiseQuantizedToFloat", [packed])
    step = (x.max(1) - x.min(1)) / 255
    assert (np.abs(back - x) <= step[:, None] * 0.5001 + 1e-7).all()
    indices, lengths = np.array([8, 0, 0, 3], np.int64), i32(1, 3)
    weights = np.array([1, 2, -1, 0.5], np.float32)
    for name, picks in (("Sum", [indices]), ("Mean", [indices]), ("WeightedSum", [weights, indices])):
        (expected,) = run(f"SparseLengths{name}", [back, *picks, lengths])
        assert_close(run(f"SparseLengths{name}Fused8BitRowwise", [packed, *picks, lengths])[0], expected, terms=3)


def test_rows_are_scaled_and_added_to() -> None:
    weights = [np.array([w], np.float32) for w in (2, 10, -1)]
    added = [np.array([[1, 0], [0, 1]], np.float32), np.array([[5, 5], [7, 7]], np.float32)]
    (y,) = run("ScatterWeightedSum", [ROWS, weights[0], i32(2, 0), added[0], weights[1], added[1], weights[2]])
    assert y.tolist() == [[2 - 7, 4 + 10 - 7], [3, 4], [10 + 10 - 5, 12 - 5]]


def test_sparse_matrices_become_dense_and_sparse_again() -> None:
    lengths, indices, values = i32(2, 0, 1), np.array([3, 0, 1], np.int64), np.array([5, 6, 7], np.float32)
    (dense,) = run("BatchSparseToDense", [lengths, indices, values], dense_last_dim=4, default_value=-1.0)
    assert dense.tolist() == [[6, -1, -1, 5], [-1, -1, -1, -1], [-1, 7, -1, -1]]
    np.testing.assert_array_equal(run("BatchDenseToSparse", [lengths, indices, dense])[0], values)
    like = np.zeros((3, 4), np.float32)
    np.testing.assert_array_equal(run("BatchSparseToDense", [lengths, indices, values, like])[0], np.maximum(dense, 0))


@pytest.mark.parametrize(
    ("type", "inputs", "arguments", "rule"),
    [
        ("BatchSparseToDense", [i32(1), i32(4), np.ones(1)], {"dense_last_dim": 4}, "index 4"),
        ("BatchSparseToDense", [i32(1), i32(0), np.ones(1)], {}, "dense_last_dim"),
        ("BatchDenseToSparse", [i32(1, 1, 0), i32(1), ROWS], {}, "add up to 1"),
        ("ScatterWeightedSum", [ROWS, np.ones(1, "f4"), i32(0), ROWS, np.ones(1, "f4")], {}, "shape"),
        ("ScatterWeightedSum", [ROWS, np.ones(2, "f4"), i32(0), ROWS[:1], np.ones(1, "f4")], {}, "one float32"),
        ("SparseToDense", [i32(3, 0, 1), ROWS, np.zeros(3)], {}, "index 3"),
        ("SparseToDense", [i32(-1, 0, 1), ROWS], {}, "index -1"),
        ("SparseToDense", [i32(0, 1), ROWS], {}, "one row of values each"),
        ("SparseToDenseMask", [i32(0, 1, 2), ROWS, np.zeros(2, "f4")], {}, "mask must list"),
        ("SparseToDenseMask", [i32(0, 1, 2), ROWS, np.zeros(3, "f4")], {"mask": [1]}, "shape and dtype of a row"),
        ("BatchPermutation", [ROWS, i32(0, 1, 3)], {}, "index 3"),
        ("BooleanUnmask", [np.array([True, False]), np.ones(1)], {}, "one mask must be true"),
        ("BooleanUnmask", [np.array([True, True]), np.ones(1)], {}, "1 are given"),
        ("GatherRanges", [np.ones(3), np.array([[[2, 2]]])], {}, "within X"),
        ("PadEmptySamples", [i32(1, 1), ROWS], {}, "add up"),
        ("Fused8BitRowwiseQuantizedToFloat", [np.zeros((2, 8), np.uint8)], {}, "more than 8 columns"),
    ],
)
def test_refusals_say_why(type: str, inputs: List[Any], arguments: Any, rule: str) -> None:
    with pytest.raises(ShapeError, match=rule):
        run(type, inputs, 2 if type == "GatherRanges" else 1, **arguments)


def test_one_row_is_copied_to_many() -> None:
    (y,) = run("CopyRowsToTensor", [ROWS, np.array([2, 0], np.int64), np.array([8, 9], np.float32)])
    assert y.tolist() == [[8, 9], [3, 4], [8, 9]]


def test_a_sparse_matrix_gets_another_width() -> None:
    dense = np.arange(12).reshape(3, 4)
    rows, columns = np.nonzero(dense % 5 == 1)
    new_columns, new_rows = run(
        "SparseMatrixReshape", [columns.astype(np.int64), rows.astype(np.int32)], 2, old_shape=[-1, 4], new_shape=[2, 6]
    )
    np.testing.assert_array_equal(dense.reshape(2, 6)[new_rows, new_columns], dense[rows, columns])
    assert (new_columns.dtype, new_rows.dtype) == (np.int64, np.int32)
    with pytest.raises(ShapeError, match="matrices with columns"):
        run("SparseMatrixReshape", [columns.astype(np.int64), rows.astype(np.int32)], 2, old_shape=[-1, 4])


def test_elements_are_separated_by_a_threshold() -> None:
    low, high = run("StumpFuncIndex", [np.array([[1, -2], [0.5, 3]], np.float32)], 2, threshold=0.5)
    assert (low.tolist(), high.tolist(), low.dtype) == ([1, 2], [0, 3], np.int64)
