"""Blobs computed from weights alone become weights."""

from __future__ import annotations

import numpy as np
import pytest

from optimize.passes.folding.fold_constants import FREE_NBYTES, PASS
from optimize.rewriting.program import Program
from optimize.rewriting.report import Recorder, Report
from optimize.rewriting.rewrite import run_passes
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.registry import shape_inference
from tests.optimize.kinds import of_constants
from tests.optimize.nets import Outcome, applied, assert_keeps_numbers, pair_of, refusals

W = {"w": np.arange(6, dtype=np.float32).reshape(2, 3)}


def test_operators_on_weights_become_weights() -> None:
    net = """
        net "": x, w -> y
        Transpose(w) -> t
        Relu(t) -> r
        MatMul(x, r) -> y
    """
    outcome = applied(PASS, net, W, {"x": (4, 3)})
    assert outcome.text == ["MatMul(x, r) -> y"]
    assert outcome.after.predict_net.external_input == ("x", "w", "t", "r")
    np.testing.assert_array_equal(outcome.weight("r"), W["w"].T)


def test_fills_and_views_become_weights() -> None:
    net = (
        'net "": x, w -> y\n Reshape(w) -> v, v_old  shape=[3, 2]\n ConstantFill() -> one  shape=[1]  value=1.0\n'
        " MatMul(x, v) -> a\n Add(a, one) -> y"
    )
    outcome = applied(PASS, net, W, {"x": (4, 3)})
    assert outcome.text == ["MatMul(x, v) -> a", "Add(a, one) -> y"]
    assert outcome.weight("one").tolist() == [1.0]


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        ('net "": x, w -> y, t\n Relu(w) -> t\n Add(x, t) -> y', "'t' is an output of the net"),
        (
            'net "": x, w -> y\n UniformFill() -> r  shape=[2, 3]\n Add(x, r) -> y',
            "its results are not the same each time",
        ),
        (
            'net "": x, w -> y\n If(w) -> t  then_net={\n Relu(w) -> t\n }\n Add(x, t) -> y',
            "its results are not the same each time",
        ),
        (
            f'net "": x, w -> y\n ConstantFill() -> r  shape=[{FREE_NBYTES}]\n Add(x, r) -> y',
            f"the result takes {4 * FREE_NBYTES:,} bytes, its inputs 0",
        ),
        (
            'net "": x, w -> y\n Mystery(w) -> t\n Add(x, t) -> y',
            "UnknownOperator: Mystery(w) -> t: unknown operator type 'Mystery'",
        ),
    ],
)
def test_operators_that_are_not_constant_or_too_large_stay(net: str, reason: str) -> None:
    assert reason in refusals(PASS, net, W)


def test_what_is_too_large_is_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    computed = []
    evaluated = shape_inference._evaluated
    monkeypatch.setattr(shape_inference, "_evaluated", lambda *of: computed.append(of[1].type) or evaluated(*of))
    net = f'net "": x, w -> y\n Tile(w) -> t  tiles={FREE_NBYTES}  axis=0\n Relu(w) -> r\n Add(t, r) -> y'
    program = Program.of(pair_of(net, W))
    computed.clear()
    report = Report()
    run_passes(program, [PASS], Recorder(report))
    assert computed == ["Relu"]
    assert report.refused[0].reason == f"the result takes {24 * FREE_NBYTES:,} bytes, its inputs 24"


def test_state_is_not_constant() -> None:
    assert not applied(PASS, 'net "": x, w -> y\n Add(x, w) -> y\n Relu(w) -> w', W).report.steps


def test_inputs_with_a_fill_are_not_constant() -> None:
    pair = pair_of('net "": w -> y\n Relu(w) -> y', W).replace(inputs=(TensorInfo("w"),))
    assert not Outcome(pair, [PASS]).report.steps


def test_random_nets_compute_the_same() -> None:
    assert_keeps_numbers([PASS], [of_constants], terms=1)
