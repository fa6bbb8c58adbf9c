"""Segments: inverses, worked examples, refusals."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_tests.suite.kernels import run_kernel
from runtime_arm.errors import OperatorError
from runtime_arm.netdef import OperatorDef
from tests.support.exact import assert_same


@given(st.lists(st.integers(0, 4), max_size=5), st.sampled_from(["i4", "i8"]))
@settings(max_examples=60)
def test_unpacking_undoes_packing(lengths: List[int], dtype: str) -> None:
    x, counts = np.random.default_rng(0).standard_normal((sum(lengths), 2)), np.array(lengths, dtype)
    pack = OperatorDef.of("PackSegments", ["l", "X"], ["Y", "present"], return_presence_mask=1)
    packed, present = run_kernel(pack, [counts, x], constants=(0,))
    assert present.sum(axis=1).tolist() == lengths
    (unpacked,) = run_kernel(OperatorDef.of("UnpackSegments", ["l", "Y"], ["X"]), [counts, packed], constants=(0,))
    assert_same(unpacked, x)


def test_packing_cuts_and_fills() -> None:
    x, lengths = np.array([1, 2, 3, 4], np.float32), np.array([3, 1], np.int32)
    op = OperatorDef.of("PackSegments", ["l", "X"], ["Y"], max_length=2, pad_minf=1)
    assert run_kernel(op, [lengths, x])[0].tolist() == [[1, 2], [4, -np.inf]]
    unpack = OperatorDef.of("UnpackSegments", ["l", "Y"], ["X"], max_length=2)
    assert run_kernel(unpack, [lengths, np.array([[1, 2], [4, 0]])], constants=(0,))[0].tolist() == [1, 2, 4]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=4), st.integers(0, 2), st.integers(-1, 2))
@settings(max_examples=60)
def test_removing_padding_undoes_adding_it(lengths: List[int], width: int, end: int) -> None:
    x, counts = np.random.default_rng(0).standard_normal((sum(lengths), 2)), np.array(lengths, np.int32)
    arguments = {"padding_width": width, "end_padding_width": end}
    padded, longer = run_kernel(OperatorDef.of("AddPadding", ["X", "l"], ["Y", "m"], **arguments), [x, counts])
    assert padded.shape[0] == longer.sum()
    bare, again = run_kernel(OperatorDef.of("RemovePadding", ["Y", "m"], ["X", "l"], **arguments), [padded, longer])
    assert_same(bare, x)
    assert_same(again, counts)


def test_padding_rows_may_be_given() -> None:
    x, lengths = np.array([[1], [2], [3]]), np.array([2, 1], np.int32)
    op = OperatorDef.of("AddPadding", ["X", "l", "s", "e"], ["Y", "m"], padding_width=1, end_padding_width=2)
    y, longer = run_kernel(op, [x, lengths, np.array([8]), np.array([9])])
    assert y.ravel().tolist() == [8, 1, 2, 9, 9, 8, 3, 9, 9]
    assert longer.tolist() == [5, 4]
    assert run_kernel(OperatorDef.of("AddPadding", ["X"], ["Y"]), [x])[0].ravel().tolist() == [0, 1, 2, 3, 0]


def test_segments_by_ids_lengths_and_ranges() -> None:
    lengths = np.array([2, 0, 3], np.int32)
    (ids,) = run_kernel(OperatorDef.of("LengthsToSegmentIds", ["l"], ["i"]), [lengths], constants=(0,))
    assert ids.tolist() == [0, 0, 2, 2, 2]
    assert_same(run_kernel(OperatorDef.of("SegmentIdsToLengths", ["i"], ["l"]), [ids], constants=(0,))[0], lengths)
    ranges = OperatorDef.of("SegmentIdsToRanges", ["i", "X"], ["r"])
    assert run_kernel(ranges, [ids, np.zeros(4)], constants=(0,))[0].tolist() == [[0, 2], [0, 0], [2, 3], [0, 0]]


def test_empty_segments_reduce_to_zero() -> None:
    x, lengths = np.array([[-1, 2], [-3, 4]], np.float32), np.array([0, 2, 0], np.int32)
    for type, expected in (("LengthsSum", [-4, 6]), ("LengthsMean", [-2, 3]), ("LengthsMax", [-1, 4])):
        (y,) = run_kernel(OperatorDef.of(type, ["X", "l"], ["Y"]), [x, lengths])
        assert y.tolist() == [[0, 0], expected, [0, 0]]


def test_weighted_rows_are_summed() -> None:
    x, weights = np.array([[1, 2], [3, 4]], np.float32), np.array([2, 1, -1], np.float32)
    op = OperatorDef.of("SparseLengthsWeightedSum", ["X", "w", "i", "l"], ["Y"])
    (y,) = run_kernel(op, [x, weights, np.array([1, 0, 1]), np.array([2, 1], np.int32)])
    assert y.tolist() == [[7, 10], [-3, -4]]


PACK = OperatorDef.of("PackSegments", ["l", "X"], ["Y"])
UNPACK = OperatorDef.of("UnpackSegments", ["l", "X"], ["Y"])
REMOVE = OperatorDef.of("RemovePadding", ["X", "l"], ["Y"])


@pytest.mark.parametrize(
    ("op", "inputs", "rule"),
    [
        (PACK, [np.array([1, 1], "i4"), np.zeros(3)], "must add up to 3"),
        (PACK, [np.array([4, -1], "i4"), np.zeros(3)], "must add up to 3"),
        (OperatorDef.of("PackSegments", ["l", "X"], ["Y", "p"]), [np.array([3], "i4"), np.zeros(3)], "presence_mask"),
        (PACK, [np.array([3.0]), np.zeros(3)], "vector of int32 or int64"),
        (UNPACK, [np.array([3, 1], "i4"), np.zeros((2, 2))], "must be 0 to 2"),
        (UNPACK, [np.array([2], "i4"), np.zeros((2, 2))], "one row per length"),
        (REMOVE, [np.zeros(6), np.array([5, 1], "i4")], "2 or more"),
        (
            OperatorDef.of("LengthsTile", ["X", "l"], ["Y"]),
            [np.zeros(2), np.array([1, -1], "i4")],
            "must not be negative",
        ),
        (OperatorDef.of("SegmentIdsToLengths", ["i"], ["Y"]), [np.array([1, 0], "i4")], "must ascend"),
        (OperatorDef.of("LengthsSum", ["X", "l"], ["Y"]), [np.zeros(2, "f4"), np.array([1], "i4")], "must add up to 2"),
        (
            OperatorDef.of("SparseLengthsSum", ["X", "i", "l"], ["Y"]),
            [np.zeros(2, "f4"), np.array([2]), np.array([1], "i4")],
            "index 2 is out of range",
        ),
        (
            OperatorDef.of("AddPadding", ["X", "l"], ["Y"], padding_width=-1),
            [np.zeros(3), np.array([3], "i4")],
            "negative",
        ),
    ],
)
def test_refuses(op: OperatorDef, inputs: List[Any], rule: str) -> None:
    constants = (0,) if "Segment" in op.type else (1,)
    with pytest.raises(OperatorError, match=rule):
        run_kernel(op, inputs, constants=constants)


def test_paddings_are_summed() -> None:
    x = np.arange(18, dtype=np.float32).reshape(9, 2)
    lengths = np.array([3, 0, 6], np.int32)[[0, 2]]
    op = OperatorDef.of("GatherPadding", ["X", "l"], ["a", "b"], padding_width=1, end_padding_width=2)
    front, back = run_kernel(op, [x, lengths])
    assert_same(front, x[0] + x[3])
    assert_same(back, x[1] + x[2] + x[7] + x[8])
    one = OperatorDef.of("GatherPadding", ["X"], ["a"], padding_width=2)
    assert_same(run_kernel(one, [x])[0], x[0] + x[1] + x[7] + x[8])
    with pytest.raises(OperatorError, match="must be 3 or more"):
        run_kernel(op, [x, np.array([7, 2], np.int32)])


def test_steps_after_the_end_of_a_sequence_become_zero() -> None:
    x = np.random.default_rng(0).standard_normal((4, 3, 2)).astype(np.float32)
    op = OperatorDef.of("VariableLengthSequencePadding", ["X", "l"], ["Y"])
    (y,) = run_kernel(op, [x, np.array([4, 0, 2], np.int32)])
    expected = x.copy()
    expected[:, 1] = 0
    expected[2:, 2] = 0
    assert_same(y, expected)
