"""A network learns the classes of a folder of pictures: drawings of shapes, told apart by what random filters see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from armnet.__main__ import main
from runtime_arm.app.teaching.cutting import VECTOR
from runtime_arm.app.teaching.head import train_head
from runtime_arm.app.teaching.samples import split
from runtime_arm.errors import UsageError
from runtime_arm.netdef import NetDef
from runtime_arm.pair.fills import fill
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from training.teach.cut import cut
from training.teach.teaching import teach

Image = pytest.importorskip("PIL.Image", reason="pictures need Pillow")

SIZE = 32
NET = """
    net "classifier": x, w, b, v, c -> p
    Conv(x, w, b) -> h  kernel=5  stride=2
    Relu(h) -> h
    AveragePool(h) -> a  global_pooling=1
    FC(a, v, c) -> s
    Softmax(s) -> p
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARMNET_CACHE", str(tmp_path / "cache"))


def classifier() -> Pair:
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.standard_normal((16, 3, 5, 5)).astype(np.float32),
        "b": np.zeros(16, np.float32),
        "v": rng.standard_normal((4, 16)).astype(np.float32),
        "c": np.zeros(4, np.float32),
    }
    fills = tuple(fill(name, value) for name, value in weights.items())
    init = NetDef("init", fills, external_output=tuple(weights))
    meta = {"preprocessing": {"scale": 1 / 255, "channels": "RGB"}}
    return Pair(init, NetDef.from_text(NET), (TensorInfo("x", (1, 3, SIZE, SIZE), "float32"),), meta=meta).check()


def drawing(kind: str, rng: Any) -> Any:
    """Bars along one direction, or a spot, in any brightness."""
    pixels = rng.integers(0, 40, (SIZE, SIZE, 3))
    at, wide = rng.integers(4, 24), rng.integers(4, 8)
    if kind == "across":
        pixels[at : at + wide] += 180
    elif kind == "down":
        pixels[:, at : at + wide] += 180
    else:
        pixels[at : at + wide, at : at + wide, 0] += 180
    return Image.fromarray(pixels.astype(np.uint8))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return drawn(tmp_path / "data", "across", "down", "spot")


def drawn(folder: Path, *kinds: str, count: int = 20) -> Path:
    rng = np.random.default_rng(len(kinds))
    for kind in kinds:
        (folder / kind).mkdir(parents=True)
        for number in range(count):
            drawing(kind, rng).save(folder / kind / f"{number}.png")
    return folder


def test_the_cut_is_before_the_last_layer_with_weights() -> None:
    features = cut(classifier())
    assert (features.blob, features.size) == ("a", 16)
    assert [info.name for info in features.pair.outputs] == [VECTOR]
    assert "v" not in features.pair.predict_net.external_input
    assert cut(classifier(), "h").size == 16
    with pytest.raises(UsageError, match="computes no blob 'z'"):
        cut(classifier(), "z")


def test_drawings_are_told_apart_by_the_command(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    classifier().save(tmp_path / "net")
    target = tmp_path / "taught"
    assert main(["teach", str(tmp_path / "net"), "--data", str(data), "-o", str(target)]) == 0
    assert "held-out files are right" in capsys.readouterr().out
    taught = Pair.load(target)
    assert taught.meta["labels"] == ["across", "down", "spot"]
    assert main(["run", str(target), str(data / "spot" / "0.png")]) == 0
    assert "spot" in capsys.readouterr().out.splitlines()[1]


def test_it_is_right_on_what_it_has_not_seen_and_the_same_each_time(data: Path) -> None:
    lesson, again = (teach(classifier(), data) for _ in range(2))
    assert lesson.accuracy >= 0.95
    assert lesson.confusion.sum() == lesson.held_out == 12
    assert lesson.learned == 48
    for one, other in zip(lesson.pair.init_net.op, again.pair.init_net.op):
        assert one == other


def test_features_are_computed_once(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    teach(classifier(), data)
    monkeypatch.setattr("runtime_arm.app.teaching.features.seen", lambda *_: pytest.fail("computed again"))
    teach(classifier(), data)


def test_classes_are_added_to_what_is_known(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = drawn(tmp_path / "few", "across", "down")
    more = drawn(tmp_path / "more", "spot")
    classifier().save(tmp_path / "net")
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    assert main(["teach", str(tmp_path / "net"), "--data", str(few), "-o", first]) == 0
    assert main(["teach", first, "--data", str(more), "--add-class", "-o", second]) == 0
    assert Pair.load(second).meta["labels"] == ["across", "down", "spot"]
    capsys.readouterr()
    assert main(["teach", first, "--data", str(few), "--add-class", "-o", second]) == 2
    assert "class 'across' is known already" in capsys.readouterr().err
    net = str(tmp_path / "net")
    assert main(["teach", net, "--data", str(more), "--add-class", "-o", second]) == 2
    assert "has no taught.npz" in capsys.readouterr().err


def test_a_damaged_picture_is_skipped_and_named(data: Path) -> None:
    (data / "down" / "0.png").write_bytes(b"no picture")
    lesson = teach(classifier(), data)
    assert len(lesson.skipped) == 1
    assert "0.png" in lesson.skipped[0]
    assert lesson.learned + lesson.held_out == 59


def test_data_that_do_not_fit_are_one_line(tmp_path: Path) -> None:
    one = drawn(tmp_path / "one", "spot")
    with pytest.raises(UsageError, match="there is only one class"):
        teach(classifier(), one)
    alone = drawn(tmp_path / "alone", "across", "down", count=1)
    with pytest.raises(UsageError, match="class 'across' has fewer than two samples"):
        teach(classifier(), alone)
    (one / "empty").mkdir()
    with pytest.raises(UsageError, match="empty: holds no pictures"):
        teach(classifier(), one)
    with pytest.raises(UsageError, match="is no folder"):
        teach(classifier(), tmp_path / "nowhere")


def test_each_class_is_held_out() -> None:
    classes = np.repeat([0, 1, 2], [2, 10, 50])
    learned, held = split(classes, 0.2, seed=1)
    assert sorted([*learned, *held]) == list(range(62))
    assert np.bincount(classes[held]).tolist() == [1, 2, 10]


def test_a_head_takes_features_as_they_are() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(3, dtype=np.int32), 40)
    centres = rng.standard_normal((3, 8)) * 50 + 1000
    features = (centres[labels] + rng.standard_normal((120, 8))).astype(np.float32)
    head = train_head(features, labels, (features[::5], labels[::5]), 3)
    scores = features @ head.weights.T + head.bias
    assert (scores.argmax(1) == labels).mean() == 1
    assert head.epochs[-1].held_out_loss < head.epochs[0].held_out_loss
