"""GELU is recognised when it is written out."""

from __future__ import annotations

import numpy as np
import pytest

from optimize.passes.composing.compose_gelu import PASS
from tests.optimize.kinds import spelled_gelu
from tests.optimize.nets import applied, assert_keeps_numbers, assert_same_numbers, refusals

NUMBERS = {
    "one": np.float32(1),
    "half": np.full(1, 0.5, np.float32),
    "three": np.float32(3),
    "root": np.float32(2**0.5),
    "inverse": np.float32(0.5**0.5),
    "cubic": np.float32(0.044715),
    "scale": np.float32(0.7978845608),
}
HEAD = f'net "": x, {", ".join(NUMBERS)} '
FEED = {"x": np.linspace(-6, 6, 40, dtype=np.float32)}
LAST = {
    "at the end": "Mul(x, s) -> m\n Mul(m, half) -> y",
    "at first": "Mul(half, x) -> m\n Mul(m, s) -> y",
    "beside": "Mul(s, half) -> m\n Mul(x, m) -> y",
}


@pytest.mark.parametrize("last", LAST.values(), ids=LAST)
@pytest.mark.parametrize("inner", ["Div(x, root)", "onnx.Mul(inverse, x)"])
def test_the_exact_one_is_recognised(last: str, inner: str) -> None:
    net = f"{HEAD} -> y\n {inner} -> a\n onnx.Erf(a) -> e\n Add(e, one) -> s\n {last}"
    outcome = applied(PASS, net, NUMBERS, {"x": (40,)})
    assert outcome.text == ['onnx.Gelu(x) -> y  approximate="none"']
    assert_same_numbers(outcome.before, outcome.after, FEED, terms=1)


@pytest.mark.parametrize("last", LAST.values(), ids=LAST)
@pytest.mark.parametrize("cube", ["Pow(x) -> c  exponent=3.0", "onnx.Pow(x, three) -> c", "Cube(x) -> c"])
def test_the_approximation_is_recognised(last: str, cube: str) -> None:
    tanh = "Mul(c, cubic) -> d\n Add(x, d) -> a\n Mul(a, scale) -> b\n Tanh(b) -> t\n Add(one, t) -> s"
    outcome = applied(PASS, f"{HEAD} -> y\n {cube}\n {tanh}\n {last}", NUMBERS, {"x": (40,)})
    assert outcome.text == ['onnx.Gelu(x) -> y  approximate="tanh"']
    assert_same_numbers(outcome.before, outcome.after, FEED, terms=1)


SPELLED = "Div(x, root) -> a\n onnx.Erf(a) -> e\n Add(e, one) -> s\n Mul(x, s) -> m\n"


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        (f"-> y, z\n {SPELLED} Mul(m, half) -> y\n Relu(e) -> z", "'e' is read by Relu(e) -> z as well"),
        (f"-> y, m\n {SPELLED} Mul(m, half) -> y", "'m' is an output of the net"),
    ],
)
def test_blobs_that_others_need_stay(net: str, reason: str) -> None:
    assert reason in refusals(PASS, HEAD + net, NUMBERS, {"x": (40,)})


@pytest.mark.parametrize("last", ["Mul(m, three)", "Add(m, half)"])
def test_other_formulas_stay(last: str) -> None:
    assert not applied(PASS, f"{HEAD} -> y\n {SPELLED} {last} -> y", NUMBERS, {"x": (40,)}).report.steps


def test_blobs_of_unknown_shape_stay() -> None:
    assert refusals(PASS, f"{HEAD} -> y\n {SPELLED} Mul(m, half) -> y", NUMBERS)


def test_random_nets_compute_the_same() -> None:
    assert_keeps_numbers([PASS], [spelled_gelu], terms=1)
