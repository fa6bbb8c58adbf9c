"""A ScatterND that writes a block becomes an update of a slice."""

from __future__ import annotations

from typing import Any, Dict, Sequence

import numpy as np
import pytest

from optimize.passes.composing.compose_update_slice import PASS
from tests.optimize.nets import applied, assert_same_numbers, refusals

RANDOM = np.random.default_rng(12)
SHAPES = {"x": (5, 6), "u": (2, 3)}
FEEDS = {name: RANDOM.standard_normal(shape).astype(np.float32) for name, shape in SHAPES.items()}


def net(rows: str = "Expand(r, size) -> rows", scatter: str = "", axis: int = -1) -> str:
    """``x[a:a + 2, b:b + 3] = u`` as PyTorch writes it."""
    return f"""
        net "": x, u, r, c, size, last -> y
        onnx.{rows}
        onnx.Expand(c, size) -> columns
        onnx.Unsqueeze(rows, last) -> i
        onnx.Unsqueeze(columns, last) -> j
        Concat(i, j) -> indices, lengths  axis={axis}
        onnx.ScatterND(x, indices, u) -> y  {scatter}"""


def weights(rows: Any = ((1,), (2,)), columns: Any = (3, 4, 5), size: Sequence[int] = (2, 3)) -> Dict[str, Any]:
    return {
        "r": np.array(rows, np.int64),
        "c": np.array(columns, np.int64),
        "size": np.array(size, np.int64),
        "last": np.array([-1], np.int64),
    }


def test_a_block_is_written_at_once() -> None:
    outcome = applied(PASS, net(), weights(), SHAPES)
    assert outcome.text[-1] == "tflite.DynamicUpdateSlice(x, u, y_start) -> y"
    assert outcome.weight("y_start").tolist() == [1, 3]
    assert_same_numbers(outcome.before, outcome.after, FEEDS)


@pytest.mark.parametrize("rows", [[[0], [1]], [[3], [4]]])
def test_at_either_end(rows: Any) -> None:
    outcome = applied(PASS, net(axis=2), weights(rows, [0, 1, 2]), SHAPES)
    assert outcome.report.steps
    assert_same_numbers(outcome.before, outcome.after, FEEDS)


def test_indices_may_be_written_out() -> None:
    given = {**weights(), "r": np.array([[1, 1, 1], [2, 2, 2]])}
    outcome = applied(PASS, net("Copy(r) -> rows").replace("onnx.Copy", "Copy"), given, SHAPES)
    assert outcome.report.steps
    assert_same_numbers(outcome.before, outcome.after, FEEDS)


@pytest.mark.parametrize("rows", [(1, 2), (1, 3)])
def test_indices_may_be_a_weight(rows: Any) -> None:
    indices = np.stack(np.broadcast_arrays(np.reshape(rows, (2, 1)), [3, 4, 5]), -1)
    text = 'net "": x, u, indices -> y\n onnx.ScatterND(x, indices, u) -> y'
    if rows == (1, 3):
        assert refusals(PASS, text, {"indices": indices}, SHAPES) == ["the indices are not those of a block"]
        return
    outcome = applied(PASS, text, {"indices": indices}, SHAPES)
    assert outcome.weight("y_start").tolist() == [1, 3]
    assert_same_numbers(outcome.before, outcome.after, FEEDS)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (weights(rows=[[1], [3]]), "the indices are not those of a block"),
        (weights(rows=[[2], [1]]), "the indices are not those of a block"),
        (weights(rows=[[1], [1]]), "the indices are not those of a block"),
        (weights(rows=[[1]]), "the indices are not those of a block"),
        (weights(columns=[[3, 4, 5], [3, 4, 4]]), "the indices are not those of a block"),
        (weights(rows=[[-2], [-1]]), "the block does not lie inside"),
        (weights(columns=[4, 5, 6]), "the block does not lie inside"),
    ],
)
def test_other_places_stay(given: Dict[str, Any], reason: str) -> None:
    assert refusals(PASS, net(), given, SHAPES) == [reason]


def test_sums_and_open_sizes_stay() -> None:
    assert refusals(PASS, net(scatter='reduction="add"'), weights(), SHAPES) == []
    assert refusals(PASS, net(), weights(), {"x": ("n", 6), "u": (2, 3)}) == ["the shapes are not known"]


def test_rows_of_a_matrix_stay() -> None:
    text = 'net "": x, u, r -> y\n onnx.ScatterND(x, r, u) -> y'
    assert refusals(PASS, text, {"r": np.array([[1], [2]])}, {"x": (5, 3), "u": (2, 3)}) == [
        "the indices are not those of single elements"
    ]


def test_indices_of_another_block_stay() -> None:
    text = 'net "": x, u, r -> y\n onnx.ScatterND(x, r, u) -> y'  # which the operator itself refuses
    indices = np.stack(np.meshgrid(np.arange(2), np.arange(3), indexing="ij"), axis=-1)
    assert refusals(PASS, text, {"r": indices}, {"x": (5, 3), "u": (5, 1)}) == [
        "the indices are not those of single elements"
    ]
