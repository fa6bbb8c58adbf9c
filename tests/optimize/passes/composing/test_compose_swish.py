"""A blob times its sigmoid is Swish."""

from __future__ import annotations

import pytest

from optimize.passes.composing.compose_swish import PASS
from tests.optimize.kinds import gating
from tests.optimize.nets import applied, assert_keeps_numbers, refusals


@pytest.mark.parametrize(
    ("sigmoid", "product", "left"),
    [
        ("Sigmoid(x)", "Mul(x, s)", "Swish(x)"),
        ("Sigmoid(x)", "Mul(s, x)", "Swish(x)"),
        ("onnx.Sigmoid(x)", "onnx.Mul(s, x)", "onnx.Swish(x)"),
        ("HardSigmoid(x)", "Mul(x, s)", "onnx.HardSwish(x)"),
    ],
)
def test_two_become_one(sigmoid: str, product: str, left: str) -> None:
    arguments = "  alpha=0.16666667  beta=0.5" if sigmoid.startswith("Hard") else ""
    outcome = applied(PASS, f'net "": x -> y\n {sigmoid} -> s{arguments}\n {product} -> y')
    assert outcome.text == [f"{left} -> y"]


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        ("-> y, z\n Sigmoid(x) -> s\n Mul(x, s) -> y\n Relu(s) -> z", "'s' is read by Relu(s) -> z as well"),
        ("-> y, s\n Sigmoid(x) -> s\n Mul(x, s) -> y", "'s' is an output of the net"),
        (
            "-> y\n HardSigmoid(x) -> s\n Mul(x, s) -> y",
            "HardSwish has the slope 1/6 and the offset 1/2, not 0.2 and 0.5",
        ),
    ],
)
def test_other_formulas_stay(net: str, reason: str) -> None:
    assert refusals(PASS, f'net "": x {net}') == [reason]


@pytest.mark.parametrize("product", ["Mul(z, s)", "Mul(s, s)", "Add(x, s)"])
def test_other_products_stay(product: str) -> None:
    assert not applied(PASS, f'net "": x, z -> y\n Sigmoid(x) -> s\n {product} -> y').report.steps


def test_random_nets_compute_the_same() -> None:
    assert_keeps_numbers([PASS], [gating], terms=1)
