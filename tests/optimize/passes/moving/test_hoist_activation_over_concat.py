"""Equal activations of all parts of a concatenation become one activation of the whole."""

from __future__ import annotations

import pytest

from optimize.passes.moving.hoist_activation_over_concat import PASS
from tests.optimize.kinds import activated_parts
from tests.optimize.nets import applied, assert_keeps_numbers, refusals


def test_equal_activations_become_one() -> None:
    net = """
        net "": x, z -> y
        LeakyRelu(x) -> a  alpha=0.5
        LeakyRelu(z) -> b  alpha=0.5
        Concat(a, b, a) -> y, y_dims  axis=1
    """
    assert applied(PASS, net).text == [
        "Concat(x, z, x) -> y_joined, y_dims  axis=1",
        "LeakyRelu(y_joined) -> y  alpha=0.5",
    ]


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        ("-> y\n Relu(x) -> a\n Sigmoid(z) -> b\n Concat(a, b) -> y, d", "the parts go through different activations"),
        (
            "-> y\n Clip(x) -> a  max=1.0\n Clip(z) -> b  max=2.0\n Concat(a, b) -> y, d",
            "the parts go through different activations",
        ),
        ("-> y\n Relu(x) -> a\n Relu(a) -> b\n Concat(a, b) -> y, d", "one part is computed from another"),
        (
            "-> y, v\n Relu(x) -> a\n Relu(z) -> b\n Concat(a, b) -> y, d\n Copy(a) -> v",
            "'a' is read by Copy(a) -> v as well",
        ),
        ("-> y, b\n Relu(x) -> a\n Relu(z) -> b\n Concat(a, b) -> y, d", "'b' is an output of the net"),
    ],
)
def test_activations_that_differ_or_are_needed_stay(net: str, reason: str) -> None:
    assert refusals(PASS, f'net "": x, z {net}') == [reason]


def test_nothing_changes_if_a_part_has_no_activation() -> None:
    assert not applied(PASS, 'net "": x, z -> y\n Relu(x) -> a\n Concat(a, z) -> y, d').report.steps


def test_random_nets_compute_the_same() -> None:
    assert_keeps_numbers([PASS], [activated_parts])
