"""Sums, products of elements, means and joined blobs between DequantizeLinear and QuantizeLinear."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optimize.passes.integers.combine_integers import PASS
from tests.optimize.nets import applied, refusals
from tests.optimize.passes.integers.qdq import DQ, Q, assert_keeps_integers, qdq, types

IMAGE = {"x": (2, 4, 7, 6)}
TWO = {"x": (2, 3, 5), "a": (2, 3, 5)}
ELSE = f"{Q}(A, t, u) -> k\n {DQ}(k, t, u) -> K"


@pytest.mark.parametrize(
    ("net", "made"),
    [
        (qdq("Add(X, A) -> y", shapes=TWO), ["QLinearAdd"]),
        (qdq("onnx.Mul(X, A) -> y", shapes={"x": (2, 3, 5), "a": (3, 1)}), ["QLinearMul"]),
        (qdq("Sum(X, A) -> v", "Relu(v) -> y", shapes=TWO, out="t, o", more={"o": np.uint8(0)}), ["QLinearAdd"]),
        (qdq("AveragePool(X) -> y  global_pooling=1", shapes=IMAGE), ["QLinearGlobalAveragePool"]),
        (qdq("AveragePool(X) -> y  kernel=3  pad=1  stride=2", shapes=IMAGE), ["QLinearAveragePool"]),
        (qdq("ReduceMean(X) -> y  axes=[2, 3]", shapes=IMAGE), ["QLinearGlobalAveragePool"]),
        (qdq("ReduceMean(X) -> y  axes=[3]  keepdims=0", shapes=IMAGE), ["QLinearReduceMean"]),
        (qdq("Softmax(X) -> y", shapes=IMAGE), ["QLinearSoftmax"]),
        (qdq("onnx.Softmax(X) -> y  axis=1", shapes=IMAGE), ["QLinearSoftmax"]),
        (qdq(ELSE, "Concat(X, K) -> y, l  axis=2", shapes=TWO), ["QLinearConcat"]),
    ],
    ids=lambda value: "" if isinstance(value, tuple) else value[0],
)
def test_combinations(net: Any, made: Any) -> None:
    outcome = applied(PASS, *net)
    assert [one.split(".")[-1] for one in types(outcome)] == made
    assert_keeps_integers(PASS, net)


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        (qdq("Add(X, a) -> y", shapes=TWO), "'a' is not made of integers"),
        (qdq("Sum(X, A, X) -> y", shapes=TWO), "it does not have two operands that broadcast as in NumPy"),
        (qdq("Add(X, A) -> y", shapes=TWO, out="t, i"), "its inputs and its output are integers of different types"),
        (qdq("AveragePool(X) -> y  kernel=3  legacy_pad=2", shapes=IMAGE), "its padding depends on sizes, or"),
        (qdq("Concat(X, A) -> y, l  axis=0  add_axis=1", shapes=TWO), "it joins along a new axis, or"),
    ],
)
def test_others_stay(net: Any, reason: str) -> None:
    assert any(reason in one for one in refusals(PASS, *net))
