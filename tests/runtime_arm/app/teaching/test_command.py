"""A bundle that was packed to be taught learns by itself what armnet teach learns."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from armnet.__main__ import main
from exporter.bundle.runtime_files import runtime_files
from runtime_arm.app.main import main as app
from runtime_arm.app.teaching.cutting import ENTRY, cut_of_entry
from runtime_arm.app.teaching.samples import is_seen
from runtime_arm.errors import UsageError
from runtime_arm.pair.pair import Pair
from tests.training.teach.test_teach import classifier, drawn
from training.teach.teaching import teach

Image = pytest.importorskip("PIL.Image", reason="pictures need Pillow")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARMNET_CACHE", str(tmp_path / "cache"))


def ran(folder: Path, *words: str) -> Any:
    return subprocess.run([sys.executable, "-I", *words], cwd=folder, capture_output=True, text=True, check=False)


def test_a_bundle_learns_what_armnet_teach_learns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    classifier().save(tmp_path / "net")
    data = drawn(tmp_path / "data", "across", "down", "spot", count=10)
    (data / "spot" / "3.png").write_bytes(b"no picture")
    assert main(["pack", str(tmp_path / "net"), "--teachable", "-o", str(tmp_path / "net.pyz")]) == 0
    names = zipfile.ZipFile(tmp_path / "net.pyz").namelist()
    assert sum("teaching" in name for name in names) == 9
    assert all(name.startswith(("runtime_arm/", "pair/", "MANIFEST", "__main__")) for name in names)
    assert ran(tmp_path, "net.pyz", "--teach", "nowhere").stderr.startswith("net.pyz: nowhere: is no folder")
    done = ran(tmp_path, "net.pyz", "--teach", "data", "--json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["output"] == "net_taught.pyz"
    assert facts["labels"] == ["across", "down", "spot"]
    assert len(facts["skipped"]) == 1
    lesson = teach(classifier(), data)
    assert (facts["accuracy"], facts["learned"], facts["held_out"]) == (
        lesson.accuracy,
        lesson.learned,
        lesson.held_out,
    )
    for one, other in zip(Pair.load(tmp_path / "net_taught.pyz").init_net.op, lesson.pair.init_net.op):
        assert one == other
    assert "spot" in ran(tmp_path, "net_taught.pyz", "data/spot/1.png").stdout.splitlines()[1]
    assert ran(tmp_path, "net_taught.pyz", "--self-test").returncode == 0


def test_a_bundle_that_was_taught_learns_one_class_more(tmp_path: Path) -> None:
    classifier().save(tmp_path / "net")
    drawn(tmp_path / "two", "across", "down", count=8)
    drawn(tmp_path / "more", "spot", count=8)
    assert main(["pack", str(tmp_path / "net"), "--teachable", "-o", str(tmp_path / "net.pyz")]) == 0
    refused = ran(tmp_path, "net.pyz", "--teach", "more", "--add-class")
    assert refused.returncode == 2
    assert (
        refused.stderr == "net.pyz: this bundle was not taught yet: --add-class is for one that --teach has written\n"
    )
    assert ran(tmp_path, "net.pyz", "--teach", "two", "--output", "two.pyz").returncode == 0
    done = ran(tmp_path, "two.pyz", "--teach", "more", "--add-class", "--output", "three.pyz", "--json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["labels"] == ["across", "down", "spot"]
    assert facts["learned"] + facts["held_out"] == 24
    for label, folder in (("across", "two"), ("spot", "more")):
        assert label in ran(tmp_path, "three.pyz", f"{folder}/{label}/1.png").stdout.splitlines()[1]
    clash = ran(tmp_path, "three.pyz", "--teach", "more", "--add-class")
    assert clash.stderr.startswith("three.pyz: class 'spot' is known already")


def test_arrays_need_no_pillow(tmp_path: Path) -> None:
    data = drawn(tmp_path / "data", "across", "down", count=6)
    for path in list(data.rglob("*.png")):
        pixels = np.asarray(Image.open(path), np.float32).transpose(2, 0, 1)[None] / 255
        np.save(path.with_suffix(".npy"), pixels)
        path.unlink()
    assert is_seen(data / "x.npy")
    lesson = teach(classifier(), data, ways=())
    assert lesson.learned + lesson.held_out == 12
    assert lesson.accuracy == 1.0


def test_other_bundles_do_not_hold_what_learns(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    pair = classifier()
    names = set(runtime_files([pair.init_net, pair.predict_net]))
    assert not {name for name in names if "teaching" in name or name == "runtime_arm/app/packing.py"}
    monkeypatch.setattr("runtime_arm.app.main._TEACHING", "runtime_arm.app.not_here")
    assert app("", ["--teach", "data"], "plain.pyz") == 2
    told = capsys.readouterr().err
    assert told == "plain.pyz: this bundle cannot be taught: it was packed without --teachable\n"


@pytest.mark.parametrize("packed", [True, False])
def test_the_help_tells_of_teaching_where_it_is_packed(
    packed: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if not packed:
        monkeypatch.setattr("runtime_arm.app.main._TEACHING", "runtime_arm.app.not_here")
    with pytest.raises(SystemExit):
        app("", ["--help"], "some.pyz")
    assert ("--teach FOLDER" in capsys.readouterr().out) == packed


@pytest.mark.parametrize(
    "entry", [None, {}, {"blob": "z", "size": 3, "dims": 2}, {"blob": "a", "size": "3", "dims": 2}]
)
def test_an_entry_that_does_not_fit_is_refused(entry: Any) -> None:
    pair = classifier()
    with pytest.raises(UsageError, match="teachable"):
        cut_of_entry(pair.replace(meta={**pair.meta, ENTRY: entry}))
