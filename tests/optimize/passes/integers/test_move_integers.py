"""Operators that move elements between DequantizeLinear and QuantizeLinear move the integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optimize.passes.integers.move_integers import PASS
from tests.optimize.nets import applied, refusals
from tests.optimize.passes.integers.qdq import DQ, Q, assert_keeps_integers, qdq, types

IMAGE = {"x": (2, 4, 7, 6)}
PADS = np.array([0, 0, 1, 2, 0, 0, 0, 1], np.int64)


@pytest.mark.parametrize(
    ("middle", "made"),
    [
        (["Transpose(X) -> y  axes=[0, 2, 3, 1]"], "Transpose"),
        (["Reshape(X) -> y, o  shape=[2, -1]"], "Reshape"),
        (["MaxPool(X) -> y  kernel=3  stride=2  pad=1"], "onnx.MaxPool"),
        (["MaxPool(X) -> y  kernel=3  stride=2  legacy_pad=3"], "onnx.MaxPool"),
        (["MaxPool(X) -> y  global_pooling=1"], "onnx.ReduceMax"),
        (["ResizeNearest(X) -> y  height_scale=2.0  width_scale=2.0"], "ResizeNearest"),
        (["PadImage(X) -> y  pads=[1, 0, 2, 1]"], "PadImage"),
        (["onnx.Pad(X, pads) -> y"], "onnx.Pad"),
        (["Concat(X, X) -> y, l  axis=1"], "Concat"),
        (["onnx.ReduceMax(X, axes) -> y"], "onnx.ReduceMax"),
    ],
)
def test_moves(middle: Any, made: str) -> None:
    more = {"pads": PADS, "axes": np.array([2, 3], np.int64)}
    same, other = (qdq(*middle, shapes=IMAGE, out=out, more=more) for out in ("s, z", "t, u"))
    assert types(applied(PASS, *same)) == [made], refusals(PASS, *same)
    assert types(applied(PASS, *other)) == [made, "armnet.LookUp"]
    assert_keeps_integers(PASS, same, other)


def test_every_part_of_a_split_keeps_its_scale() -> None:
    split = "Split(X) -> p, q  axis=1  split=[1, 3]"
    net = qdq(
        split,
        f"{Q}(p, s, z) -> p_",
        f"{DQ}(p_, s, z) -> P",
        f"{Q}(q, t, u) -> q_",
        f"{DQ}(q_, t, u) -> R",
        "Add(P, R) -> y",
        shapes=IMAGE,
    )
    outcome = applied(PASS, *net)
    assert types(outcome) == ["Split", "armnet.LookUp", "Add"]
    assert_keeps_integers(PASS, net)


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        (qdq("Transpose(x) -> y  axes=[0, 2, 3, 1]", shapes=IMAGE), "'x' is not made of integers"),
        (
            qdq("PadImage(X) -> y  pads=[1, 0, 2, 1]  value=0.013", shapes=IMAGE),
            "no integer stands for the constant that it pads with",
        ),
        (
            qdq(f"{Q}(X, t, u) -> k\n {DQ}(k, t, u) -> K", "Concat(X, K) -> y, l  axis=1", shapes=IMAGE),
            "its inputs have different scales",
        ),
        (
            qdq(
                'onnx.Resize(X, roi, sizes) -> y  mode="linear"',
                shapes=IMAGE,
                more={"sizes": np.float32([1, 1, 2, 2]), "roi": np.zeros(0, "f4")},
            ),
            "it computes new numbers between pixels",
        ),
    ],
)
def test_others_stay(net: Any, reason: str) -> None:
    assert reason in refusals(PASS, *net)


def test_a_picture_is_padded_with_the_zero_point() -> None:
    outcome = applied(PASS, *qdq("onnx.Pad(X, pads) -> y", shapes=IMAGE, out="s, z", more={"pads": PADS}))
    assert outcome.weight("x__padding") == 100
