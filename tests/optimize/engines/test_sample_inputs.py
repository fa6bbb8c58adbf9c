"""Random inputs: integers fit into the tables of the net that reads them."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Sequence

import numpy as np
import pytest

from exporter.bundle.random_inputs import random_inputs
from optimize import Report, optimize, pick_engines
from optimize.engines.sample_inputs import BOUNDS, drawn, drawn_for, first_taken_below, taken
from optimize.engines.trials import Trials
from optimize.rewriting.shapes import sample_specs
from optimize.single_steps import blobs_of
from runtime_arm import Predictor
from runtime_arm.errors import ArmnetError, UsageError
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from runtime_arm.registry.specs import TensorSpec
from tests.optimize.nets import pair_of

ROWS = [1, 2, 3, 5, 200]
FLOATS, IDS = TensorSpec((2, 3), np.float32), TensorSpec((1, 32, 32), np.int64)


def table_of(rows: int) -> Pair:
    """An embedding, and a convolution for which there are engines that round more than direct sums do."""
    rng = np.random.default_rng(rows)
    weights = {
        "table": rng.standard_normal((rows, 32), np.float32),
        "w": rng.standard_normal((32, 32, 3, 3), np.float32),
        "b": np.zeros(32, np.float32),
    }
    net = """net "": i, table, w, b -> y
    Gather(table, i) -> a
    Conv(a, w, b) -> c  kernel=3  pad=1
    Relu(c) -> y"""
    return pair_of(net, weights).replace(inputs=(TensorInfo("i", IDS.shape, "int64"),))


@pytest.mark.parametrize("rows", ROWS)
def test_measuring_and_the_error_of_engines_take_tables_of_any_size(rows: int) -> None:
    pair, report = table_of(rows), Report()
    optimize(pair, report=report)
    assert report.error is not None
    assert 0 < report.error < 1e-4
    assert report.notes == []
    tuning = pick_engines(pair, "measure", threads=1).tuning
    assert tuning is not None
    assert tuning.measurements[0].shapes == {"i": IDS.shape}


@pytest.mark.parametrize("rows", ROWS)
def test_random_inputs_are_taken(rows: int) -> None:
    pair = table_of(rows)
    inputs = random_inputs(pair, seed=3)
    assert inputs["i"].max() < rows
    assert inputs["i"].any() == (rows > 1)
    with Predictor(pair, threads=1) as predictor:
        predictor.run(inputs)
    found = blobs_of(pair, ["a"])
    assert found is not None
    assert found["a"].shape == (1, 32, 32, 32)


def test_all_samples_of_a_trial_fit() -> None:
    specs = {"i": TensorSpec((2, 2), np.int64)}
    largest = [int(drawn(specs, seed)["i"].max()) for seed in range(2)]
    assert 1 < largest[0] < largest[1], "the second sample is to need the larger table"
    table = np.ones((largest[0] + 1, 4), np.float32)
    pair = pair_of('net "": i, table -> y\n Gather(table, i) -> y', {"table": table})
    pair = pair.replace(inputs=(TensorInfo("i", (2, 2), "int64"),))
    with Predictor(pair, threads=1) as predictor:
        assert taken(predictor, specs)[2] == BOUNDS[0]
    trials = Trials(sample_specs(pair.inputs))
    trial = trials.of(pair, lambda options: True)
    assert (len(trial.outputs), trial.below) == (2, BOUNDS[1])
    assert trials.outputs(pair, specs) is trial.outputs[0]
    assert trials.outputs(pair, specs, BOUNDS[1]) is trial.outputs[0]
    assert trials.outputs(pair, specs, BOUNDS[0]) is None


@pytest.mark.parametrize(
    ("specs", "tried"), [({"x": FLOATS}, BOUNDS[:1]), ({"x": FLOATS, "i": IDS}, BOUNDS), ({"i": IDS}, BOUNDS)]
)
def test_floats_are_tried_once(specs: Mapping[str, TensorSpec], tried: Sequence[int]) -> None:
    asked = []

    def refuse(below: int) -> None:
        asked.append(below)
        raise UsageError(f"below {below}")

    with pytest.raises(ArmnetError, match=f"below {tried[-1]}"):
        first_taken_below(specs, refuse)
    assert asked == [*tried]


def test_inputs_that_are_refused_for_another_reason_are_the_smallest() -> None:
    pair = pair_of('net "": i, x -> y\n Gather(x, i) -> a\n Add(a, x) -> y', {}, {"x": (2, 5)})
    pair = pair.replace(inputs=(TensorInfo("i", (7,), "int64"), *pair.inputs[1:]))
    specs: Dict[str, Any] = {"i": TensorSpec((7,), np.int64), "x": TensorSpec((2, 5), np.float32)}
    assert not drawn_for(pair, specs)["i"].any()
