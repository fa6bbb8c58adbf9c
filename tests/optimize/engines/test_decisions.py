"""Where a net decides by numbers, the errors of engines are measured on these numbers."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

import numpy as np
import pytest

from optimize import Report, pick_engines
from optimize.engines.accuracy import relative_error, results
from optimize.engines.decisions import before_decisions
from optimize.engines.error_budget import directly
from optimize.engines.options import options_of
from optimize.engines.sample_inputs import drawn
from optimize.rewriting.shapes import sample_specs
from runtime_arm.pair.pair import Pair
from tests.optimize.nets import pair_of

SHAPE = (1, 32, 28, 28)
LAYERS = "Conv(x, w) -> a  kernel=3  pad=1\n Relu(a) -> b\n onnx.Flatten(b) -> c  axis=0\n"
TOP = "TopK(c) -> top, places  k=25088\n"


def deciding(text: str, outputs: str = "y", **weights: Any) -> Pair:
    values: Dict[str, Any] = {
        "w": np.random.default_rng(0).standard_normal((32, 32, 3, 3)).astype(np.float32),
        **weights,
    }
    return pair_of(f'net "": x, {", ".join(values)} -> {outputs}\n {LAYERS} {text}', values, {"x": SHAPE})


def shown(pair: Pair, places: Sequence[int] = (0,)) -> Optional[List[str]]:
    cut = before_decisions(pair, sample_specs(pair.inputs), places)
    return None if cut is None else list(cut.floats)


ROWS = np.random.default_rng(2).standard_normal((1, 25088)).astype(np.float32)
SORTED = f"{TOP} Gather(c, places) -> y  axis=1"


@pytest.mark.parametrize(
    ("text", "outputs", "expected"),
    [
        (SORTED, "y", ["c"]),
        ("onnx.NonZero(b) -> at\n Gather(c, at) -> y  axis=1", "y", ["b", "c"]),
        (f"{SORTED}\n Sigmoid(b) -> z", "y, z", ["c", "z"]),
        (f"{SORTED}\n Sum(a, b) -> t\n FlattenToVec(t) -> u\n Gather(u, places) -> z", "z", ["c", "u"]),
    ],
    ids=["by its places", "by a shape", "beside an output", "of others"],
)
def test_what_is_decided_by_is_measured(text: str, outputs: str, expected: List[str]) -> None:
    assert shown(deciding(text, outputs)) == expected


@pytest.mark.parametrize(
    ("text", "outputs"),
    [
        ("Sigmoid(c) -> y", "y"),
        (f"{TOP} Sigmoid(c) -> y", "y, places"),
        ("Shape(c) -> s\n Reshape(a, s) -> y, old", "y"),
    ],
    ids=["nothing is decided", "integers alone", "sizes that are known"],
)
def test_outputs_over_which_nothing_is_decided_are_measured_themselves(text: str, outputs: str) -> None:
    assert shown(deciding(text, outputs)) is None


def test_engines_behind_a_decision_are_measured_by_the_outputs() -> None:
    v = np.random.default_rng(1).standard_normal((32, 32, 3, 3)).astype(np.float32)
    text = f"{TOP} Gather(c, places) -> d  axis=1\n Reshape(d) -> e, old  shape=[1, 32, 28, 28]\n"
    pair = deciding(f"{text} Conv(e, v) -> y  kernel=3  pad=1", v=v)
    assert shown(pair, [0]) == ["c"]
    assert shown(pair, [0, len(pair.predict_net.op) - 1]) is None


def test_a_decision_does_not_rule_out_engines() -> None:
    pair, report = deciding(SORTED.replace("Gather(c, places)", "Gather(rows, places)"), rows=ROWS), Report()
    assert [op.engine for op in pick_engines(pair, report=report).predict_net.op] == [""] * 5
    assert (report.warnings, 0 < report.error < 1e-4) == ([], True)


def test_outputs_that_agree_are_measured_though_they_are_decided_over() -> None:
    steep = np.full((1, 25088), 1e6, np.float32)
    text = "Mul(c, steep) -> d\n Sigmoid(d) -> e\n TopK(e) -> top, places  k=4\n Gather(rows, places) -> y  axis=1"
    report, even = Report(), np.ones_like(ROWS)
    assert all(
        not op.engine for op in pick_engines(deciding(text, steep=steep, rows=even), report=report).predict_net.op
    )
    assert report.error == 0


def test_engines_are_ruled_out_before_a_decision() -> None:
    pair = deciding(SORTED)
    engines = [op.engine for op in pick_engines(pair, accuracy=1e-9).predict_net.op]
    assert "WINOGRAD" in engines[0]


def test_an_error_that_grows_behind_a_decision_counts() -> None:
    """The four largest numbers are the same ones by every engine, but the exponential enlarges their errors."""
    text = f"{TOP.replace('25088', '4')} Gather(c, places) -> d  axis=1\n Exp(d) -> y"
    pair, accuracy = deciding(text), 1e-5
    specs = sample_specs(pair.inputs)
    picked, direct = pick_engines(pair, accuracy=accuracy), directly(pair, options_of(pair, specs))
    assert relative_error(*(results(one, [drawn(specs)]) for one in (direct, picked))) <= accuracy
