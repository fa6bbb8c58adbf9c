"""A model of another format is exported and optimised once; after that its pair comes from the cache."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, List

import numpy as np
import pytest

import armnet as package
import exporter
from armnet.opening import pair_of
from runtime_arm.errors import FormatError, OptimizationError
from runtime_arm.pair.pair import Pair
from tests.support.commands import Armnet
from tests.support.paths import DEMO

DIGITS = DEMO / "digits.onnx"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The part of pairs in a cache of the test's own."""
    monkeypatch.setenv("ARMNET_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "pairs"


@pytest.fixture
def exports(monkeypatch: pytest.MonkeyPatch) -> List[Any]:
    """What was exported."""
    done: List[Any] = []
    really = exporter.export
    monkeypatch.setattr(
        exporter, "export", lambda *paths, **options: (done.append(paths), really(*paths, **options))[1]
    )
    return done


def test_a_second_load_exports_nothing(exports: List[Any], folder: Path) -> None:
    first, second = pair_of(DIGITS), pair_of(DIGITS)
    assert first == second
    assert len(exports) == 1
    assert first == package.optimize(package.export(DIGITS))


def test_the_content_counts_and_not_the_place(exports: List[Any], tmp_path: Path) -> None:
    pair_of(DIGITS)
    shutil.copy(DIGITS, tmp_path / "other.onnx")
    assert pair_of(tmp_path / "other.onnx").meta["source"]["name"] == "other.onnx"
    assert pair_of(DIGITS).meta["source"]["name"] == "digits.onnx"
    assert len(exports) == 1
    content = DIGITS.read_bytes()
    assert pair_of(content).predict_net == pair_of(DIGITS).predict_net
    assert pair_of(bytearray(content)) == pair_of(memoryview(content))
    assert len(exports) == 2


def test_weights_beside_the_model_count(exports: List[Any], tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="the test writes ONNX files")
    for one in range(2):
        model = onnx.load(str(DIGITS))
        tensor = model.graph.initializer[0]
        tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor) + one, tensor.name))
        onnx.save(model, str(tmp_path / "m.onnx"), save_as_external_data=True, location="w" * 200, size_threshold=0)
        pair_of(tmp_path / "m.onnx")
        pair_of(tmp_path / "m.onnx")
        assert len(exports) == one + 1
        (tmp_path / ("w" * 200)).unlink()


@pytest.mark.parametrize("name", ["init_net.pb", "predict_net.pb", "model.json", "model.sha256"])
@pytest.mark.parametrize("damage", ["changed", "cut", "empty", "missing"])
def test_a_damaged_entry_is_made_again(exports: List[Any], folder: Path, name: str, damage: str) -> None:
    pair = pair_of(DIGITS)
    path = next(folder.iterdir()) / name
    content = path.read_bytes()
    path.unlink()
    if damage != "missing":
        changed = content[:9] + bytes([content[9] ^ 1]) + content[10:]
        path.write_bytes({"changed": changed, "cut": content[:-1], "empty": b""}[damage])
    assert pair_of(DIGITS) == pair
    assert len(exports) == 2
    assert pair_of(DIGITS) == pair
    assert len(exports) == 2


def test_without_a_place_to_write_models_still_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("ARMNET_CACHE", str(tmp_path / "file"))
    assert pair_of(DIGITS) == pair_of(DIGITS)


def test_a_model_that_optimising_spoils_runs_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    import optimize

    def refuse(pair: Pair, **options: Any) -> Pair:
        raise OptimizationError("step 3 changes what the net computes")

    told: List[str] = []
    monkeypatch.setattr(optimize, "optimize", refuse)
    assert pair_of(DIGITS, notice=told.append) == package.export(DIGITS)
    assert "step 3" in told[0]


def test_what_is_no_model_is_refused_each_time(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"nothing of the kind")
    for _ in range(2):
        with pytest.raises(FormatError, match=r"m\.onnx"):
            pair_of(tmp_path / "m.onnx")
    with pytest.raises(FormatError, match="model"):
        pair_of(b"nothing of the kind")
    assert not folder.exists() or not list(folder.iterdir())


def test_the_model_answers(tmp_path: Path) -> None:
    held_back = np.load(DEMO / "held_back.npz")
    for _ in range(2):
        with package.Predictor(pair_of(DIGITS), threads=1) as predictor:
            found = next(iter(predictor.run([held_back["images"]]).values()))
        assert np.mean(found.argmax(axis=1) == held_back["labels"]) >= 0.97


def test_the_command_lists_and_empties(armnet: Armnet, folder: Path) -> None:
    assert armnet("cache")[0] == 0
    pair_of(DIGITS)
    (folder.parent / "evaluations").mkdir()  # one has nothing in it
    (folder.parent / "machines").mkdir()
    (folder.parent / "machines" / "disk").write_bytes(bytes(10))
    status, out, _ = armnet("cache", "--json")
    assert status == 0
    facts = json.loads(out)
    assert [(row["part"], row["holds"]) for row in facts["entries"]] == [("machines", ""), ("pairs", "digits.onnx")]
    assert facts["entries"][1]["nbytes"] > 1000
    (folder.parent / "plans").mkdir()
    for name in "abc":
        (folder.parent / "plans" / name).write_bytes(bytes(1000))
    told = armnet("cache")[1]
    assert "digits.onnx" in told
    row = next(line.split() for line in told.splitlines() if line.startswith("plans"))
    assert row[1:5] == ["3", "entries", "3", "kB"]
    for number in range(12):
        shutil.copytree(next(folder.iterdir()), folder / f"copy{number}")
    named = [line.split() for line in armnet("cache")[1].splitlines() if line.startswith("pairs")]
    assert [row[1:3] for row in named[10:]] == [["3", "more"]]
    for number in range(12):
        shutil.rmtree(folder / f"copy{number}")
    assert armnet("cache", "--empty", "nothing")[0] == 2
    status, out, _ = armnet("cache", "--empty", "--json")
    assert json.loads(out)["freed"] == facts["entries"][1]["nbytes"] + 3000
    assert [row["part"] for row in json.loads(out)["entries"]] == ["machines"]
    armnet("cache", "--empty", "everything")
    assert list(folder.parent.iterdir()) == []
