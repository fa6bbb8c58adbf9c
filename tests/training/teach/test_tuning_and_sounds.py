"""Fine-tuning, sounds, what goes wrong in data and on disk, and going on after a kill."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
import wave
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pytest

from armnet.__main__ import main
from runtime_arm.app.teaching.cutting import BIAS, WEIGHTS
from runtime_arm.app.teaching.head import DECAY, RATE, STEP
from runtime_arm.errors import UsageError
from runtime_arm.netdef import Array, NetDef
from runtime_arm.pair.fills import fill
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from tests.training.nets import pair_of
from tests.training.teach.test_teach import SIZE, classifier, drawn
from training.solvers import Adam
from training.teach.teaching import teach
from training.teach.tuning import Tuning
from training.trainer import Trainer

pytest.importorskip("PIL", reason="pictures need Pillow")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ARMNET_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def weights_of(pair: Pair) -> Dict[str, Array]:
    return {op.output[0]: op.get_tensor("values") for op in pair.init_net.op}


def deep() -> Pair:
    """A classifier of three convolutions with normalisations, whose features are made of few channels."""
    rng = np.random.default_rng(1)
    weights: Dict[str, Any] = {}
    for number, (inner, outer) in enumerate(((3, 8), (8, 6), (6, 3)), 1):
        weights[f"c{number}"] = rng.standard_normal((outer, inner, 3, 3)) * np.sqrt(2 / (9 * inner))
        weights.update({f"{name}{number}": np.full(outer, value) for name, value in zip("sbmv", (1, 0, 0, 1))})
    weights["w"] = rng.standard_normal((4, 3))
    net = ['net "deep": x, ' + ", ".join(weights) + " -> p"]
    blob = "x"
    for number in (1, 2, 3):
        names = ", ".join(f"{name}{number}" for name in "sbmv")
        net.append(f"Conv({blob}, c{number}) -> h{number}  kernel=3  stride=2")
        net.append(f"SpatialBN(h{number}, {names}) -> n{number}  is_test=1")
        net.append(f"Relu(n{number}) -> r{number}")
        blob = f"r{number}"
    net += ["AveragePool(r3) -> a  global_pooling=1", "MatMul(a, w) -> s  trans_b=1", "Softmax(s) -> p"]
    fills = tuple(fill(name, np.asarray(value, np.float32)) for name, value in weights.items())
    init = NetDef("init", fills, external_output=tuple(weights))
    meta = {"preprocessing": {"scale": 1 / 255, "channels": "RGB"}}
    info = TensorInfo("x", ("batch", 3, SIZE, SIZE), "float32")
    return Pair(init, NetDef.from_text("\n".join(net)), (info,), meta=meta).check()


def test_a_step_of_the_head_is_the_one_that_a_trainer_makes() -> None:
    names = {WEIGHTS: np.zeros((3, 5)), BIAS: np.zeros(3)}
    pair = pair_of(f'net "head": x, {WEIGHTS}, {BIAS} -> scores\nFC(x, {WEIGHTS}, {BIAS}) -> scores', names)
    trainer = Trainer(pair, "softmax", "label", solver=Adam(rate=RATE, weight_decay=DECAY))
    made, ours = trainer.nets()[1], NetDef.from_text(STEP)
    assert ours.op == made.op
    assert (ours.external_input, ours.external_output) == (made.external_input, made.external_output)


def test_fine_tuning_changes_the_last_layers_alone_and_helps(tmp_path: Path) -> None:
    data = drawn(tmp_path / "data", "across", "down", "spot", count=12)
    told: List[str] = []
    tuning = Tuning(2, epochs=8, rate=0.01, patience=8)
    plain = teach(deep(), data)
    lesson = teach(deep(), data, tuning=tuning, notice=told.append)
    assert "fine-tuning brought the held-out loss from" in told[-1]
    losses = [epoch.held_out_loss or 0.0 for epoch in lesson.epochs]
    assert min(losses[len(plain.epochs) :]) < 0.8 * min(losses[: len(plain.epochs)])
    assert lesson.accuracy >= plain.accuracy
    before, after = weights_of(plain.pair), weights_of(lesson.pair)
    changed = {name for name in before if not np.array_equal(before[name], after[name])}
    assert changed == {"c2", "s2", "b2", "c3", "s3", "b3", WEIGHTS, BIAS}
    moving = teach(deep(), data, tuning=Tuning(1, epochs=2, rate=0.01, batch_norm="train"))
    assert not np.array_equal(weights_of(moving.pair)["m3"], before["m3"])
    assert lesson.memory["features"].shape == plain.memory["features"].shape
    assert not np.array_equal(lesson.memory["features"], plain.memory["features"])
    with pytest.raises(UsageError, match="3 layers cannot be fine-tuned: before its head the network has 3"):
        teach(deep(), data, tuning=Tuning(3))


def test_fine_tuning_goes_on_where_it_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, tuning = drawn(tmp_path / "data", "across", "down", count=8), Tuning(1, epochs=3, rate=0.01)
    expected = weights_of(teach(deep(), data, tuning=tuning).pair)
    monkeypatch.setattr("training.fitting.SECONDS", 0.0)

    def kill(text: str, done: int, total: int) -> None:
        if "epoch 2 of 3" in text:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        teach(deep(), data, tuning=tuning, checkpoints=tmp_path / "kept", progress=kill)
    assert (tmp_path / "kept" / "last.npz").exists()
    again = weights_of(teach(deep(), data, tuning=tuning, checkpoints=tmp_path / "kept").pair)
    assert all(np.array_equal(value, expected[name]) for name, value in again.items())


def sounds(folder: Path, *tones: int) -> Path:
    """Notes of other lengths, loudnesses and phases, a folder for each pitch."""
    rng = np.random.default_rng(0)
    for tone in tones:
        (folder / f"note{tone}").mkdir(parents=True)
        for number in range(8):
            at = np.arange(rng.integers(900, 3000))
            samples = rng.uniform(0.2, 0.8) * np.sin(2 * np.pi * tone / 8000 * at + rng.uniform(0, 6))
            with wave.open(str(folder / f"note{tone}" / f"{number}.wav"), "wb") as file:
                file.setparams((1, 2, 8000, 0, "NONE", ""))
                file.writeframes((samples * 32767).astype("<i2").tobytes())
    return folder


def listener() -> Pair:
    """A net that hears windows of 400 samples: the energy at 16 pitches, and a head over two classes."""
    at, pitches = np.arange(400) / 8000, np.arange(16) * 200 + 100
    waves = np.concatenate([f(2 * np.pi * np.outer(pitches, at)) / 200 for f in (np.sin, np.cos)])
    sums = np.concatenate([np.eye(16), np.eye(16)], axis=1)
    text = 'net "ear": x, f, z, u, v, c -> p\nFC(x, f, z) -> h\nSqr(h) -> q\nMatMul(q, u) -> e  trans_b=1\n'
    weights = {"f": waves, "z": np.zeros(32), "u": sums, "v": np.ones((2, 16)), "c": np.zeros(2)}
    pair = pair_of(f"{text}FC(e, v, c) -> s\nSoftmax(s) -> p", weights)
    sound = {"input": "x", "window": 400, "rate": 8000}
    result = {"kind": "sound events", "decoder": "keywords", "outputs": {"scores": "p"}, "sound": sound, "classes": 2}
    meta = {"labels": ["a", "b"], "result": result}
    return pair.replace(inputs=(TensorInfo("x", (1, 400), "float32"),), meta=meta)


def test_a_network_that_hears_learns_sounds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = sounds(tmp_path / "sounds", 440, 880, 1320)
    listener().save(tmp_path / "ear")
    out = str(tmp_path / "taught")
    assert main(["teach", str(tmp_path / "ear"), "--data", str(data), "-o", out]) == 0
    assert "100.0% of 6 held-out files are right" in capsys.readouterr().out
    assert main(["run", out, str(data / "note880" / "0.wav"), "--score", "0.6"]) == 0
    assert "note880" in capsys.readouterr().out
    more = sounds(tmp_path / "more", 2200)
    assert main(["teach", out, "--data", str(more), "--add-class", "-o", str(tmp_path / "four")]) == 0
    assert Pair.load(tmp_path / "four").meta["labels"] == ["note1320", "note440", "note880", "note2200"]
    capsys.readouterr()
    assert main(["teach", out, "--data", str(data), "-o", out, "--fine-tune", "1"]) == 2
    assert "layers are fine-tuned on pictures" in capsys.readouterr().err


def test_labels_that_clash_are_one_line(tmp_path: Path) -> None:
    data = drawn(tmp_path / "data", "across", "down", count=3)
    copied = data / "down" / "copy.png"
    copied.write_bytes((data / "across" / "1.png").read_bytes())
    with pytest.raises(UsageError, match=r"across.1\.png and .*copy\.png are the same, but of two classes"):
        teach(classifier(), data)
    copied.unlink()
    (data / "Down").mkdir()
    (data / "Down" / "0.png").write_bytes((data / "down" / "0.png").read_bytes())
    with pytest.raises(UsageError, match="the classes 'Down' and 'down' differ in letter case"):
        teach(classifier(), data)


def test_a_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    data = drawn(tmp_path / "data", "across", "down", count=4)
    deep().save(tmp_path / "net")

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("runtime_arm.files._write", full)
    monkeypatch.setattr("runtime_arm.app.teaching.features._write", full)
    words = ["teach", str(tmp_path / "net"), "--data", str(data), "-o", str(tmp_path / "out")]
    for more in ([], ["--fine-tune", "1"]):
        capsys.readouterr()
        assert main([*words, *more]) == 2
        assert "No space left on device" in capsys.readouterr().err.splitlines()[-1]
        assert not (tmp_path / "out").exists()


def test_killed_while_it_looks_it_goes_on(tmp_path: Path, cache: Path) -> None:
    data = drawn(tmp_path / "data", "across", "down", "spot", count=40)
    classifier().save(tmp_path / "net")
    words = ["teach", str(tmp_path / "net"), "--data", str(data), "-o", str(tmp_path / "out")]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    started = subprocess.Popen([sys.executable, "-m", "armnet", *words], **quiet)
    patience = time.monotonic() + 60
    while time.monotonic() < patience and started.poll() is None and len(list(cache.glob("pairs/feat*"))) < 5:
        time.sleep(0.005)
    assert started.poll() is None, "it was over before it could be killed"
    started.send_signal(signal.SIGKILL)
    started.wait()
    assert 5 <= len(list(cache.glob("pairs/feat*"))) < 120
    assert not (tmp_path / "out").exists()
    assert main(words) == 0
    assert all(np.array_equal(v, weights_of(teach(classifier(), data).pair)[k]) for k, v in _loaded(tmp_path / "out"))


def _loaded(folder: Path) -> Any:
    return weights_of(Pair.load(folder)).items()


def test_the_page_shows_the_curve_the_confusion_and_what_went_worst(tmp_path: Path) -> None:
    data = drawn(tmp_path / "data", "across", "down", "spot", count=20)
    (data / "spot" / "<u>.png").write_bytes(b"no")
    classifier().save(tmp_path / "net")
    page = tmp_path / "page.html"
    words = ["teach", str(tmp_path / "net"), "--data", str(data), "-o", str(tmp_path / "out"), "--html", str(page)]
    assert main([*words, "--epochs", "1", "--hold-out", "0.8", "--seed", "3"]) == 0
    text = page.read_text("utf-8")
    assert text.count("<path d=") == 3
    assert 'class="confusion"' in text
    assert "istakes</h2>" in text
    assert "<h2>Skipped</h2>" in text
    assert "no picture of a format that Pillow knows" in text
    assert "<u>" not in text
    assert "<script" not in text


def test_augmented_views_are_learned(tmp_path: Path) -> None:
    data = drawn(tmp_path / "data", "across", "down", count=6)
    plain = teach(classifier(), data, ways=()).memory["features"]
    varied = teach(classifier(), data, ways=("mirror", "crop", "brightness")).memory["features"]
    assert (plain.shape[1], varied.shape[1]) == (1, 5)
    np.testing.assert_array_equal(plain[:, 0], varied[:, 0])
    assert len(np.unique(varied[0], axis=0)) == 5
