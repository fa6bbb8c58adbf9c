"""Zeros around an image become the padding of the operator that reads it."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np
import pytest

from optimize.passes.folding.fold_padding import PASS
from tests.optimize.kinds import padding
from tests.optimize.nets import applied, assert_keeps_numbers, assert_same_numbers, refusals

SHAPES = {"x": (1, 2, 6, 7)}
INPUT = {"x": np.random.default_rng(1).standard_normal(SHAPES["x"]).astype(np.float32)}
WEIGHTS: Dict[str, Any] = {
    "w": np.random.default_rng(2).standard_normal((3, 2, 3, 3)).astype(np.float32),
    "pads": np.array([0, 0, 1, 0, 0, 0, 2, 1]),
    "zero": np.float32(0),
    "one": np.float32(1),
}


def outcome_of(pad: str, reader: str, extra: str = "") -> Any:
    return applied(PASS, f'net "": x, w, pads, zero, one -> y\n{extra} {pad}\n {reader}', WEIGHTS, SHAPES)


@pytest.mark.parametrize(
    "pad",
    [
        "PadImage(x) -> a  pad_t=1  pad_l=0  pad_b=2  pad_r=1",
        "onnx.Pad(x, pads) -> a",
        "onnx.Pad(x, pads, zero) -> a",
        "PadImage(x) -> a  pads=[1, 0, 2, 1]",
    ],
)
def test_into_a_convolution(pad: str) -> None:
    outcome = outcome_of(pad, "Conv(a, w) -> y  kernel=3  pad=1")
    assert outcome.text == ["Conv(x, w) -> y  kernel=3  pads=[2, 1, 3, 2]"]
    assert_same_numbers(outcome.before, outcome.after, INPUT)


def test_into_an_average_pool_the_zeros_count() -> None:
    outcome = outcome_of("PadImage(x) -> a  pad=1", "AveragePool(a) -> y  kernel=3  stride=2")
    assert outcome.text == ["AveragePool(x) -> y  kernel=3  stride=2  pads=[1, 1, 1, 1]  count_include_pad=1"]
    assert_same_numbers(outcome.before, outcome.after, INPUT, terms=1)


def test_into_a_max_pool_of_a_blob_that_is_never_negative() -> None:
    outcome = outcome_of("PadImage(r) -> a  pad=1", "MaxPool(a) -> y  kernel=3  stride=2", " Relu(x) -> r\n")
    assert outcome.text == ["Relu(x) -> r", "MaxPool(r) -> y  kernel=3  stride=2  pads=[1, 1, 1, 1]"]
    assert_same_numbers(outcome.before, outcome.after, INPUT)


def test_channels_last() -> None:
    net = 'net "": x, w -> y\n PadImage(x) -> a  pad=1  order="NHWC"\n Conv(a, w) -> y  kernel=3  order="NHWC"'
    outcome = applied(PASS, net, {"w": WEIGHTS["w"].transpose(0, 2, 3, 1)}, {"x": (1, 6, 7, 2)})
    assert outcome.text == ['Conv(x, w) -> y  kernel=3  order="NHWC"  pads=[1, 1, 1, 1]']


@pytest.mark.parametrize(
    ("pad", "reader", "reason"),
    [
        ("PadImage(x) -> a  pad=1  value=1.0", "Conv(a, w) -> y  kernel=3", "it does not pad with zeros"),
        ('PadImage(x) -> a  pad=1  mode="edge"', "Conv(a, w) -> y  kernel=3", "it does not pad with zeros"),
        ("onnx.Pad(x, pads, one) -> a", "Conv(a, w) -> y  kernel=3", "it does not pad with zeros"),
        ("PadImage(x) -> a  pads=[-1, 0, 0, 0]", "Conv(a, w) -> y  kernel=3", "it removes elements"),
        (
            "PadImage(x) -> a  pad=1",
            "MaxPool(a) -> y  kernel=3",
            "the zeros may be the maximum where the image is negative",
        ),
        (
            "PadImage(x) -> a  pad=1",
            "AveragePool(a) -> y  kernel=3  pad=1",
            "the zeros count in the average, the pool's own padding does not",
        ),
        (
            "PadImage(x) -> a  pad=1",
            "AveragePool(a) -> y  global_pooling=1",
            "a pool over the whole image has no padding",
        ),
        (
            "PadImage(x) -> a  pads=[1, 0, 0, 0]",
            "AveragePool(a) -> y  kernel_h=1  kernel_w=3",
            "the padding of a pool must be smaller than its kernel",
        ),
        (
            "PadImage(x) -> a  pad=1",
            "Conv(a, w) -> y  kernel=3  legacy_pad=2",
            "legacy_pad derives the padding from the size of the image",
        ),
        (
            "PadImage(x) -> a  pad=1",
            'Conv(a, w) -> y  kernel=3  order="NHWC"',
            "it pads other dimensions than those of the image",
        ),
    ],
)
def test_padding_that_cannot_be_folded_stays(pad: str, reader: str, reason: str) -> None:
    assert refusals(PASS, f'net "": x, w, pads, zero, one -> y\n {pad}\n {reader}', WEIGHTS) == [reason]


def test_weights_that_are_padded_stay() -> None:
    net = 'net "": x, w -> y\n PadImage(w) -> a  pad=1\n Conv(x, a) -> y  kernel=5'
    assert refusals(PASS, net, {"w": WEIGHTS["w"]}, SHAPES) == []


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        (
            "-> y, z\n PadImage(x) -> a  pad=1\n Conv(a, w) -> y  kernel=3\n Relu(a) -> z",
            "'a' is read by Relu(a) -> z as well",
        ),
        ("-> a, y\n PadImage(x) -> a  pad=1\n Conv(a, w) -> y  kernel=3", "'a' is an output of the net"),
    ],
)
def test_a_padded_image_that_others_need_stays(net: str, reason: str) -> None:
    assert refusals(PASS, f'net "": x, w {net}', {"w": WEIGHTS["w"]}, SHAPES) == [reason]


def test_random_nets_compute_the_same() -> None:
    assert_keeps_numbers([PASS], [padding], terms=1, examples=100)
