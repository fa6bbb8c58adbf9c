"""Samples: from arrays, archives and folders; what is held out, how pictures are varied, what does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict

import numpy as np
import pytest

from runtime_arm.app.model import Model
from runtime_arm.app.teaching.augment import WAYS, varied, ways_of
from runtime_arm.errors import ArmnetError, UsageError
from tests.training.nets import linear
from tests.training.teach.test_teach import classifier, drawn
from training.data.reading import samples_at
from training.data.samples import ArraySamples, batches_of, held_out


def test_what_is_held_out_is_of_each_class_and_not_learned() -> None:
    rows = ArraySamples({"x": np.arange(30, dtype=np.float32)}, np.repeat([0, 1, 2], [4, 10, 16]))
    learned, held = held_out(rows, 0.25, seed=3)
    assert held is not None
    assert np.bincount(held.truths).tolist() == [1, 2, 4]
    both = np.concatenate([part.feeds(np.arange(len(part)))["x"] for part in (learned, held)])
    assert sorted(both.tolist()) == list(range(30))
    assert held_out(rows, 0.0, seed=0) == (rows, None)
    assert [len(feeds["t"]) for feeds in batches_of(rows, 12, "t")] == [12, 12, 6]
    with pytest.raises(UsageError, match="less than 1"):
        held_out(rows, 1.0, seed=0)


def saved(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def test_an_archive_is_read_by_names(tmp_path: Path) -> None:
    x, y = np.ones((5, 4), np.float32), np.zeros((5, 3), np.float32)
    for arrays in ({"x": x, "labels": y}, {"images": x, "t": y, "y": y}, {"other": x.reshape(5, 2, 2), "target": y}):
        with Model(linear()) as model:
            read = samples_at(saved(tmp_path / "a.npz", **arrays), model)
        assert read.feeds(np.array([1]))["x"].size == 4
        assert read.truths.shape == (5, 3)


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"x": np.ones((5, 4), np.float32)}, "its labels should be called labels, label"),
        ({"a": np.ones(5), "b": np.ones(5), "y": np.ones(5)}, "none is for the input 'x'"),
        ({"x": np.ones((5, 4), np.int64), "y": np.ones(5)}, "takes float32, the array is int64"),
        ({"x": np.ones((5, 4), np.float32), "y": np.ones(4)}, "holds 5 samples, the labels are 4"),
        ({"x": np.ones((5, 4), np.float32), "y": np.array(["a"] * 5)}, "must be numbers"),
    ],
)
def test_an_archive_that_does_not_fit_is_refused(tmp_path: Path, arrays: Dict[str, Any], reason: str) -> None:
    with Model(linear()) as model, pytest.raises(ArmnetError, match=reason):
        samples_at(saved(tmp_path / "a.npz", **arrays), model)


def test_what_is_no_data_is_refused(tmp_path: Path) -> None:
    for name, content, reason in (
        ("a.npz", b"no", "cannot be read"),
        ("a.txt", b"", "no data that"),
        ("b", None, "no such"),
    ):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with Model(linear()) as model, pytest.raises(ArmnetError, match=reason):
            samples_at(tmp_path / name, model)


def test_pictures_are_prepared_and_varied(tmp_path: Path) -> None:
    pytest.importorskip("PIL", reason="pictures need Pillow")
    folder = drawn(tmp_path / "data", "across", "down", count=3)
    with Model(classifier()) as model:
        rows, plain = samples_at(folder, model, ways_of("mirror,crop,brightness")), samples_at(folder, model)
        assert rows.labels == ["across", "down"]
        assert rows.truths.tolist() == [0, 0, 0, 1, 1, 1]
        every = np.arange(6)
        np.testing.assert_array_equal(rows.feeds(every)["x"], plain.feeds(every)["x"])
        first, again = (rows.feeds(every, np.random.RandomState(1))["x"] for _ in range(2))
        np.testing.assert_array_equal(first, again)
        assert first.shape == (6, 3, 32, 32)
        assert np.abs(first - plain.feeds(every)["x"]).max() > 0.1
    named = classifier()
    with Model(named, labels=["down", "left", "right", "up"]) as model, pytest.raises(UsageError, match="'across'"):
        samples_at(folder, model)


def test_each_way_keeps_pixels_as_they_are_or_within_range() -> None:
    pixels = np.random.RandomState(0).randint(0, 256, (20, 30, 3)).astype(np.uint8)
    for name in WAYS:
        seen = [varied(pixels, [name], np.random.RandomState(seed)) for seed in range(8)]
        assert all(one.dtype == np.uint8 and one.ndim == 3 for one in seen)
        assert len({one.tobytes() for one in seen}) > 1
    assert {one.shape for one in (varied(pixels, ["crop"], np.random.RandomState(s)) for s in range(8))} != {
        (20, 30, 3)
    }
    np.testing.assert_array_equal(varied(pixels, ["mirror"], np.random.RandomState(1))[:, ::-1], pixels)
    with pytest.raises(UsageError, match="no augmentation 'turn'"):
        ways_of("mirror,turn")
    assert ways_of("none") == ()
