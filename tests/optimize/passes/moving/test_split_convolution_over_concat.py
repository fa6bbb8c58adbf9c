"""A 1x1 convolution of a concatenation becomes convolutions of its parts."""

from __future__ import annotations

import numpy as np
import pytest

from optimize.passes.moving.split_convolution_over_concat import PASS
from tests.optimize.kinds import joined_parts
from tests.optimize.nets import Outcome, applied, assert_keeps_numbers, assert_same_numbers, refusals

RNG = np.random.default_rng(4)
WEIGHTS = {
    name: RNG.standard_normal(shape).astype(np.float32)
    for name, shape in {
        "w": (2, 5, 1, 1),
        "b": (2,),
        "many": (6, 5, 1, 1),
        "wide": (2, 5, 3, 3),
        "three": (2, 8, 1, 1),
        "s": (2,),
        "last": (2, 1, 1, 5),
        "square": (5, 5, 1, 1),
        "b5": (5,),
    }.items()
}
SHAPES = {"x": ("batch", 2, 7, 8), "z": ("batch", 3, 7, 8), "r": ("batch", 2, 7, 8)}
HEAD = 'net "": x, z, r, w, b, many, wide, three, s, last, square, b5 '
PARTS = "-> y\n Abs(x) -> p\n Abs(z) -> q\n "
JOINED = PARTS + "Concat(p, q) -> c, d  axis=1\n "


def split(net: str) -> Outcome:
    """The outcome of the pass on the net; both compute the same."""
    outcome = applied(PASS, HEAD + net, WEIGHTS, SHAPES)
    feeds = {name: RNG.standard_normal((2, *shape[1:])).astype(np.float32) for name, shape in SHAPES.items()}
    assert_same_numbers(outcome.before, outcome.after, feeds, terms=1)
    return outcome


@pytest.mark.parametrize(
    ("conv", "first", "last"),
    [
        (
            "Conv(c, w, b) -> y  kernel=1",
            "Conv(p, w_0, b) -> y_0  kernel=1",
            'armnet.FusedConv(q, w_1, "", y_0) -> y  kernel=1',
        ),
        (
            "ConvRelu(c, w) -> y  kernel=1",
            "Conv(p, w_0) -> y_0  kernel=1",
            'armnet.FusedConv(q, w_1, "", y_0) -> y  kernel=1  activation="Relu"',
        ),
        (
            'armnet.FusedConv(c, w, b) -> y  kernel=1  activation="Clip"  min=0.0  max=1.0',
            "Conv(p, w_0, b) -> y_0  kernel=1",
            'armnet.FusedConv(q, w_1, "", y_0) -> y  kernel=1  activation="Clip"  min=0.0  max=1.0',
        ),
        (
            "armnet.FusedConv(c, w, b, r) -> y  kernel=1",
            "armnet.FusedConv(p, w_0, b, r) -> y_0  kernel=1",
            'armnet.FusedConv(q, w_1, "", y_0) -> y  kernel=1',
        ),
        (
            'armnet.FusedConv(c, w, "", r, s) -> y  kernel=1  activation="PRelu"',
            'armnet.FusedConv(p, w_0, "", r) -> y_0  kernel=1',
            'armnet.FusedConv(q, w_1, "", y_0, s) -> y  kernel=1  activation="PRelu"',
        ),
    ],
)
def test_the_first_part_has_the_bias_and_the_last_the_activation(conv: str, first: str, last: str) -> None:
    outcome = split(JOINED + conv)
    assert outcome.text == ["Abs(x) -> p", "Abs(z) -> q", first, last]
    np.testing.assert_array_equal(outcome.weight("w_0"), WEIGHTS["w"][:, :2])
    np.testing.assert_array_equal(outcome.weight("w_1"), WEIGHTS["w"][:, 2:])


def test_convolutions_of_middle_parts_only_add() -> None:
    outcome = split(PARTS + "Concat(p, q, q) -> c, d  axis=1\n ConvRelu(c, three, b) -> y  kernel=1  stride=2")
    assert outcome.text[2:] == [
        "Conv(p, three_0, b) -> y_0  kernel=1  stride=2",
        'armnet.FusedConv(q, three_1, "", y_0) -> y_1  kernel=1  stride=2',
        'armnet.FusedConv(q, three_2, "", y_1) -> y  kernel=1  stride=2  activation="Relu"',
    ]


@pytest.mark.parametrize("pool", ["MaxPool", "AveragePool"])
def test_a_pool_in_between_pools_the_parts(pool: str) -> None:
    outcome = split(f"{JOINED}{pool}(c) -> m  kernel=3  stride=2\n Conv(m, w) -> y  kernel=1")
    assert outcome.text[2:] == [
        f"{pool}(p) -> m_0  kernel=3  stride=2",
        f"{pool}(q) -> m_1  kernel=3  stride=2",
        "Conv(m_0, w_0) -> y_0  kernel=1",
        'armnet.FusedConv(m_1, w_1, "", y_0) -> y  kernel=1',
    ]


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        (JOINED + "Conv(c, many) -> y  kernel=1", "sums of 6 channels are not clearly cheaper than 5 in slices"),
        (JOINED + "Conv(c, wide) -> y  kernel=3", "it is not a 1x1 convolution of all channels"),
        (JOINED + 'Conv(c, last) -> y  kernel=1  order="NHWC"', "the channels come last"),
        (JOINED + "Abs(c) -> e\n Conv(c, w) -> f  kernel=1\n Copy(f) -> y", "'c' is read by Abs(c) -> e as well"),
        (JOINED + "Conv(c, w) -> f  kernel=1\n Copy(d) -> e\n Copy(f) -> y", "'d' is read by Copy(d) -> e as well"),
        (
            "-> y, c\n Abs(x) -> p\n Abs(z) -> q\n Concat(p, q) -> c, d  axis=1\n Conv(c, w) -> y  kernel=1",
            "'c' is an output of the net",
        ),
        (
            JOINED + "MaxPool(c) -> m  kernel=3\n Abs(m) -> e\n Conv(m, w) -> f  kernel=1\n Copy(f) -> y",
            "'m' is read by Abs(m) -> e as well",
        ),
        (
            "-> y\n Abs(z) -> q\n Concat(x, q) -> c, d  axis=1\n Conv(c, w) -> y  kernel=1",
            "not every part is computed by an operator",
        ),
    ],
)
def test_concatenations_that_are_needed_or_not_worth_splitting_stay(net: str, reason: str) -> None:
    assert refusals(PASS, HEAD + net, WEIGHTS, SHAPES) == [reason]


def test_a_convolution_that_also_adds_the_concatenation_stays() -> None:
    assert refusals(PASS, HEAD + JOINED + "armnet.FusedConv(c, square, b5, c) -> y  kernel=1", WEIGHTS, SHAPES) == []


def test_concatenations_along_another_dimension_stay() -> None:
    net = "-> y\n Abs(x) -> p\n Abs(x) -> q\n Concat(p, q) -> c, d  axis=2\n Conv(c, w) -> y  kernel=1"
    outcome = applied(PASS, HEAD + net, {**WEIGHTS, "w": WEIGHTS["w"][:, :2]}, SHAPES)
    assert outcome.reasons == ["it does not join channels, or their numbers are not known"]


def test_random_nets_compute_the_same() -> None:
    assert_keeps_numbers([PASS], [joined_parts], terms=1)
