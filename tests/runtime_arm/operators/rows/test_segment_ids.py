"""Reductions of segments by ids, and vectors of lengths: worked examples, identities, refusals."""

from __future__ import annotations

from typing import Any, List, Tuple

import numpy as np
import pytest

from device_tests.suite.kernels import run_kernel
from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import ArgumentError, ShapeError
from runtime_arm.netdef import OperatorDef

X = np.arange(12, dtype=np.float32).reshape(6, 2) - 3
IDS = np.array([0, 0, 1, 2, 2, 2], np.int32)
WEIGHTS = np.array([1, -2, 0.5, 3, 0, 1], np.float32)
PICKS = np.array([5, 0, 0, 3, 1, 2], np.int64)
LENGTHS = np.array([2, 0, 3, 1], np.int32)


def i32(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int32)


def run(type: str, inputs: List[Any], outputs: int = 1, **arguments: Any) -> List[Any]:
    names = [f"x{i}" for i in range(len(inputs))]
    op = OperatorDef.of(type, names, [f"y{i}" for i in range(outputs)], **arguments)
    return run_kernel(op, inputs, constants=range(len(inputs)))


def by_hand(rows: np.ndarray, ids: np.ndarray, count: int, reduce: Any) -> np.ndarray:
    parts = [rows[ids == i].astype(np.float64) for i in range(count)]
    return np.array([reduce(part) if len(part) else np.zeros(rows.shape[1]) for part in parts], np.float32)


@pytest.mark.parametrize(("name", "reduce"), [("Sum", lambda r: r.sum(0)), ("Mean", lambda r: r.mean(0))])
def test_segments_are_reduced(name: str, reduce: Any) -> None:
    shuffled = i32(2, 0, 4, 2, 0, 0)
    assert_close(run(f"SortedSegment{name}", [X, IDS])[0], by_hand(X, IDS, 3, reduce), terms=3)
    assert_close(run(f"UnsortedSegment{name}", [X, shuffled])[0], by_hand(X, shuffled, 5, reduce), terms=3)
    assert run(f"UnsortedSegment{name}", [X, shuffled], num_segments=7)[0].shape == (7, 2)
    for kind, ids, count in (("Sorted", IDS, 3), ("Unsorted", shuffled, 5)):
        actual = run(f"Sparse{kind}Segment{name}", [X, PICKS, ids])[0]
        assert_close(actual, by_hand(X[PICKS], ids, count, reduce), terms=3)


def test_weights_multiply_rows() -> None:
    rows = X * WEIGHTS[:, None]
    for kind in ("Sorted", "Unsorted"):
        expected = run(f"{kind}SegmentSum", [rows, IDS])[0]
        assert_close(run(f"{kind}SegmentWeightedSum", [X, WEIGHTS, IDS])[0], expected, terms=3)
        expected = run(f"{kind}SegmentSum", [X[PICKS] * WEIGHTS[:, None], IDS])[0]
        assert_close(run(f"Sparse{kind}SegmentWeightedSum", [X, WEIGHTS, PICKS, IDS])[0], expected, terms=3)
    assert_close(run("ReduceFrontWeightedSum", [X, WEIGHTS])[0], rows.sum(0), terms=6)
    assert_close(run("LengthsWeightedSum", [X, WEIGHTS, LENGTHS])[0], run("LengthsSum", [rows, LENGTHS])[0], terms=3)
    positional = run("SparseLengthsPositionalWeightedSum", [X, WEIGHTS, PICKS, LENGTHS])[0]
    placed = np.concatenate([WEIGHTS[:2], WEIGHTS[:3], WEIGHTS[:1]])
    assert_close(positional, run("SparseLengthsWeightedSum", [X, placed, PICKS, LENGTHS])[0], terms=3)
    assert_close(run("SparseLengthsMax", [X, PICKS, LENGTHS])[0], run("LengthsMax", [X[PICKS], LENGTHS])[0])


@pytest.mark.parametrize(
    ("name", "reduce"),
    [
        ("Sum", lambda r: r.sum(0)),
        ("Mean", lambda r: r.mean(0)),
        ("Max", lambda r: r.max(0)),
        ("LogSumExp", lambda r: np.log(np.exp(r).sum(0))),
        ("LogMeanExp", lambda r: np.log(np.exp(r).mean(0))),
    ],
)
def test_ranges_are_reduced(name: str, reduce: Any) -> None:
    assert_close(run(f"SortedSegmentRange{name}", [X, IDS])[0], by_hand(X, IDS, 3, reduce), terms=4)


EXAMPLES: List[Tuple[str, List[Any], Any, Any]] = [
    ("LengthsToOffsets", [LENGTHS], {}, i32(0, 2, 2, 5)),
    ("LengthsToOffsets", [LENGTHS], {"include_last_offset": True}, i32(0, 2, 2, 5, 6)),
    ("LengthsSplit", [i32(9, 4, 5)], {"n_split": 3}, i32(3, 3, 3, 2, 1, 1, 2, 2, 1)),
    ("LengthsSplit", [i32(9, 1), i32(2)], {}, i32(5, 4, 1, 0)),
    ("LengthsPad", [i32(1, 2, 3), i32(2, 0, 1)], {"target_length": 2}, i32(1, 2, -1, -1, 3, -1)),
    ("LengthsGather", [i32(1, 2, 3, 4, 5, 6), LENGTHS, i32(3, 0, 1)], {}, i32(6, 1, 2)),
    ("LengthsToWeights", [i32(2, 0, 4)], {"power": 1.0}, np.array([0.5, 0.5, 0.25, 0.25, 0.25, 0.25], np.float32)),
    ("SegmentIdsToLengthWeights", [i32(0, 2, 2)], {"power": 1.0}, np.array([1, 0.5, 0.5], np.float32)),
]


@pytest.mark.parametrize(("type", "inputs", "arguments", "expected"), EXAMPLES, ids=[e[0] for e in EXAMPLES])
def test_lengths_examples(type: str, inputs: List[Any], arguments: Any, expected: Any) -> None:
    actual = run(type, inputs, **arguments)[0]
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual, expected)


def test_top_k_of_each_segment() -> None:
    x = np.array([1, 5, 7, 2, 7, 3], np.float32)
    values, places = run("LengthsTopK", [x, LENGTHS], 2, k=2)
    assert values.tolist() == [[5, 1], [0, 0], [7, 7], [3, 0]]
    assert places.tolist() == [[1, 0], [-1, -1], [0, 2], [0, -1]]


def test_sequences_are_packed_unpacked_and_reversed() -> None:
    (packed,) = run("PackRNNSequence", [X, LENGTHS])
    assert packed.shape == (3, 4, 2)
    np.testing.assert_array_equal(packed[:2, 0], X[:2])
    assert not packed[:, 1].any()
    np.testing.assert_array_equal(run("UnpackRNNSequence", [packed, LENGTHS])[0], X)
    (turned,) = run("ReversePackedSegs", [packed, LENGTHS])
    np.testing.assert_array_equal(turned[:, 2], packed[::-1, 2])
    np.testing.assert_array_equal(turned[:2, 0], packed[1::-1, 0])
    np.testing.assert_array_equal(turned[2], np.where(LENGTHS[:, None] == 3, packed[0], packed[2]))


@pytest.mark.parametrize(
    ("type", "inputs", "arguments", "rule"),
    [
        ("SortedSegmentSum", [X, i32(0, 0, 2, 2, 3, 3)], {}, "without gaps"),
        ("SortedSegmentSum", [X, i32(1, 1, 1, 1, 1, 1)], {}, "without gaps"),
        ("SortedSegmentSum", [X, i32(0)], {}, "6 ids"),
        ("UnsortedSegmentSum", [X, i32(0, 0, 2, 2, 3, 3)], {"num_segments": 3}, "must be 0 to 2"),
        ("UnsortedSegmentSum", [X, i32(0, 0, 2, -2, 3, 3)], {}, "must be 0 to 3"),
        ("SortedSegmentWeightedSum", [X, WEIGHTS[:3], IDS], {}, "6 float32 weights"),
        ("SparseSortedSegmentSum", [X, i32(9, 0, 0, 0, 0, 0), IDS], {}, "9"),
        ("SparseLengthsPositionalWeightedSum", [X, WEIGHTS[:2], PICKS, LENGTHS], {}, "there are 2 weights"),
        ("LengthsSplit", [LENGTHS], {}, "n_split"),
        ("LengthsSplit", [LENGTHS], {"n_split": 0}, "positive"),
        ("LengthsPad", [X, LENGTHS], {"target_length": 2}, "exceed"),
        ("LengthsGather", [X, LENGTHS, i32(4)], {}, "must be 0 to 3"),
        ("PackRNNSequence", [X, i32(1, 2)], {}, "add up to 6"),
        ("ReversePackedSegs", [np.zeros((2, 1, 1), "f4"), i32(3)], {}, "must be 0 to 2"),
    ],
)
def test_refusals_say_why(type: str, inputs: List[Any], arguments: Any, rule: str) -> None:
    with pytest.raises((ShapeError, ArgumentError), match=rule):
        run(type, inputs, **arguments)
