"""Loops of few known trips become the operators of their bodies."""

from __future__ import annotations

from typing import Any, Dict, Tuple

import numpy as np
import pytest

from optimize.passes.folding import unroll_loops
from optimize.passes.folding.unroll_loops import PASS
from tests.optimize.nets import applied, assert_same_numbers, pair_of, refusals

RANDOM = np.random.default_rng(6)
X = RANDOM.standard_normal((2, 3)).astype(np.float32)
WEIGHTS: Dict[str, Any] = {"n": np.array(2), "none": np.array(0), "many": np.array(100), "yes": np.array(True)}
WEIGHTS.update(no=np.array(False), pair=np.array([2, 2]), k=np.ones(3, np.float32), nan=np.float32(np.nan))
SHAPES = {"x": (2, 3)}


def loop(lines: str, call: str = 'n, "", x', head: str = "i, go, h -> go, out", results: str = "y") -> str:
    """A net of one loop; ``x`` is its input, and the weights above may be named."""
    inside = lines.replace(";", "\n")
    return (
        f'net "": x, n, none, many, yes, no, pair, k, nan -> {results}\n'
        f'onnx.Loop({call}) -> {results}  body={{\n net "body": {head}\n {inside}\n }}'
    )


def weights(**more: Any) -> Dict[str, Any]:
    return {**WEIGHTS, **more}


def test_the_body_stands_there_once_a_trip() -> None:
    outcome = applied(PASS, loop("Mul(h, k) -> a;Relu(a) -> out"), WEIGHTS, SHAPES)
    assert outcome.text == [
        "Mul(x, k) -> a_0",
        "Relu(a_0) -> out_0",
        "Mul(out_0, k) -> a_1",
        "Relu(a_1) -> out_1",
        "Copy(out_1) -> y",
    ]


def test_trips_are_numbers_and_what_is_scanned_is_stacked() -> None:
    lines = "Cast(i) -> f  to=1;onnx.Add(h, f) -> out;onnx.Mul(out, k) -> s"
    outcome = applied(PASS, loop(lines, "n, yes, x", "i, go, h -> yes, out, s", "y, ys"), WEIGHTS, SHAPES)
    assert outcome.text[-2:] == ["Copy(out_1) -> y", "Concat(s_0, s_1) -> ys, ys_lengths  axis=0  add_axis=1"]
    assert [int(outcome.weight(name)) for name in ("i_0", "i_1")] == [0, 1]


@pytest.mark.parametrize(
    ("lines", "call", "head", "results"),
    [
        ("Sigmoid(h) -> out", 'n, "", x', "i, go, h -> go, out", "y"),
        ("Sigmoid(h) -> out", "n, yes, x", "i, go, h -> go, out", "y"),
        ("Sigmoid(h) -> out;Copy(go) -> on", "n, yes, x", "i, go, h -> on, out", "y"),
        ("Sigmoid(h) -> out", "n, yes, x", "i, go, h -> yes, out, h", "y, ys"),
        ("Sigmoid(h) -> out", "n, no, x", "i, go, h -> go, out", "y"),
        ("Sigmoid(h) -> out", 'none, "", x', "i, go, h -> go, out", "y"),
        ("Sigmoid(a) -> out", "n, yes, x, x", "i, go, a, b -> go, b, out, a", "y, z, ys"),
        ("Sigmoid(h) -> out;Not(go) -> other", "n, yes, x", "i, go, h -> go, out, other, x, i", "y, a, b, c"),
        ("Sigmoid(h) -> out;Not(yes) -> stop", 'n, "", x', "i, go, h -> stop, out", "y"),
        ("Relu(h) -> t;Sigmoid(t) -> u;Copy(u) -> t;Abs(t) -> out", "n, yes, x", "i, go, h -> go, out, t", "y, ys"),
        ("Copy(go) -> a;Copy(a) -> on;Not(yes) -> a;Abs(h) -> out", "n, yes, x", "i, go, h -> on, out", "y"),
        ("Sigmoid(h) -> x;Mul(x, k) -> out", "n, yes, x", "i, go, h -> go, out", "y"),
        ("Sigmoid(h) -> out", "n, yes, k, x", "i, go, k, h -> go, h, out, k", "a, b, ys"),
    ],
)
def test_they_compute_the_same(lines: str, call: str, head: str, results: str) -> None:
    net = loop(lines, call, head, results)
    if call.startswith("n, yes, k"):
        net = net.replace("n, yes, k", "n, yes, x")  # the body's k is not the weight of that name
    outcome = applied(PASS, net, WEIGHTS, SHAPES)
    assert not any("Loop" in line for line in outcome.text), outcome.reasons
    assert_same_numbers(outcome.before, outcome.after, {"x": X})


CASES: Tuple[Tuple[str, str], ...] = (
    ("100 trips of 1 operators are too many", loop("Sigmoid(h) -> out", call='many, "", x')),
    ("the number of trips is not known", loop("Sigmoid(h) -> out", call='pair, "", x')),
    ("the number of trips is not known", loop("Sigmoid(h) -> out", call='nan, "", x')),
    ("the number of trips is not known", loop("Sigmoid(h) -> out", call='"", yes, x')),
    ("whether it begins is not known", loop("Sigmoid(h) -> out", call="n, pair, x")),
    ("the body decides whether it goes on", loop("Sigmoid(h) -> out", call="n, yes, x", head="i, go, h -> no, out")),
    (
        "the body decides whether it goes on",
        loop("Sigmoid(h) -> out;Not(go) -> on", call="n, yes, x", head="i, go, h -> on, out"),
    ),
    ("it depends on the order of operators", loop("Not(go) -> go;Relu(h) -> out", call="n, yes, x")),
    (
        "the body decides whether it goes on",
        loop("Not(go) -> a;Copy(a) -> on;Copy(yes) -> a;Relu(h) -> out", call="n, yes, x", head="i, go, h -> on, out"),
    ),
    (
        "the body decides whether it goes on",
        loop("Copy(no) -> a;Copy(a) -> on;Copy(go) -> a;Relu(h) -> out", call="n, yes, x", head="i, go, h -> on, out"),
    ),
    ("the body decides whether it goes on", loop("Not(no) -> go;Relu(h) -> out", call="n, yes, x")),
    (
        "what it scans is empty",
        loop("Sigmoid(h) -> out", call='none, "", x', head="i, go, h -> go, out, h", results="y, ys"),
    ),
    ("its body does not fit it", loop("Sigmoid(x) -> out", head="i, go -> go, out")),
    ("a carried blob is left out", loop("Sigmoid(x) -> out", call='n, "", ""')),
    ("it gives other results each time", loop("onnx.RandomUniformLike(h) -> out")),
    ("it holds nets of its own", loop("If(go) -> out  then_net={; Relu(h) -> out; } else_net={; Abs(h) -> out; }")),
)


@pytest.mark.parametrize(("reason", "net"), CASES)
def test_others_stay(reason: str, net: str) -> None:
    assert refusals(PASS, net, WEIGHTS, SHAPES) == [reason]


def test_a_body_is_not_copied_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unroll_loops, "MOST_OPERATORS", 3)
    net = loop("Relu(h) -> a;Sigmoid(a) -> out")
    assert refusals(PASS, net, WEIGHTS, SHAPES) == ["2 trips of 2 operators are too many"]


def test_trips_that_depend_on_an_open_size_are_not_known() -> None:
    net = 'net "": x -> y\n Shape(x) -> n  axes=[0]\n' + loop("Sigmoid(h) -> out").split("\n", 1)[1]
    assert refusals(PASS, net, shapes={"x": ("n", 3)}) == ["the number of trips is not known"]
    assert applied(PASS, net, shapes={"x": (3, 3)}).report.steps


def test_names_that_are_taken_are_not_given_again() -> None:
    lines = (
        'net "": x, n -> y, a_0\n Abs(x) -> a_0\n onnx.Loop(n, "", x) -> y  body={\n net "body": i, go, h -> go, a_1\n'
    )
    net = lines + " Relu(h) -> a\n Sigmoid(a) -> a_1\n }"
    before = pair_of(net, {"n": np.array(3)}, SHAPES)
    outcome = applied(PASS, net, {"n": np.array(3)}, SHAPES)
    assert outcome.report.steps
    assert_same_numbers(before, outcome.after, {"x": X})
