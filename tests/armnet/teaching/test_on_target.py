"""armnet teach --on: a target learns what this machine learns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pytest

from armnet.__main__ import main
from armnet.teaching.on_target import OnTarget
from device_tests.host.emulation.cache import EmulationUnavailable
from device_tests.host.emulation.machine import emulated
from runtime_arm.pair.pair import Pair
from tests.training.teach.test_teach import classifier, drawn
from tests.training.teach.test_tuning_and_sounds import listener, sounds, weights_of

pytest.importorskip("PIL", reason="pictures need Pillow")


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that was computed before."""
    monkeypatch.setattr("runtime_arm.app.teaching.features.CachePart", lambda name: Nothing())


class Nothing:
    def get(self, key: str, read: Any) -> None:
        return None

    def put(self, key: str, write: Any) -> None:
        return None


def taught(capsys: pytest.CaptureFixture[str], *words: str) -> Dict[str, Any]:
    assert main(["teach", *words, "--json"]) == 0
    found: Dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_an_emulated_device_learns_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        emulated("arm64")
    except EmulationUnavailable as error:
        pytest.skip(str(error))
    classifier().save(tmp_path / "net")
    data = drawn(tmp_path / "data", "across", "down", "spot", count=6)
    (data / "down" / "5.png").write_bytes(b"damaged")
    words = [str(tmp_path / "net"), "--data", str(data), "--epochs", "8"]
    here = taught(capsys, *words, "-o", str(tmp_path / "here"))
    there = taught(capsys, *words, "-o", str(tmp_path / "there"), "--on", "emulated:arm64")
    for key in ("labels", "accuracy", "confusion", "learned", "held_out", "skipped", "cut"):
        assert there[key] == here[key], key
    assert len(here["skipped"]) == 1
    curves: List[Any] = [[epoch["loss"] for epoch in facts["epochs"]] for facts in (here, there)]
    np.testing.assert_allclose(*curves, rtol=1e-3)
    one, other = (weights_of(Pair.load(tmp_path / name)) for name in ("here", "there"))
    for name, value in one.items():
        np.testing.assert_allclose(other[name], value, rtol=1e-2, atol=1e-3 * np.abs(value).max(initial=0))


def test_sounds_are_learned_on_a_target(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listener().save(tmp_path / "ear")
    words = [str(tmp_path / "ear"), "--data", str(sounds(tmp_path / "sounds", 440, 880)), "--epochs", "20"]
    here = taught(capsys, *words, "-o", str(tmp_path / "here"))
    there = taught(capsys, *words, "-o", str(tmp_path / "there"), "--on", "local")
    assert (there["confusion"], there["labels"]) == (here["confusion"], here["labels"])


def test_mistakes_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    classifier().save(tmp_path / "net")
    data = drawn(tmp_path / "data", "across", "down", count=3)
    words = ["teach", str(tmp_path / "net"), "--data", str(data), "-o", str(tmp_path / "out")]
    assert main([*words, "--on", "local", "--fine-tune", "1"]) == 2
    assert "leave out --on, or --fine-tune" in capsys.readouterr().err
    assert main([*words, "--on", "nowhere"]) == 2
    assert "no target 'nowhere'" in capsys.readouterr().err
    with OnTarget("local", timeout=0.001) as place, pytest.raises(Exception, match="not finished after"):
        place.asked(["head", "2", "1", "0"], {})
    assert not (tmp_path / "out").exists()
