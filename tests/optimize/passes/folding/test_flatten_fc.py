"""Fully connected layers flatten their input themselves."""

from __future__ import annotations

import numpy as np
import pytest

from optimize.passes.folding.flatten_fc import PASS
from tests.optimize.kinds import flat_layer
from tests.optimize.nets import applied, assert_keeps_numbers, refusals

WEIGHTS = {"w": np.ones((3, 24), np.float32), "b": np.ones(3, np.float32)}
SHAPES = {"x": ("batch", 2, 3, 4)}


@pytest.mark.parametrize(
    "view",
    [
        "Flatten(x) -> a",
        "Reshape(x) -> a, a_old  shape=[0, -1]",
        "Reshape(x) -> a, a_old  shape=[-1, 24]",
        "Reshape(x) -> a, a_old  shape=[0, 6, 4]",
        "onnx.Flatten(x) -> a",
    ],
)
def test_the_view_before_is_removed(view: str) -> None:
    outcome = applied(PASS, f'net "": x, w, b -> y\n {view}\n FC(a, w, b) -> y', WEIGHTS, SHAPES)
    assert outcome.text == ["FC(x, w, b) -> y"]


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        (
            "-> y\n Reshape(x) -> a, a_old  shape=[0, 0, -1]\n FC(a, w, b) -> y  axis=2",
            "the rows of the matrix are not those of the first dimension",
        ),
        (
            "-> y\n Flatten(x) -> a  axis=0\n FC(a, w, b) -> y",
            "the first dimension of float32[2, 2, 3, 4] changes in float32[1, 48]",
        ),
        ("-> y, z\n Flatten(x) -> a\n FC(a, w, b) -> y\n Relu(a) -> z", "'a' is read by Relu(a) -> z as well"),
        ("-> y, a\n Flatten(x) -> a\n FC(a, w, b) -> y", "'a' is an output of the net"),
        ("-> y, o\n Reshape(x) -> a, o  shape=[0, -1]\n FC(a, w, b) -> y", "'o' is an output of the net"),
    ],
)
def test_other_views_stay(net: str, reason: str) -> None:
    assert refusals(PASS, f'net "": x, w, b {net}', WEIGHTS, SHAPES) == [reason]


def test_weights_that_are_flattened_stay() -> None:
    assert refusals(PASS, 'net "": x, w, b -> y\n Flatten(w) -> a\n FC(x, a, b) -> y', WEIGHTS, SHAPES) == []


def test_only_flatten_is_removed_if_shapes_are_not_known() -> None:
    assert applied(PASS, 'net "": x, w, b -> y\n Flatten(x) -> a\n FC(a, w, b) -> y', WEIGHTS).report.steps
    reshape = 'net "": x, w, b -> y\n Reshape(x) -> a, old  shape=[-1, 24]\n FC(a, w, b) -> y'
    assert applied(PASS, reshape, WEIGHTS).reasons == ["the shape of 'x' is not known"]


def test_random_nets_compute_the_same() -> None:
    assert_keeps_numbers([PASS], [flat_layer])
