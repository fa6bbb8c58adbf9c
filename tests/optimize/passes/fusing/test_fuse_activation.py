"""Activations are applied by the convolutions and normalisations before them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optimize.layers.fused import ACTIVATIONS
from optimize.passes.fusing.fuse_activation import PASS
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.fused.fused import MAX, can_be_fused
from runtime_arm.registry.schema import registered
from tests.optimize.kinds import activated_layer, flat_layer
from tests.optimize.nets import applied, assert_keeps_numbers, assert_same_numbers, refusals

WEIGHTS = {"w": np.ones((2, 2, 1, 1), np.float32), "b": np.ones(2, np.float32), "s": np.full(2, 0.25, np.float32)}
SHAPES = {"x": (1, 2, 5, 5)}
HEAD = 'net "": x, w, b, s '


def test_whatever_can_be_fused_is_an_activation() -> None:
    operators = [OperatorDef(schema.type, domain=schema.domain) for schema in registered()]
    found = {op.full_type for op in operators if op.full_type in ACTIVATIONS}
    assert found == {op.full_type for op in operators if can_be_fused(op)} - {MAX}, "a floor is found by another pass"
    assert {"Relu", "PRelu", "LeakyRelu", "Erf", "onnx.HardSwish", "onnx.Gelu"} <= found


@pytest.mark.parametrize(
    ("activation", "arguments"),
    [
        ("Relu(a) -> y", 'activation="Relu"'),
        ("Clip(a) -> y  min=0.0  max=6.0", 'activation="Clip"  min=0.0  max=6.0'),
        ("LeakyRelu(a) -> y  alpha=0.5", 'activation="LeakyRelu"  alpha=0.5'),
        ("onnx.HardSwish(a) -> y", 'activation="onnx.HardSwish"'),
        ("Swish(a) -> y", 'activation="Swish"'),
    ],
)
@pytest.mark.parametrize(
    "layer",
    [
        "Conv(x, w, b) -> a  kernel=1",
        'armnet.FusedConv(x, w, "", x) -> a  kernel=1',
        "SpatialBN(x, b, b, b, b) -> a  is_test=1",
        "armnet.FusedBatchNorm(x, b, b, b, b, x) -> a  is_test=1",
    ],
)
def test_into_the_operator_before(layer: str, activation: str, arguments: str) -> None:
    outcome = applied(PASS, f"{HEAD} -> y\n {layer}\n {activation}", WEIGHTS, SHAPES)
    fused = layer.replace("-> a", "-> y").replace("armnet.", "")
    fused = fused.replace("SpatialBN", "FusedBatchNorm").replace("Conv(x, w, b)", "FusedConv(x, w, b)")
    assert outcome.text == [f"armnet.{fused}  {arguments}"]
    feed = {"x": np.random.default_rng(0).standard_normal(SHAPES["x"]).astype(np.float32)}
    assert_same_numbers(outcome.before, outcome.after, feed, terms=1)


@pytest.mark.parametrize(
    ("layer", "fused"),
    [
        ("Conv(x, w) -> a  kernel=1", 'armnet.FusedConv(x, w, "", "", s) -> y  kernel=1  activation="PRelu"'),
        (
            "SpatialBN(x, b, b, b, b) -> a  is_test=1",
            'armnet.FusedBatchNorm(x, b, b, b, b, "", s) -> y  is_test=1  activation="PRelu"',
        ),
    ],
)
def test_prelus_slope_is_an_input(layer: str, fused: str) -> None:
    outcome = applied(PASS, f"{HEAD} -> y\n {layer}\n PRelu(a, s) -> y", WEIGHTS, SHAPES)
    assert outcome.text == [fused]
    feed = {"x": np.random.default_rng(0).standard_normal(SHAPES["x"]).astype(np.float32)}
    assert_same_numbers(outcome.before, outcome.after, feed, terms=1)


@pytest.mark.parametrize(
    ("layer", "w", "fused"),
    [
        ("FC(x, w, b) -> a", (2, 50), "FusedFC(x, w, b"),
        ("FCTransposed(x, w, b) -> a", (50, 2), "FusedFCTransposed(x, w, b"),
        ("ConvTranspose(x, w, b) -> a  kernel=2  stride=2", (2, 2, 2, 2), "FusedConvTranspose(x, w, b"),
    ],
)
@pytest.mark.parametrize("activation", ["Relu(a) -> y", "onnx.HardSwish(a) -> y", "PRelu(a, s) -> y"])
def test_into_fully_connected_and_transposed_layers(layer: str, w: Any, fused: str, activation: str) -> None:
    weights = {**WEIGHTS, "w": np.random.default_rng(1).standard_normal(w).astype(np.float32)}
    outcome = applied(PASS, f"{HEAD} -> y\n {layer}\n {activation}", weights, SHAPES)
    assert len(outcome.text) == 1
    assert outcome.text[0].startswith(f"armnet.{fused}")
    feed = {"x": np.random.default_rng(0).standard_normal(SHAPES["x"]).astype(np.float32)}
    assert_same_numbers(outcome.before, outcome.after, feed, terms=1)


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        ("-> y\n FC(x, w, b) -> a  axis=2\n PRelu(a, s) -> y", "the channels lie in different dimensions"),
        ("-> y, z\n Conv(x, w) -> a  kernel=1\n Clip(a) -> y\n Relu(a) -> z", "'a' is read by Relu(a) -> z as well"),
        ("-> a, y\n Conv(x, w) -> a  kernel=1\n Clip(a) -> y", "'a' is an output of the net"),
        (
            '-> y\n armnet.FusedConv(x, w) -> a  kernel=1  activation="Relu"\n Clip(a) -> y',
            "it has an activation already",
        ),
        (
            '-> y\n Conv(x, w) -> a  kernel=1\n PRelu(a, s) -> y  order="NHWC"',
            "the channels lie in different dimensions",
        ),
    ],
)
def test_activations_that_cannot_be_fused_stay(net: str, reason: str) -> None:
    outcome = applied(PASS, HEAD + net, WEIGHTS)
    assert reason in outcome.reasons
    assert "activation" not in outcome.text[-1]


def test_a_slope_that_is_computed_stays() -> None:
    assert refusals(PASS, HEAD + "-> y\n Conv(x, w) -> a  kernel=1\n PRelu(x, a) -> y", WEIGHTS) == []


def test_a_normalisation_in_training_stays() -> None:
    net = "-> y\n SpatialBN(x, b, b, b, b) -> a  is_test=0\n Relu(a) -> y"
    outcome = applied(PASS, HEAD + net, WEIGHTS)
    assert outcome.reasons == ["the normalisation takes its statistics from each batch"]


def test_random_nets_compute_the_same() -> None:
    assert_keeps_numbers([PASS], [activated_layer, flat_layer], terms=1, examples=100)
