"""Operators that compute the same become one."""

from __future__ import annotations

import pytest

from optimize.passes.removing.eliminate_common_subexpressions import PASS
from tests.optimize.kinds import repeating
from tests.optimize.nets import applied, assert_keeps_numbers, refusals


def test_equal_operators_become_one_and_then_their_readers() -> None:
    net = """
        net "": x -> y
        Relu(x) -> a
        Clip(x) -> c  min=0.0  max=1.0
        Relu(x) -> b
        Sigmoid(a) -> d
        Sigmoid(b) -> e
        Clip(x) -> f  max=1.0  min=0.0
        Sum(c, d, e, f) -> y
    """
    assert applied(PASS, net).text == [
        "Relu(x) -> a",
        "Clip(x) -> c  min=0.0  max=1.0",
        "Sigmoid(a) -> d",
        "Sum(c, d, d, c) -> y",
    ]


def test_an_output_keeps_its_name() -> None:
    outcome = applied(PASS, 'net "": x -> y, z\n Relu(x) -> a\n Sigmoid(a) -> z\n Relu(x) -> y')
    assert outcome.text == ["Relu(x) -> y", "Sigmoid(y) -> z"]


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        ('net "": x -> y, z\n Relu(x) -> y\n Relu(x) -> z', "'z' is an output of the net"),
        (
            'net "": x -> y\n UniformFill(x) -> a\n UniformFill(x) -> b\n Add(a, b) -> y',
            "its results are not the same each time",
        ),
        (
            'net "": x, s -> y\n Relu(s) -> a\n Relu(x) -> s\n Relu(s) -> b\n Add(a, b) -> y',
            "'s' is written more than once",
        ),
        (
            'net "": x, c -> y\n Relu(x) -> a\n Relu(x) -> b\n If(c) -> y  then_net={\n Add(a, b) -> y\n }',
            "a sub-net knows 'b' by name",
        ),
        (
            'net "": x -> y\n Mystery(x) -> a\n Mystery(x) -> b\n Add(a, b) -> y',
            "its results are not the same each time",
        ),
    ],
)
def test_operators_that_must_run_twice_stay(net: str, reason: str) -> None:
    assert reason in refusals(PASS, net)


@pytest.mark.parametrize("second", ["Relu(z) -> b", "Clip(x) -> b  max=2.0", "onnx.Relu(x) -> b", "Sigmoid(x) -> b"])
def test_operators_that_differ_stay(second: str) -> None:
    first = "Clip(x) -> a  max=1.0" if "Clip" in second else "Relu(x) -> a"
    assert not applied(PASS, f'net "": x, z -> y\n {first}\n {second}\n Add(a, b) -> y').report.steps


def test_random_nets_compute_the_same() -> None:
    assert_keeps_numbers([PASS], [repeating])
