"""Functions of one number between DequantizeLinear and QuantizeLinear become tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optimize.passes.integers.look_up_integers import PASS
from tests.optimize.nets import applied, refusals
from tests.optimize.passes.integers.qdq import DQ, PARAMETERS, Q, assert_keeps_integers, qdq, types

IMAGE = {"x": (2, 4, 7, 6)}
MORE = {"two": np.float32([2]), "q": np.uint8([9])}


@pytest.mark.parametrize(
    "middle",
    [
        ["Sigmoid(X) -> y"],
        ["Relu(X) -> a", "Tanh(a) -> y"],
        ["Sigmoid(X) -> a", "Mul(X, a) -> y"],
        ["onnx.HardSwish(X) -> y"],
        ["Div(X, two) -> y"],
        [f"{DQ}(q, s, z) -> k", "Add(X, k) -> y"],
    ],
)
def test_functions(middle: Any) -> None:
    net = qdq(*middle, shapes=IMAGE, more=MORE)
    assert types(applied(PASS, *net))[-1] == "armnet.LookUp"
    assert_keeps_integers(PASS, net)


def test_a_table_holds_what_floats_give() -> None:
    outcome = applied(PASS, *qdq("Sigmoid(X) -> y", shapes=IMAGE))
    reals = np.float32(0.02) * (np.arange(256) - 100).astype(np.float32)
    steps = np.rint((1 / (1 + np.exp(-reals.astype(np.float64)))).astype(np.float32) / np.float32(0.05)) + 128
    np.testing.assert_array_equal(outcome.weight("y__table"), steps.astype(np.uint8))


def test_what_becomes_the_same_integers_again_is_removed() -> None:
    outcome = applied(
        PASS, *qdq("Transpose(X) -> k", f"{Q}(k, s, z) -> k_", f"{DQ}(k_, s, z) -> y", shapes=IMAGE, out="s, z")
    )
    assert [op.type for op in outcome.after.predict_net.op].count("QuantizeLinear") == 2
    assert PARAMETERS["s"] == np.float32(0.02)


@pytest.mark.parametrize(
    "middle",
    [["Sigmoid(x) -> y"], ["Add(X, A) -> y"], ["Softmax(X) -> y"], ["Add(X, wide) -> y"], ["PRelu(X, wide) -> y"]],
)
def test_others_stay(middle: Any) -> None:
    shapes = {"x": (2, 3), "a": (2, 3)}
    assert not refusals(PASS, *qdq(*middle, shapes=shapes, more={"wide": np.float32([1, 2, 3])}))
