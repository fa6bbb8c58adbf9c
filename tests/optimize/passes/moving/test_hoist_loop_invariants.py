"""What a loop carries unchanged is read from around it."""

from __future__ import annotations

import numpy as np
import pytest

from optimize import optimize
from optimize.passes.moving.hoist_loop_invariants import PASS
from tests.optimize.nets import applied, assert_same_numbers, pair_of, refusals

LOOP = """
    net "": n, x, w, b -> y, w2, ys
    onnx.Loop(n, "", w, x, b) -> w2, y, "", ys  body={
        net "body": i, go, kernel, h, bias -> go, kernel, out, bias, part
        Mul(h, kernel) -> a
        onnx.Add(a, bias) -> out
        Sigmoid(a) -> part
    }"""
SCAN = """
    net "": w, h, xs -> last, ys
    onnx.Scan(w, h, xs) -> "", last, ys  num_scan_inputs=1 body={
        net "body": k, s, x -> k, out, y
        Mul(s, k) -> a
        onnx.Add(a, x) -> out
        Copy(out) -> y
    }"""
RANDOM = np.random.default_rng(5)
X, W, B = (RANDOM.standard_normal(4).astype(np.float32) for _ in range(3))
XS = RANDOM.standard_normal((5, 4)).astype(np.float32)


def test_what_a_loop_carries_unchanged_is_read_from_around_it() -> None:
    assert applied(PASS, LOOP, {"w": W}).text == [
        'onnx.Loop(n, "", x) -> y, ys  body={',
        'net "body": i, go, h -> go, out, part',
        "Mul(h, w) -> a",
        "onnx.Add(a, b) -> out",
        "Sigmoid(a) -> part",
        "}",
        "Copy(w) -> w2",
    ]
    assert applied(PASS, SCAN).text == [
        "onnx.Scan(h, xs) -> last, ys  num_scan_inputs=1  body={",
        'net "body": s, x -> out, y',
        "Mul(s, w) -> a",
        "onnx.Add(a, x) -> out",
        "Copy(out) -> y",
        "}",
    ]


@pytest.mark.parametrize("trips", [0, 1, 4])
def test_loops_compute_the_same(trips: int) -> None:
    pair = pair_of(LOOP, {"w": W}, {"x": (4,), "b": (4,)})
    result = optimize(pair)
    assert len(result.predict_net.op[0].input) == 3
    for feed in (X, 2 * X):
        feeds = {"n": np.array(trips, np.int64), "x": feed, "b": B}
        assert_same_numbers(pair, result, feeds, terms=100, layers=6)


def test_scans_compute_the_same() -> None:
    pair = pair_of(SCAN, {"w": W}, {"h": (4,), "xs": (5, 4)})
    result = optimize(pair)
    assert len(result.predict_net.op[0].input) == 2
    assert_same_numbers(pair, result, {"h": X, "xs": XS}, terms=100, layers=6)


def body(text: str, *lines: str) -> str:
    inside = "\n".join(lines)
    return f'net "": n, x, w -> y\n onnx.Loop(n, "", w, x) -> "", y  body={{\n net "body": {text}\n {inside}\n }}'


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        (body("i, go, k, h -> go, k, out", "Relu(h) -> w", "Mul(w, k) -> out"), "'w' means something else in the body"),
        (
            body("i, go, k, h -> go, k, out", "If(go) -> out  then_net={\n Mul(h, k) -> out\n }"),
            "a net inside the body knows 'k'",
        ),
        (body("i, go, k, h -> go, k, k", "Relu(h) -> out"), "'k' is more than a carried blob"),
    ],
)
def test_what_has_two_meanings_stays(net: str, reason: str) -> None:
    assert refusals(PASS, net, {"w": W}) == [reason]


def test_what_changes_is_carried() -> None:
    swapped = body("i, go, k, h -> go, h, k", "Relu(h) -> out")
    assert not applied(PASS, swapped, {"w": W}).report.steps
    trip = body("i, go, k, h -> go, out, h2", "Mul(h, k) -> out", "Copy(h) -> h2")
    assert not applied(PASS, trip, {"w": W}).report.steps


def test_a_loop_that_has_nothing_left_to_give_goes() -> None:
    net = 'net "": n, w -> w2\n onnx.Loop(n, "", w) -> w2  body={\n net "body": i, go, k -> go, k\n Abs(k) -> u\n }'
    assert applied(PASS, net, {"w": W}).text == ["Copy(w) -> w2"]


def test_what_a_loop_hands_on_to_an_inner_one_is_taken_out_of_both() -> None:
    inner = 'onnx.Loop(m, "", k, h) -> "", out  body={\n net "inner": j, on, k2, s -> on, k2, t\n Mul(s, k2) -> t\n }'
    net = body("i, go, k, h -> go, k, out", inner).replace("n, x, w -> y", "n, m, x, w -> y")
    result = optimize(pair_of(net, {"w": W}, {"x": (4,)}))
    loop = result.predict_net.op[0]
    assert (len(loop.input), len(loop.get_net("body").op[0].input)) == (3, 3)
    feeds = {"n": np.array(2, np.int64), "m": np.array(3, np.int64), "x": X}
    assert_same_numbers(pair_of(net, {"w": W}, {"x": (4,)}), result, feeds, terms=100, layers=6)
