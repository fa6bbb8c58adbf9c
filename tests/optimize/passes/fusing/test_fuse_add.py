"""An addition is fused into the convolution or normalisation that computes one of its terms."""

from __future__ import annotations

import numpy as np
import pytest

from optimize.passes.fusing.fuse_add import PASS
from tests.optimize.kinds import residual
from tests.optimize.nets import applied, assert_keeps_numbers, refusals

WEIGHTS = {"w": np.ones((2, 2, 3, 3), np.float32), "v": np.ones((2, 2, 1, 1), np.float32), "b": np.ones(2, np.float32)}
SHAPES = {"x": ("batch", 2, "height", "width"), "r": ("batch", 2, "height", "width")}
HEAD = 'net "": x, w, v, b '


@pytest.mark.parametrize("addition", ["Add(a, x)", "Add(x, a)", "Sum(a, x)", "onnx.Add(x, a)", "onnx.Sum(x, a)"])
def test_into_a_convolution(addition: str) -> None:
    outcome = applied(PASS, f"{HEAD} -> y\n Conv(x, w) -> a  kernel=3  pad=1\n {addition} -> y", WEIGHTS, SHAPES)
    assert outcome.text == ['armnet.FusedConv(x, w, "", x) -> y  kernel=3  pad=1']


def test_into_a_normalisation() -> None:
    net = "-> y\n SpatialBN(x, b, b, b, b) -> a  is_test=1\n Relu(x) -> r\n Add(a, r) -> y"
    outcome = applied(PASS, HEAD + net, WEIGHTS, SHAPES)
    assert outcome.text == ["Relu(x) -> r", "armnet.FusedBatchNorm(x, b, b, b, b, r) -> y  is_test=1"]


def test_into_a_fully_connected_layer() -> None:
    outcome = applied(
        PASS,
        'net "": x, w, b -> y\n FC(x, w, b) -> a\n Add(x, a) -> y',
        {"w": np.ones((2, 2), np.float32), "b": np.ones(2, np.float32)},
        {"x": ("batch", 2)},
    )
    assert outcome.text == ["armnet.FusedFC(x, w, b, x) -> y"]


def test_of_two_into_the_last_one() -> None:
    net = "-> y\n Conv(x, v, b) -> a  kernel=1\n Conv(x, v) -> c  kernel=1\n Add(a, c) -> y"
    outcome = applied(PASS, HEAD + net, WEIGHTS, SHAPES)
    assert outcome.text == ["Conv(x, v, b) -> a  kernel=1", 'armnet.FusedConv(x, v, "", a) -> y  kernel=1']


def test_of_two_into_the_one_with_the_larger_kernel() -> None:
    net = "-> y\n Conv(x, w, b) -> a  kernel=3  pad=1\n Conv(x, v) -> c  kernel=1\n Add(a, c) -> y"
    outcome = applied(PASS, HEAD + net, WEIGHTS, SHAPES)
    assert outcome.text == ["Conv(x, v) -> c  kernel=1", "armnet.FusedConv(x, w, b, c) -> y  kernel=3  pad=1"]


def test_of_two_into_the_last_one_if_the_larger_one_must_stay() -> None:
    net = "-> y, x\n Conv(x, w, b) -> a  kernel=3  pad=1\n Conv(r, v) -> c  kernel=1\n Add(a, c) -> y\n Relu(x) -> x"
    outcome = applied(PASS, HEAD.replace("x,", "x, r,") + net, WEIGHTS, SHAPES)
    assert 'armnet.FusedConv(r, v, "", a) -> y  kernel=1' in outcome.text


def test_of_two_into_the_one_that_only_the_sum_reads() -> None:
    net = "-> a, y\n Conv(x, w, b) -> a  kernel=3  pad=1\n Conv(x, v) -> c  kernel=1\n Add(a, c) -> y"
    outcome = applied(PASS, HEAD + net, WEIGHTS, SHAPES)
    assert outcome.text == ["Conv(x, w, b) -> a  kernel=3  pad=1", 'armnet.FusedConv(x, v, "", a) -> y  kernel=1']


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        ("-> y, z\n Conv(x, v) -> a  kernel=1\n Add(a, x) -> y\n Relu(a) -> z", "'a' is read by Relu(a) -> z as well"),
        ("-> a, y\n Conv(x, v) -> a  kernel=1\n Add(a, x) -> y", "'a' is an output of the net"),
        ("-> y\n Conv(x, w) -> a  kernel=3\n Add(a, x) -> y", "'a' and 'x' are not known to have the same shape"),
        (
            "-> y\n Conv(x, v) -> a  kernel=1\n AveragePool(x) -> p  global_pooling=1\n Add(a, p) -> y",
            "'a' and 'p' are not known to have the same shape",
        ),
        ("-> y\n Conv(x, v) -> a  kernel=1\n Add(a, x) -> y  broadcast=1", "it broadcasts by Caffe2's old rule"),
        (
            "-> y, m, n, o, p\n SpatialBN(x, b, b, b, b) -> a, m, n, o, p  is_test=0\n Add(a, x) -> y",
            "'m' is an output of the net",
        ),
    ],
)
def test_sums_that_cannot_be_fused_stay(net: str, reason: str) -> None:
    assert reason in refusals(PASS, HEAD + net, WEIGHTS, SHAPES)


@pytest.mark.parametrize("total", ["Add(a, a)", "Sum(a, x, x)"])
def test_sums_that_are_not_of_two_blobs_stay(total: str) -> None:
    assert refusals(PASS, f"{HEAD} -> y\n Conv(x, v) -> a  kernel=1\n {total} -> y", WEIGHTS, SHAPES) == []


def test_nothing_is_fused_if_shapes_are_not_known() -> None:
    outcome = applied(PASS, HEAD + "-> y\n Conv(x, v) -> a  kernel=1\n Add(a, x) -> y", WEIGHTS)
    assert outcome.reasons == ["'a' and 'x' are not known to have the same shape"]


def test_random_nets_compute_the_same() -> None:
    assert_keeps_numbers([PASS], [residual], terms=1, examples=100)
