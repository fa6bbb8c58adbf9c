"""Conv and Relu become ConvRelu."""

from __future__ import annotations

import numpy as np
import pytest

from optimize.passes.fusing.fuse_relu import PASS
from tests.optimize.kinds import rectified_convolution
from tests.optimize.nets import applied, assert_keeps_numbers, refusals

WEIGHTS = {"w": np.ones((3, 2, 3, 3), np.float32)}


@pytest.mark.parametrize("relu", ["Relu", "onnx.Relu"])
def test_two_become_one(relu: str) -> None:
    net = f'net "": x, w -> y\n Conv(x, w) -> a  engine=NNPACK  kernel=3  pad=1\n {relu}(a) -> y'
    outcome = applied(PASS, net, WEIGHTS)
    assert outcome.text == ["ConvRelu(x, w) -> y  engine=NNPACK  kernel=3  pad=1"]


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        (
            "-> y, z\n Conv(x, w) -> a  kernel=3\n Relu(a) -> y\n Sigmoid(a) -> z",
            "'a' is read by Sigmoid(a) -> z as well",
        ),
        ("-> a, y\n Conv(x, w) -> a  kernel=3\n Relu(a) -> y", "'a' is an output of the net"),
    ],
)
def test_blobs_that_others_need_stay(net: str, reason: str) -> None:
    assert refusals(PASS, f'net "": x, w {net}', WEIGHTS) == [reason]


def test_other_activations_and_other_layers_stay() -> None:
    for layer, activation in (("Conv", "Sigmoid"), ("ConvTranspose", "Relu"), ("onnx.Conv", "Relu")):
        net = f'net "": x, w -> y\n {layer}(x, w) -> a  kernel=3\n {activation}(a) -> y'
        assert not applied(PASS, net, WEIGHTS).report.steps


def test_random_nets_compute_the_same() -> None:
    assert_keeps_numbers([PASS], [rectified_convolution])
