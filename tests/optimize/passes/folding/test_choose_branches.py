"""An If whose condition is known becomes the operators of its branch."""

from __future__ import annotations

from typing import List

import numpy as np
import pytest

from optimize.passes.folding.choose_branches import PASS
from tests.optimize.nets import applied, assert_same_numbers, refusals

X = np.random.default_rng(3).standard_normal((2, 3)).astype(np.float32)
SHAPES = {"x": (2, 3)}
WEIGHTS = {"yes": np.array([True]), "no": np.array(False)}


INNER = "then_net={\n Relu(x) -> t\n } else_net={\n Abs(x) -> t\n }"


def net(condition: str, first: str, second: str, made: str = "y", results: str = "y") -> str:
    nets = f'then_net={{\n net "a": {first}\n }} else_net={{\n net "b": {second}\n }}'
    return f'net "": x, yes, no -> {results}\n Abs(x) -> a\n If({condition}) -> {made}  {nets}'


THEN = "-> t\n Relu(x) -> a\n Sigmoid(a) -> t"


@pytest.mark.parametrize(
    ("condition", "first", "second", "wanted"),
    [
        ("yes", THEN, "-> x", ["Abs(x) -> a", "Relu(x) -> a_1", "Sigmoid(a_1) -> t_1", "Copy(t_1) -> y"]),
        ("no", THEN, "-> x", ["Abs(x) -> a", "Copy(x) -> y"]),
        ("yes", "\n Tanh(a) -> y", "-> x", ["Abs(x) -> a", "Tanh(a) -> y_1", "Copy(y_1) -> y"]),
    ],
)
def test_only_the_branch_that_runs_is_left(condition: str, first: str, second: str, wanted: List[str]) -> None:
    outcome = applied(PASS, net(condition, first, second, results="y, a"), WEIGHTS, SHAPES)
    assert outcome.text == wanted
    assert_same_numbers(outcome.before, outcome.after, {"x": X})


def test_conditions_may_follow_from_shapes() -> None:
    text = 'net "": x, one -> y\n Shape(x) -> n  axes=[1]\n EQ(n, one) -> is_one\n If(is_one) -> y  then_net={\n'
    text += ' net "a": -> t\n Squeeze(x) -> t  dims=[1]\n } else_net={\n net "b": -> x\n }'
    weights = {"one": np.array([1])}
    assert applied(PASS, text, weights, {"x": ("n", 1)}).text[-2:] == ["Squeeze(x) -> t_1  dims=[1]", "Copy(t_1) -> y"]
    assert applied(PASS, text, weights, {"x": ("n", 3)}).text[-1] == "Copy(x) -> y"
    assert refusals(PASS, text, weights, {"x": ("n", "m")}) == ["its condition is not known"]


def test_what_is_written_twice_is_the_last() -> None:
    outcome = applied(PASS, net("yes", "-> t\n Relu(x) -> t\n Sigmoid(x) -> t", "-> x"), WEIGHTS, SHAPES)
    assert outcome.report.steps
    assert_same_numbers(outcome.before, outcome.after, {"x": X})


@pytest.mark.parametrize(
    ("made", "first", "reason"),
    [
        ("y, z", "\n Relu(x) -> y", "the branch leaves outputs as they are"),
        ("y", "-> t\n Copy(x) -> t\n Relu(t) -> t", "it depends on the order of operators"),
        ("y", f"-> t\n If(no) -> t  {INNER}", "it holds nets of its own"),
    ],
)
def test_others_stay(made: str, first: str, reason: str) -> None:
    assert refusals(PASS, net("yes", first, "-> x", made), WEIGHTS, SHAPES) == [reason]
