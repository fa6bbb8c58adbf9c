"""Training for epochs: it learns, it goes on where it was killed bit for bit, and it refuses what is not its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any, List, Optional

import numpy as np
import pytest

from runtime_arm.errors import UsageError
from tests.training.nets import classifier, linear, samples
from tests.training.test_trainer import weights_of
from training.data.samples import ArraySamples, Feeds, Samples, held_out
from training.fitting import BEST, LAST, Epoch, Plan, fit
from training.initialization import initialized
from training.solvers import Adam
from training.trainer import Trainer


def noisy(feeds: Feeds, random: np.random.RandomState) -> Feeds:
    return {name: array + random.normal(0, 0.1, array.shape).astype(np.float32) for name, array in feeds.items()}


def data(count: int = 60, seed: int = 0) -> Samples:
    found = samples(count, seed)
    return ArraySamples({"x": found["x"]}, found["label"], noisy)


def trainer(rate: float = 0.02) -> Trainer:
    return Trainer(classifier(), solver=Adam(rate))


class Killed(Exception):
    pass


def test_it_learns_and_tells_what_each_epoch_brought() -> None:
    one, told = trainer(), []
    learned, held = held_out(data(150), 0.2, seed=0)
    epochs = fit(one, learned, held, Plan(12, 16), progress=lambda text, done, total: told.append((text, done, total)))
    assert len(epochs) == 12
    assert epochs[-1].loss < 0.3 * epochs[0].loss
    assert epochs[-1].accuracy is not None
    assert epochs[-1].accuracy > 0.9
    assert one.iteration == told[-1][1] == told[-1][2] == 12 * (len(learned) // 16)
    assert "epoch 12 of 12, loss" in told[-1][0]
    assert told[-1][0].endswith("right; 0 s left")


@pytest.mark.parametrize("killed_at", [1, 7, 13])
def test_killed_at_any_step_it_ends_with_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_at: int
) -> None:
    monkeypatch.setattr("training.fitting.SECONDS", 0.0)  # a checkpoint after every step
    plan, (learned, held) = Plan(5, 16, patience=2), held_out(data(), 0.2, seed=0)
    whole = trainer()
    expected = fit(whole, learned, held, plan)

    def kill(text: str, done: int, total: int) -> None:
        if done == killed_at:
            raise Killed

    with pytest.raises(Killed):
        fit(trainer(), learned, held, plan, checkpoints=tmp_path, progress=kill)
    second = trainer()
    assert fit(second, learned, held, plan, checkpoints=tmp_path) == expected
    for name, value in weights_of(whole.pair()).items():
        np.testing.assert_array_equal(value, weights_of(second.pair())[name])
    assert {path.name for path in tmp_path.iterdir()} == {LAST, BEST}


def test_patience_goes_back_to_the_best_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    one, (learned, held) = trainer(0.3), held_out(data(), 0.3, seed=0)
    epochs = fit(one, learned, held, Plan(40, 16, patience=3))
    losses: List[Any] = [epoch.held_out_loss for epoch in epochs]
    assert held is not None
    assert len(epochs) < 40
    best = one.evaluate({"x": held.feeds(np.arange(len(held)))["x"], "label": held.truths}).loss
    assert best == pytest.approx(min(losses), abs=1e-4)


def test_a_checkpoint_of_another_training_is_refused(tmp_path: Path) -> None:
    fit(trainer(), data(), None, Plan(1, 16), checkpoints=tmp_path)
    for other, plan in ((data(), Plan(2, 16)), (data(seed=1), Plan(1, 16))):
        with pytest.raises(UsageError, match="belongs to another training"):
            fit(trainer(), other, None, plan, checkpoints=tmp_path)
    with pytest.raises(UsageError, match="another net"):
        fit(Trainer(classifier()), data(), None, Plan(1, 16), checkpoints=tmp_path)


@pytest.mark.parametrize("arguments", [{"epochs": 0}, {"batch": 0}, {"patience": -1}])
def test_plans_that_make_no_sense_are_refused(arguments: Any) -> None:
    with pytest.raises(UsageError, match="at least"):
        Plan(**arguments)
    with pytest.raises(UsageError, match="held out"):
        fit(trainer(), data(), None, Plan(patience=1))


def test_a_loss_that_is_no_number_ends_it() -> None:
    wild = Trainer(linear(), loss="l2", labels="t", solver=Adam(1e30))
    rows = ArraySamples({"x": np.ones((8, 4), np.float32)}, np.ones((8, 3), np.float32))
    with pytest.raises(UsageError, match="a lower rate may help"):
        fit(wild, rows, None, Plan(5, 4))


def test_fresh_weights_have_the_variance_of_he_and_normalisations_change_nothing() -> None:
    made = weights_of(initialized(classifier(), seed=1))
    np.testing.assert_array_equal(made["s2"], 1)
    np.testing.assert_array_equal(made["v2"], 1)
    for name in ("b1", "b2", "m2", "b"):
        np.testing.assert_array_equal(made[name], 0)
    assert np.abs(made["c2"]).max() <= np.sqrt(6 / 36)
    assert made["c2"].var() == pytest.approx(2 / 36, rel=0.3)
    assert weights_of(initialized(classifier(), seed=2))["w"].tolist() != made["w"].tolist()


@pytest.mark.parametrize("accuracy", [None, 0.5])
def test_an_epoch_is_told_in_words(accuracy: Optional[float]) -> None:
    told = str(Epoch(0.25, None if accuracy is None else 0.125, accuracy))
    assert told == ("loss 0.250" if accuracy is None else "loss 0.250, held out 0.125, 50.0% right")
