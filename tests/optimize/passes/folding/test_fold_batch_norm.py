"""Batch normalisations and similar operators are folded into the layers next to them."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np
import pytest

from optimize.passes.folding.fold_batch_norm import PASS
from tests.optimize.kinds import convolving, normalising, scaling
from tests.optimize.nets import applied, assert_keeps_numbers, assert_same_numbers


def weights(seed: int = 0, **shapes: Any) -> Dict[str, np.ndarray]:
    """Random weights of these shapes; those called ``v...`` are positive."""
    random = np.random.default_rng(seed)
    drawn = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    return {name: np.abs(value) + np.float32(0.5) if name.startswith("v") else value for name, value in drawn.items()}


BN = {"s": 4, "t": 4, "m": 4, "v": 4}
INPUT = {"x": np.random.default_rng(9).standard_normal((2, 4, 5, 5)).astype(np.float32)}
SHAPES = {"x": (2, 4, 5, 5)}


def folded(layer: str, behind: str, shapes: Dict[str, Any]) -> Any:
    """The outcome for a layer and the operators after it; the results are checked."""
    names = ", ".join(["x", *shapes])
    outcome = applied(PASS, f'net "": {names} -> y\n {layer}\n {behind}', weights(**shapes), SHAPES)
    assert_same_numbers(outcome.before, outcome.after, INPUT, terms=36, layers=3)
    return outcome


@pytest.mark.parametrize(
    ("layer", "w"),
    [
        ("Conv(x, w) -> a  kernel=3", (4, 4, 3, 3)),
        ("Conv(x, w) -> a  kernel=3  pad=1  group=2", (4, 2, 3, 3)),
        ("Conv(x, w) -> a  kernel=1  group=4", (4, 1, 1, 1)),
        ("ConvTranspose(x, w) -> a  kernel=2  stride=2", (4, 4, 2, 2)),
        ("ConvTranspose(x, w) -> a  kernel=2  group=2", (4, 2, 2, 2)),
    ],
)
def test_after_a_convolution_it_becomes_weights_and_bias(layer: str, w: Any) -> None:
    outcome = folded(layer, "SpatialBN(a, s, t, m, v) -> y  is_test=1", {"w": w, **BN})
    assert outcome.text == [layer.replace("(x, w) -> a", "(x, w_folded, w_bias_folded) -> y")]


@pytest.mark.parametrize("layer", ["FC", "FCTransposed"])
def test_after_a_fully_connected_layer(layer: str) -> None:
    w = (4, 100) if layer == "FC" else (100, 4)
    outcome = folded(f"{layer}(x, w, b) -> a", "SpatialBN(a, s, t, m, v) -> y  is_test=1", {"w": w, "b": 4, **BN})
    assert outcome.text == [f"{layer}(x, w_folded, b_folded) -> y"]


@pytest.mark.parametrize(
    ("behind", "shape"),
    [
        ("Mul(a, c) -> y", (4, 1, 1)),
        ("Mul(c, a) -> y", (1, 4, 1, 1)),
        ("Add(a, c) -> y", (4, 1, 1)),
        ("Sub(a, c) -> y", (4, 1, 1)),
        ("Sub(c, a) -> y", (4, 1, 1)),
        ("Div(a, c) -> y", (4, 1, 1)),
        ("Mul(a, c) -> y", ()),
        ("Mul(a, c) -> y  broadcast=1  axis=1", (4,)),
        ("Add(a, c) -> y  broadcast=1", (4, 1, 1)),
        ("onnx.Add(a, c) -> y", (1,)),
        ("AffineChannel(a, c, b) -> y", (4,)),
    ],
)
def test_arithmetic_by_channel_is_folded_too(behind: str, shape: Any) -> None:
    layer = "Conv(x, w, b) -> a  kernel=3"
    outcome = folded(layer, behind, {"w": (4, 4, 3, 3), "b": 4, "c": shape})
    assert len(outcome.text) == 1


def test_without_a_shift_no_bias_appears() -> None:
    outcome = folded("Conv(x, w) -> a  kernel=3", "Mul(a, c) -> y", {"w": (4, 4, 3, 3), "c": (4, 1, 1)})
    assert outcome.text == ["Conv(x, w_folded) -> y  kernel=3"]


def test_channels_last() -> None:
    shapes = {"w": (4, 3, 3, 4), **BN}
    net = (
        f'net "": {", ".join(["x", *shapes])} -> y\n Conv(x, w) -> a  kernel=3  order="NHWC"\n '
        'SpatialBN(a, s, t, m, v) -> y  is_test=1  order="NHWC"'
    )
    outcome = applied(PASS, net, weights(**shapes), {"x": (2, 5, 5, 4)})
    assert len(outcome.text) == 1
    assert_same_numbers(
        outcome.before, outcome.after, {"x": INPUT["x"].transpose(0, 2, 3, 1).copy()}, terms=36, layers=3
    )


@pytest.mark.parametrize(
    ("layer", "w"),
    [
        ("Conv(a, w, b) -> y  kernel=3", (4, 4, 3, 3)),
        ("Conv(a, w, b) -> y  kernel=3  group=2", (4, 2, 3, 3)),
        ("Conv(a, w, b) -> y  kernel=3  legacy_pad=1", (4, 4, 3, 3)),
        ("FC(a, w, b) -> y", (4, 100)),
        ("FCTransposed(a, w, b) -> y", (100, 4)),
    ],
)
def test_before_a_layer_it_becomes_weights_and_bias(layer: str, w: Any) -> None:
    before = "SpatialBN(x, s, t, m, v) -> a  is_test=1"
    outcome = folded(before, layer, {"w": w, "b": 4, **BN})
    assert outcome.text == [layer.replace("(a, w, b)", "(x, w_folded, b_folded)")]


def test_before_padding_only_a_scale_is_folded() -> None:
    layer = "Conv(a, w) -> y  kernel=3  pad=1"
    scaled = folded("Mul(x, c) -> a", layer, {"c": (4, 1, 1), "w": (4, 4, 3, 3)})
    assert scaled.text == ["Conv(x, w_folded) -> y  kernel=3  pad=1"]
    shifted = folded("Add(x, c) -> a", layer, {"c": (4, 1, 1), "w": (4, 4, 3, 3)})
    assert not shifted.report.steps
    assert shifted.reasons == ["the layer pads with zeros, which the shift would not reach"]


def test_consecutive_ones_are_folded_one_by_one() -> None:
    outcome = folded(
        "Conv(x, w) -> a  kernel=1",
        "SpatialBN(a, s, t, m, v) -> b  is_test=1\n Mul(b, c) -> d\n Add(d, e) -> y",
        {"w": (4, 4, 1, 1), **BN, "c": (4, 1, 1), "e": (4, 1, 1)},
    )
    assert outcome.text == ["Conv(x, w_folded_2, w_bias_folded_2) -> y  kernel=1"]
    assert outcome.report.steps_by_pass() == {"fold_batch_norm": 3}


def test_weights_that_another_layer_reads_stay() -> None:
    shapes = {"w": (4, 4, 1, 1), "c": (4, 1, 1)}
    net = 'net "": x, w, c -> y, z\n Conv(x, w) -> a  kernel=1\n Mul(a, c) -> y\n Conv(x, w) -> z  kernel=1'
    outcome = applied(PASS, net, weights(**shapes), SHAPES)
    assert outcome.text == ["Conv(x, w_folded) -> y  kernel=1", "Conv(x, w) -> z  kernel=1"]
    assert_same_numbers(outcome.before, outcome.after, INPUT, terms=36, layers=3)


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        ("-> y, z\n Conv(x, w) -> a  kernel=1\n Mul(a, c) -> y\n Relu(a) -> z", "'a' is read by Relu(a) -> z as well"),
        ("-> a, y\n Conv(x, w) -> a  kernel=1\n Mul(a, c) -> y", "'a' is an output of the net"),
        ("-> y\n Conv(x, x2) -> a  kernel=1\n Mul(a, c) -> y", "'x2' is not a constant float"),
        (
            "-> y\n Conv(x, w) -> a  kernel=1\n Mul(a, p) -> y",
            "the weight of shape (5, 5) is not one number for each channel",
        ),
        ("-> y\n Conv(x, w) -> a  kernel=1\n Div(c, a) -> y", "it divides a weight by the blob"),
        ("-> y\n Conv(x, w) -> a  kernel=1\n Div(a, zero) -> y", "a factor is not finite"),
        ("-> y\n Conv(x, w) -> a  kernel=1\n Mul(a, huge) -> b\n Mul(b, huge) -> y", "a product is not finite"),
        (
            "-> y\n Conv(x, w) -> a  kernel=1\n SpatialBN(a, c, c, c, c) -> y, rm, rv, sm, sv  is_test=0",
            "the normalisation takes its statistics from each batch",
        ),
        (
            '-> y\n Conv(x, w) -> a  kernel=1\n SpatialBN(a, c, c, c, v) -> y  is_test=1  order="NHWC"',
            "the channels lie in different dimensions",
        ),
        ("-> y\n Conv(x, w) -> a  kernel=1\n SpatialBN(a, c, c, c, x2) -> y  is_test=1", "'x2' is not constant"),
        (
            "-> y\n Add(x, c) -> a\n ConvTranspose(a, w) -> y  kernel=1",
            "a transposed convolution spreads the shift unevenly",
        ),
        (
            "-> y\n Conv(x, w, c) -> a  kernel=1\n Mul(a, c) -> y",
            "the bias of shape (4, 1, 1) is not one number for each output",
        ),
        ("-> y\n Mul(x2, c) -> a\n Conv(a, w) -> y  kernel=1", "the channels of 'x2' are not known"),
    ],
)
def test_operators_that_cannot_be_folded_stay(net: str, reason: str) -> None:
    shapes = {"w": (4, 4, 1, 1), "c": (4, 1, 1), "p": (5, 5), "v": 4}
    drawn = {**weights(**shapes), "zero": np.zeros(1, np.float32), "huge": np.full((4, 1, 1), 3e38, np.float32)}
    outcome = applied(PASS, f'net "": x, x2, {", ".join(drawn)} {net}', drawn, SHAPES)
    assert reason in outcome.reasons
    assert outcome.text == [line.strip() for line in net.splitlines()[1:]] or "huge" in net


def test_a_scale_that_broadcasts_one_channel_is_not_folded() -> None:
    net = 'net "": x, w, c -> y\n Mul(x, c) -> a\n Conv(a, w) -> y  kernel=1'
    outcome = applied(PASS, net, weights(w=(4, 4, 1, 1), c=(4, 1, 1)), {"x": (2, 1, 5, 5)})
    assert not outcome.report.steps


def test_float64_stays_float64() -> None:
    net = 'net "": x, w, c -> y\n Conv(x, w) -> a  kernel=1\n Mul(a, c) -> y'
    outcome = applied(PASS, net, {"w": np.ones((4, 4, 1, 1)), "c": np.full((4, 1, 1), 2.0)})
    assert outcome.weight("w_folded").dtype == np.float64


def test_random_nets_compute_the_same() -> None:
    assert_keeps_numbers([PASS], [convolving, convolving, normalising, scaling], terms=100, layers=6, examples=200)
