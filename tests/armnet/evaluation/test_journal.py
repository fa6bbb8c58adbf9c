"""An evaluation that is interrupted goes on where it was."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import List

import numpy as np
import pytest

from armnet.evaluation import journal as journal_module
from armnet.evaluation.journal import Journal
from runtime_arm.errors import ResourceError
from tests.support.commands import Armnet
from tests.support.paths import DEMO, ROOT

ROUNDS = 40


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """The held-back digits, so many times that reading them takes seconds."""
    held_back = np.load(DEMO / "held_back.npz")
    path = tmp_path / "many.npz"
    np.savez(path, **{key: np.concatenate([held_back[key]] * ROUNDS) for key in ("images", "labels")})
    return path


def lines_below(folder: Path) -> int:
    return sum(len(path.read_bytes().splitlines()) for path in folder.glob("*.jsonl"))


def test_what_is_killed_goes_on(armnet: Armnet, digits: Path, many: Path, journals: Path) -> None:
    command = [sys.executable, "-m", "armnet", "evaluate", str(digits), str(many)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ARMNET_CACHE": str(journals.parent)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 60
        while lines_below(journals) < 500 and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL, "it ended before it was killed"
    answered = lines_below(journals)
    status, out, err = armnet("evaluate", digits, many, "--json")
    assert status == 0
    (place,) = json.loads(out)["places"]
    assert answered - 1 <= place["answered_before"] <= answered
    assert f"here: {place['answered_before']} of {360 * ROUNDS} examples were answered by an earlier run" in err
    assert place["metrics"] == {"top1": pytest.approx(359 / 360), "top5": 1.0}
    assert list(journals.iterdir()) == []
    assert json.loads(armnet("evaluate", digits, many, "--count", 50, "--json")[1])["places"][0]["answered_before"] == 0


def test_a_line_that_is_cut_off_is_answered_again(journals: Path) -> None:
    journal = Journal(["net", "data"])
    journal.write(3, {"top": [[1, 0.5]]})
    journal.close()
    with open(journal.path, "ab") as file:
        file.write(b'{"example": 4, "finding": {"to')
    again = Journal(["net", "data"])
    assert again.known == {3: {"top": [[1, 0.5]]}}
    again.write(4, {"top": [[2, 0.5]]})
    again.close()
    assert sorted(Journal(["net", "data"]).known) == [3, 4]
    assert Journal(["net", "other data"]).known == {}
    assert Journal(["net", "data"], fresh=True).known == {}
    left: List[Path] = list(journals.iterdir())
    assert left == []


def test_what_nobody_has_gone_on_with_for_long_is_forgotten(journals: Path) -> None:
    for name, days in (("old", 40), ("new", 1)):
        journal = Journal([name])
        journal.write(0, {"text": name})
        journal.close()
        os.utime(journal.path, (time.time() - 86400 * days,) * 2)
    journal = Journal(["newest"])
    journal.write(0, {"text": "newest"})
    journal.close()
    assert not Journal(["old"]).known
    assert Journal(["new"]).known


def test_without_a_place_for_its_journal_an_evaluation_gives_the_same(
    armnet: Armnet, digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("evaluate", digits, DEMO / "held_back.npz", "--json")
    usual = json.loads(armnet(*command)[1])
    (tmp_path / "file").write_text("in the way of a folder")

    def homeless() -> Path:
        raise ResourceError("no home folder for the cache")

    for root, reason in ((lambda: tmp_path / "file", "Not a directory"), (homeless, "no home folder for the cache")):
        monkeypatch.setattr(journal_module, "cache_root", root)
        status, out, err = armnet(*command)
        assert status == 0
        assert json.loads(out)["places"][0]["metrics"] == usual["places"][0]["metrics"]
        assert err.count("answers are not kept") == 1
        assert reason in err


def test_a_fresh_evaluation_forgets_also_what_it_cannot_remove(journals: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(["net", "data"])
    journal.write(0, {"text": "first"})
    journal.close()

    def refuse(path: Path) -> None:
        raise PermissionError(f"{path} cannot be removed")

    monkeypatch.setattr(os, "unlink", refuse)
    assert Journal(["net", "data"]).known == {0: {"text": "first"}}
    assert Journal(["net", "data"], fresh=True).known == {}


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_findings_are_remembered_when_the_disk_is_full(journals: Path) -> None:
    journal = Journal(["net", "data"])
    journal.write(0, {"text": "first"})
    assert journal.path is not None
    assert not journal.lost
    journal.close()
    journal.path.unlink()
    journal.path.symlink_to("/dev/full")
    journal.write(1, {"text": "second"})
    journal.write(2, {"text": "third"})
    assert "No space left" in journal.lost
    assert sorted(journal.known) == [0, 1, 2]
