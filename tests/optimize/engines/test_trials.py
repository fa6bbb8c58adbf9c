"""A net is planned and run once for all who ask what it shows."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_network_close
from optimize import optimize
from optimize.engines import trials as module
from optimize.engines.error_budget import Budget
from optimize.engines.sample_inputs import drawn
from optimize.engines.trials import Trials
from optimize.rewriting.shapes import sample_specs
from runtime_arm import Predictor
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from runtime_arm.registry.specs import TensorSpec
from tests.optimize.nets import pair_of


@pytest.fixture
def pair() -> Pair:
    weights = {"w": np.ones((3, 4), np.float32), "b": np.zeros(3, np.float32)}
    return pair_of('net "": x, w, b -> y\n FC(x, w, b) -> a\n Relu(a) -> y', weights, shapes={"x": (2, 4)})


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> List[Pair]:
    """The pairs of which predictors were made."""
    pairs: List[Pair] = []

    class Counting(Predictor):
        def __init__(self, given: Pair, **options: Any):
            pairs.append(given)
            super().__init__(given, **options)

    monkeypatch.setattr(module, "Predictor", Counting)
    return pairs


def test_a_net_is_tried_once(pair: Pair, made: List[Pair]) -> None:
    trials = Trials(sample_specs(pair.inputs))
    assert trials.find(pair) is None
    assert trials.outputs(pair, trials.specs) is None
    first = trials.of(pair, lambda options: True)
    assert len(first.outputs) == 2
    assert [one.op.type for one in first.options] == ["FC", "Relu"]
    assert trials.of(pair.replace(meta={"labels": ["a"]}), lambda options: True) is first
    assert len(made) == 1
    with Predictor(pair, threads=1) as predictor:
        np.testing.assert_array_equal(predictor.run(drawn(trials.specs, 1))["y"], first.outputs[1]["y"])


def test_other_specs_or_nets_are_not_known(pair: Pair, made: List[Pair]) -> None:
    trials = Trials(sample_specs(pair.inputs))
    trials.of(pair, lambda options: False)
    assert trials.outputs(pair, trials.specs) is not None
    assert trials.outputs(pair, {}) is None
    assert trials.outputs(pair.replace(predict_net=pair.predict_net.replace(name="other")), trials.specs) is None


def test_a_net_that_refuses_what_is_drawn_has_options_all_the_same(made: List[Pair]) -> None:
    net = 'net "": t, x -> y\n onnx.Gather(t, x) -> y'
    pair = pair_of(net, {"t": np.ones((0, 2), np.float32)}).replace(inputs=(TensorInfo("x", (60,), "int32"),))
    trial = Trials(sample_specs(pair.inputs)).of(pair, lambda options: False)
    assert trial.outputs == []
    assert [one.op.type for one in trial.options] == ["Gather"]


def test_optimising_compares_what_the_engines_showed(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: List[bool] = []
    find = Trials.outputs

    def outputs(self: Trials, *args: Any) -> Any:
        found = find(self, *args)
        asked.append(found is not None)
        return found

    monkeypatch.setattr(Trials, "outputs", outputs)
    optimize(pair)
    assert asked[-1]


def test_one_sample_of_a_net_of_much_work_is_enough(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ENOUGH_WORK", 2 * 4 * 3 - 1)
    trial = Trials(sample_specs(pair.inputs)).of(pair, lambda options: True)
    assert (len(trial.outputs), trial.samples) == (1, 1)
    monkeypatch.setattr(module, "ENOUGH_WORK", 2 * 4 * 3)
    trial = Trials(sample_specs(pair.inputs)).of(pair, lambda options: True)
    assert (len(trial.outputs), trial.samples) == (2, 2)


def test_the_sums_that_measure_errors_are_what_the_plain_net_showed() -> None:
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((16, 16, 3, 3), np.float32), "b": np.zeros(16, np.float32)}
    net = 'net "": x, w, b -> y\n Conv(x, w, b) -> a  kernel=3  pad=1\n Relu(a) -> y'
    plain, pair = (pair_of(net, weights, shapes={"x": (1, 16, 32, 32)}) for _ in range(2))
    trials = Trials(sample_specs(pair.inputs))
    budget = Budget(plain, pair, trials, 1e-4)
    assert budget.is_needed
    assert trials.outputs(plain, trials.specs) is None
    assert 0 < budget.error(pair) < 1e-4
    known = trials.outputs(plain, trials.specs)
    assert known is not None
    with Predictor(plain, threads=1) as predictor:
        assert_network_close(known["y"], predictor.run(drawn(trials.specs))["y"])


def test_integers_that_may_be_sizes_are_drawn_small() -> None:
    specs = {"repeats": TensorSpec((4,), np.dtype(np.int64)), "ids": TensorSpec((1, 8), np.dtype(np.int64))}
    for seed in range(20):
        inputs = drawn(specs, seed)
        assert inputs["repeats"].max() < 4
        assert inputs["ids"].max() >= 4
