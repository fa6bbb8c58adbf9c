"""armnet train: from scratch, going on, after a kill, and the mistakes that are one line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, List

import numpy as np
import pytest

from armnet.__main__ import main
from runtime_arm.pair.pair import Pair
from tests.training.nets import classifier, samples
from tests.training.test_trainer import weights_of


@pytest.fixture
def place(tmp_path: Path) -> Path:
    classifier().save(tmp_path / "net")
    found = samples(80)
    np.savez(tmp_path / "data.npz", images=found["x"], labels=found["label"])
    return tmp_path


def words(place: Path, *more: str) -> List[str]:
    return ["train", str(place / "net"), "--data", str(place / "data.npz"), "-o", str(place / "out"), *more]


def test_it_learns_and_says_what_each_epoch_brought(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = ["--from-scratch", "--epochs", "15", "--batch", "16", "--rate", "0.02", "--schedule", "warmup", "--json"]
    more += ["--html", str(place / "page.html")]
    assert main(words(place, *more)) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["learned"], facts["held_out"], facts["steps"]) == (64, 16, 60)
    assert facts["epochs"][-1]["accuracy"] == facts["accuracy"] > 0.9
    assert facts["epochs"][-1]["loss"] < 0.3 * facts["epochs"][0]["loss"]
    assert sorted(path.name for path in place.iterdir()) == ["data.npz", "net", "out", "page.html"]
    assert (place / "page.html").read_text("utf-8").count("<path d=") == 3
    before = weights_of(Pair.load(place / "out"))
    assert main([*words(place, "--epochs", "1", "--solver", "sgd"), "--hold-out", str(place / "data.npz")]) == 0
    assert "epoch   1: loss" in capsys.readouterr().out
    assert any(not np.array_equal(value, before[name]) for name, value in weights_of(Pair.load(place / "out")).items())


def test_killed_it_goes_on_and_ends_with_the_same_weights(place: Path) -> None:
    course = ["--epochs", "15", "--batch", "4", "--rate", "0.001"]
    assert main(words(place, *course)) == 0
    expected = weights_of(Pair.load(place / "out"))
    for path in (place / "out").iterdir():
        path.unlink()
    command = [sys.executable, "-m", "armnet", *words(place, *course)]
    started = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=dict(os.environ))
    last = place / "out.checkpoints" / "last.npz"
    patience = time.monotonic() + 60
    while not last.exists() and started.poll() is None and time.monotonic() < patience:
        time.sleep(0.01)
    assert started.poll() is None, "it was over before it could be killed"
    started.send_signal(signal.SIGKILL)
    started.wait()
    assert not (place / "out" / "model.json").exists()
    assert main(words(place, *course)) == 0
    for name, value in weights_of(Pair.load(place / "out")).items():
        np.testing.assert_array_equal(value, expected[name])
    assert not last.exists()


def test_memory_is_said_and_bounded(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    course = ["--epochs", "1", "--batch", "16", "--rate", "0.01", "--json"]
    found = []
    assert main(words(place, *course)) == 0
    arena = json.loads(capsys.readouterr().out)["memory"]["arena"]
    for memory in ([], ["--memory", str(arena)], ["--memory", "1G"]):
        assert main(words(place, *course, *memory)) == 0
        out, err = capsys.readouterr()
        found.append((json.loads(out), weights_of(Pair.load(place / "out"))))
        assert "a step takes" in err
        assert "kept for the backward pass" in err
    assert [facts["memory"]["arena"] for facts, _ in found] == [arena] * 3
    for facts, weights in found[1:]:
        assert facts["epochs"] == found[0][0]["epochs"]
        assert all(np.array_equal(value, found[0][1][name]) for name, value in weights.items())
    assert main(words(place, *course, "--memory", "2k")) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1
    assert "takes at least" in said[0]


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (["--solver", "adam", "--momentum", "0.9"], "--momentum: the solver adam has no such number"),
        (["--solver", "nothing"], "solver must be"),
        (["--memory", "much"], "--memory takes a number of bytes such as 500M or 2G, got 'much'"),
        (["--memory", "1G", "--solver", "sgd", "--iter-size", "2"], "give one of them"),
        (["--loss", "nothing"], "loss must be"),
        (["--loss", "l2", "--smoothing", "0.1"], "--smoothing is for the loss softmax"),
        (["--schedule", "nothing"], "schedule 'nothing'"),
        (["--schedule", "step:3"], "an argument is NAME=NUMBER"),
        (["--augment", "mirror"], "only pictures in folders are augmented"),
        (["--steps", "0"], "--steps must be at least 1"),
        (["--hold-out", "2"], "less than 1"),
        (["--trainable", "nothing*"], "no parameter is called"),
    ],
)
def test_mistakes_are_one_line(place: Path, capsys: pytest.CaptureFixture[str], more: Any, reason: str) -> None:
    assert main(words(place, *more)) == 2
    told = capsys.readouterr().err
    assert reason in told
    assert len(told.splitlines()) == 1
    assert not (place / "out").exists()
