"""Lists of different lengths, and decoders: worked examples, loops, exhaustive search, refusals."""

from __future__ import annotations

import itertools
from typing import Any, Dict, List, Tuple

import numpy as np
import pytest

from device_tests.suite.kernels import run_kernel
from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import OperatorError
from runtime_arm.execution.workspace import Workspace
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.registry.schema import lookup
from tests.support.exact import assert_same
from tests.support.operands import random

ROWS = np.arange(12, dtype=np.float32).reshape(6, 2)


def i32(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int32)


def texts(*strings: bytes) -> np.ndarray:
    return np.array(strings, object)


def op_of(type: str, inputs: int, outputs: int, **arguments: Any) -> OperatorDef:
    return OperatorDef.of(type, [f"x{i}" for i in range(inputs)], [f"y{i}" for i in range(outputs)], **arguments)


def run(type: str, inputs: List[Any], outputs: int = 1, **arguments: Any) -> List[Any]:
    return run_kernel(op_of(type, len(inputs), outputs, **arguments), inputs, constants=range(len(inputs)))


def run_in_workspace(type: str, inputs: List[Any], outputs: int, **arguments: Any) -> List[Any]:
    """The outputs of an operator whose shapes depend on data."""
    op, workspace = op_of(type, len(inputs), outputs, **arguments), Workspace()
    for name, value in zip(op.input, inputs):
        workspace.feed(name, value)
    workspace.run_net_once(NetDef(op=(op,)))
    return [workspace.fetch(name) for name in op.output]


def test_lengths_of_masked_lists() -> None:
    mask = np.array([1, 0, 1, 1, 0, 0], bool)
    assert_same(run("BooleanMaskLengths", [i32(2, 0, 3, 1), mask])[0], i32(1, 0, 2, 0))
    assert run("BooleanMaskLengths", [np.array([6], np.int64), mask])[0].dtype == np.int64


def test_lists_are_merged_example_by_example() -> None:
    lengths, values = run_in_workspace(
        "MergeIdLists", [i32(2, 0, 1), np.array([7, 3, 5]), i32(2, 1, 0), np.array([3, 9, 4])], 2
    )
    assert_same(lengths, i32(3, 1, 1))
    assert values.tolist() == [3, 7, 9, 4, 5]


def test_dense_rows_become_lists_of_columns() -> None:
    x = np.array([[0, 1, 0.49, 0.5], [-0.6, -1.5, -1.4, 2], [0, 0, 0, 0]], np.float32)
    lengths, values = run_in_workspace("DenseVectorToIdList", [x], 2)
    expected = [[j for j in range(4) if int(x[i, j] + 0.5) != 0] for i in range(3)]
    assert_same(lengths, i32(*map(len, expected)))
    assert values.tolist() == [column for row in expected for column in row]


def test_ranges_become_rows_of_one_length() -> None:
    x, ranges = np.arange(10, 20), np.array([[[0, 2], [2, 3]], [[5, 2], [9, 0]], [[7, 1], [7, 3]]], np.int32)
    keys = np.array([3, 1, 2, 9, 0, 5, 4, 8, 7, 6], np.int64)
    short, long = run("GatherRangesToDense", [x, ranges], 2, lengths=[2, 3])
    assert short.tolist() == [[10, 11], [15, 16], [0, 0]]
    assert long.tolist() == [[12, 13, 14], [0, 0, 0], [17, 18, 19]]
    short, long = run("GatherRangesToDense", [x, ranges, keys], 2, lengths=[2, 3])
    assert short.tolist() == [[11, 10], [16, 15], [0, 0]]
    assert long.tolist() == [[14, 12, 13], [0, 0, 0], [19, 18, 17]]
    with pytest.raises(OperatorError, match="max_mismatched_ratio"):
        run("GatherRangesToDense", [x, ranges], 2, lengths=[2, 3], min_observation=3, max_mismatched_ratio=0.1)


def test_every_row_has_its_own_k() -> None:
    x = np.array([[[1, 3, 3], [2, 2, 2]], [[5, 4, 6], [0, -1, -2]]], np.float32)
    values, places = run("FlexibleTopK", [x, np.array([[[2], [1]], [[3], [2]]], np.int64)], 2)
    assert values.tolist() == [3, 3, 2, 6, 5, 4, 0, -1]
    assert_same(places, np.array([1, 2, 0, 2, 0, 1, 0, 1], np.int64))


def test_gathering_undoes_partitioning() -> None:
    keys = np.array([4, -1, 3, 8, 5, 0], np.int64)
    parts = run("Partition", [keys, ROWS], 6)
    assert [part.tolist() for part in parts[::2]] == [[3, 0], [4], [-1, 8, 5]]
    np.testing.assert_array_equal(parts[5], ROWS[[1, 3, 4]])
    assert_same(run("GatherByKey", [keys, *parts[1::2]])[0], ROWS)
    packed = run("Partition", [keys], 3, pack_first_input=1)
    assert [part.tolist() for part in packed] == [[1, 0], [1], [-1, 2, 1]]
    assert_same(run("Partition", [keys.reshape(2, 3), ROWS.reshape(2, 3, 2)], 4)[3], ROWS[[1, 2, 4]])


def test_lists_are_split_among_partitions() -> None:
    outputs = run("LengthsPartition", [i32(2, 0, 3, 1), np.array([4, 2, 3, 8, 5, 0]), ROWS], 6)
    wanted = [[2, 0, 1, 1], [4, 2, 8, 0], [0, 0, 2, 0], [3, 5]]
    assert [outputs[place].tolist() for place in (0, 1, 3, 4)] == wanted
    assert_same(outputs[2], ROWS[[0, 1, 3, 5]])
    assert_same(outputs[5], ROWS[[2, 4]])


def test_strings_are_cut_and_compared() -> None:
    x = texts(b"abcde", b"ab", b"", b"bcd").reshape(2, 2)
    assert run("StringPrefix", [x])[0].tolist() == [[b"abc", b"ab"], [b"", b"bcd"]]
    assert run("StringSuffix", [x], length=2)[0].tolist() == [[b"de", b"ab"], [b"", b"cd"]]
    assert run("StringSuffix", [x], length=0)[0].tolist() == [[b"", b""], [b"", b""]]
    assert_same(run("StringStartsWith", [x], prefix="ab")[0], np.array([[True, True], [False, False]]))
    assert_same(run("StringEndsWith", [x], suffix="cd")[0], np.array([[False, False], [False, True]]))
    assert_same(run("StringEquals", [x], text="ab")[0], np.array([[False, True], [False, False]]))


def test_elements_are_joined() -> None:
    assert run("StringJoin", [texts(b"a", b"b")])[0].tolist() == [b"a,", b"b,"]
    assert run("StringJoin", [np.array([[1, 2], [3, 4]])], delimiter="; ")[0].tolist() == [b"1; 2; ", b"3; 4; "]
    numbers = np.array([[0.5, 2], [1e10, -3]], np.float32)
    assert run("StringJoin", [numbers], axis=1)[0].tolist() == [b"0.5,1e+10,", b"2,-3,"]


def collapsed(path: Tuple[int, ...]) -> Tuple[int, ...]:
    """A path of labels without repetitions and blanks."""
    return tuple(label for label, _ in itertools.groupby(path) if label)


def test_the_most_likely_labels_are_selected() -> None:
    x = random((5, 3, 4))
    lengths = i32(5, 0, 3)
    expected = [collapsed(tuple(x[:n, i].argmax(1))) for i, n in enumerate(lengths)]
    counts, values = run_in_workspace("CTCGreedyDecoder", [x, lengths], 2)
    assert_same(counts, i32(*map(len, expected)))
    assert_same(values, i32(*sum(expected, ())))
    _, values = run_in_workspace("CTCGreedyDecoder", [x], 2, merge_repeated=0)
    assert values.tolist() == [int(k) for i in range(3) for k in x[:, i].argmax(1) if k]


def test_a_wide_beam_finds_the_most_likely_labelling() -> None:
    x = np.exp(random((4, 2, 3)))
    x /= x.sum(2, keepdims=True)
    counts, values, shares = run_in_workspace(
        "CTCBeamSearchDecoder", [x], 3, beam_width=200, num_candidates=2, prune_threshold=0.0
    )
    stops = np.cumsum([0, *counts])
    for i in range(2):
        sums: Dict[Tuple[int, ...], float] = {}
        for path in itertools.product(range(3), repeat=4):
            share = float(np.prod([x[t, i, label] for t, label in enumerate(path)]))
            sums[collapsed(path)] = sums.get(collapsed(path), 0.0) + share
        best = sorted(sums.items(), key=lambda item: -item[1])[:2]
        for place, (labels, share) in enumerate(best, start=2 * i):
            assert tuple(values[stops[place] : stops[place + 1]].tolist()) == labels
            assert_close(shares[place], np.float32(share), terms=81)


def test_the_best_path_is_found() -> None:
    x, transitions = random((5, 3)), random((3, 3), 1)
    best = max(
        itertools.product(range(3), repeat=5),
        key=lambda path: (
            sum(x[i, k] for i, k in enumerate(path)) + sum(transitions[a, b] for a, b in zip(path, path[1:]))
        ),
    )
    (path,) = run("ViterbiPath", [x, transitions])
    assert_same(path, i32(*best))
    (swapped,) = run("SwapBestPath", [x, path])
    assert_same(swapped.argmax(1).astype(np.int32), path)
    assert_same(np.sort(swapped, axis=1), np.sort(x, axis=1))


@pytest.mark.parametrize(
    ("type", "inputs", "outputs", "arguments", "rule"),
    [
        ("BooleanMaskLengths", [i32(2, 1), np.ones(2, bool)], 1, {}, "add up to 2"),
        ("MergeIdLists", [i32(1), i32(1), i32(1)], 2, {}, "in pairs"),
        ("MergeIdLists", [i32(1), i32(1), i32(1, 1), i32(1, 2)], 2, {}, "the same number of lists"),
        ("GatherRangesToDense", [i32(1), np.array([[[0, 2]]], np.int32)], 1, {"lengths": [2]}, "within the 1 elements"),
        ("FlexibleTopK", [ROWS, np.full(6, 3)], 2, {}, "k must be 1 to 2"),
        ("Partition", [i32(1, 2), ROWS], 2, {}, "start with that of the keys"),
        ("Partition", [i32(1), i32(1)], 3, {}, "multiple"),
        ("GatherByKey", [i32(0, 2), ROWS[:1], ROWS[:1]], 1, {}, "2 keys select partition 0"),
        ("LengthsPartition", [i32(2), i32(1)], 2, {}, "add up to 1"),
        ("StringPrefix", [texts(b"a")], 1, {"length": -1}, "must not be negative"),
        ("StringJoin", [texts(b"a")], 1, {"axis": 1}, "vector or a matrix"),
        ("CTCGreedyDecoder", [random((2, 1, 3)), i32(3)], 2, {}, "must be 0 to 2"),
        ("CTCBeamSearchDecoder", [random((2, 1, 3))], 2, {"num_candidates": 11}, "beam_width, 10"),
        ("ViterbiPath", [random((2, 3)), random((2, 2))], 1, {}, r"\(D, D\)"),
        ("SwapBestPath", [random((2, 3)), i32(0, 3)], 1, {}, "must be 0 to 2"),
    ],
)
def test_refusals_say_why(type: str, inputs: List[Any], outputs: int, arguments: Any, rule: str) -> None:
    op = op_of(type, len(inputs), outputs, **arguments)
    assert lookup(op).type == type
    with pytest.raises(OperatorError, match=rule):
        run_in_workspace(type, inputs, outputs, **arguments)
