"""Two consecutive transposes become one or none."""

from __future__ import annotations

import pytest

from optimize.passes.composing.compose_transposes import PASS
from tests.optimize.kinds import transposing
from tests.optimize.nets import applied, assert_keeps_numbers, assert_same_numbers, refusals
from tests.support.operands import random


@pytest.mark.parametrize(
    ("first", "second", "left"),
    [
        ("Transpose(x) -> a  axes=[0, 2, 3, 1]", "Transpose(a) -> b  axes=[0, 3, 1, 2]", []),
        ("NCHW2NHWC(x) -> a", "NHWC2NCHW(a) -> b", []),
        ("NHWC2NCHW(x) -> a", "Transpose(a) -> b  axes=[0, 2, 3, 1]", []),
        ("Transpose(x) -> a", "Transpose(a) -> b", []),
        (
            "Transpose(x) -> a  axes=[0, 2, 3, 1]",
            "Transpose(a) -> b  axes=[0, 2, 1, 3]",
            ["Transpose(x) -> b  axes=[0, 3, 2, 1]"],
        ),
        ("NCHW2NHWC(x) -> a", "NCHW2NHWC(a) -> b", ["Transpose(x) -> b  axes=[0, 3, 1, 2]"]),
        ("Relu(x) -> a", "Transpose(a) -> b  axes=[0, 1, 2, 3]", ["Relu(x) -> a"]),
    ],
)
def test_two_become_one_or_none(first: str, second: str, left: list[str]) -> None:
    outcome = applied(PASS, f'net "": x -> y\n {first}\n {second}\n Relu(b) -> y', shapes={"x": (2, 3, 4, 5)})
    if not left:
        dead = [first] if "Relu" not in first else []
        assert outcome.text == [*dead, "Relu(x) -> y"]
    else:
        tail = "Relu(b) -> y" if "Relu" not in left[0] else "Relu(a) -> y"
        assert outcome.text == [*left, tail]


def test_cancelling_ones_vanish_even_if_the_blob_between_is_read() -> None:
    net = """
        net "": x -> y, z
        Transpose(x) -> a  axes=[1, 0]
        Transpose(a) -> b  axes=[1, 0]
        Relu(a) -> y
        Relu(b) -> z
    """
    assert applied(PASS, net).text == ["Transpose(x) -> a  axes=[1, 0]", "Relu(a) -> y", "Relu(x) -> z"]


JOINED = """net "": x -> y
    Reshape(x) -> a, a_  shape=[-1, 4, 5]
    Transpose(a) -> b  axes={axes}
    Reshape(b) -> y, y_  shape={shape}
"""


def test_matrices_are_turned_without_joining_their_leading_dimensions() -> None:
    net, shapes = JOINED.format(axes=[0, 2, 1], shape=[2, 3, 5, 4]), {"x": (2, 3, 4, 5)}
    outcome = applied(PASS, net, shapes=shapes)
    assert outcome.text == ["Transpose(x) -> y  axes=[0, 1, 3, 2]"]
    assert_same_numbers(outcome.before, outcome.after, {"x": random(shapes["x"], 0)})


@pytest.mark.parametrize(
    ("axes", "shape", "reason"),
    [
        ([1, 2, 0], [2, 3, 5, 4], "it does not turn matrices"),
        ([0, 2, 1], [3, 2, 5, 4], "more than the leading dimensions"),
        ([0, 2, 1], [2, 3, 4, 5], "more than the leading dimensions"),
    ],
)
def test_other_joined_dimensions_stay(axes: list[int], shape: list[int], reason: str) -> None:
    net = JOINED.format(axes=axes, shape=shape)
    assert any(reason in found for found in refusals(PASS, net, shapes={"x": (2, 3, 4, 5)}))


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        (
            'net "": x -> a, y\n Transpose(x) -> a  axes=[1, 2, 0]\n Transpose(a) -> y  axes=[1, 2, 0]',
            "'a' is an output of the net",
        ),
        (
            'net "": x -> y, z\n Transpose(x) -> a  axes=[1, 2, 0]\n Transpose(a) -> y  axes=[1, 2, 0]\n Relu(a) -> z',
            "'a' is read by Relu(a) -> z as well",
        ),
        ('net "": x -> y\n Transpose(x) -> a\n Transpose(a) -> y', "the number of dimensions is not known"),
    ],
)
def test_blobs_that_others_need_stay(net: str, reason: str) -> None:
    assert reason in refusals(PASS, net)


def test_an_output_that_equals_the_input_becomes_a_copy() -> None:
    net = 'net "": x -> y\n Transpose(x) -> a  axes=[1, 0]\n Transpose(a) -> y  axes=[1, 0]'
    assert applied(PASS, net).text == ["Copy(x) -> y"]


def test_random_nets_compute_the_same() -> None:
    assert_keeps_numbers([PASS], [transposing])
