"""scripts/fuzz_models: a short run finds nothing, and what it changes is damaged as it should be."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Dict

import numpy as np
import onnx
import pytest

from device_tests.host.networks.random import random_network
from runtime_arm.pair.metadata import MODEL
from scripts.fuzzing import changes, corpus
from tests.support.paths import ROOT, names_of_script

SCRIPT = ROOT / "scripts" / "fuzz_models"


@pytest.fixture(scope="module")
def fuzz() -> Dict[str, Any]:
    """The names that the script defines."""
    return names_of_script("fuzz_models")


def models(fuzz: Dict[str, Any]) -> corpus.Groups:
    return [[corpus.Model("one", "source", {"model.onnx": bytes(range(200))})]]


def test_a_short_run_finds_nothing_and_can_be_resumed(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), "--findings", str(tmp_path), "--count"]
    first = subprocess.run([*command, "200"], capture_output=True, text=True, check=False)
    assert first.returncode == 0, first.stdout + first.stderr
    assert first.stdout.startswith("200 cases of ")
    second = subprocess.run([*command, "20", "--resume"], capture_output=True, text=True, check=False)
    assert second.returncode == 0, second.stdout + second.stderr
    assert "from 200 on" in second.stdout
    assert (tmp_path / "next").read_text() == "220"


def test_a_case_is_always_the_same(fuzz: Dict[str, Any]) -> None:
    cases = [fuzz["case"](models(fuzz), number) for number in (1, 2, 1)]
    assert cases[0] == cases[2] != cases[1]


def test_the_files_of_a_case_are_kept_for_a_finding(fuzz: Dict[str, Any], tmp_path: Path) -> None:
    assert fuzz["keep"](models(fuzz), 0, tmp_path) == "of one"
    assert (tmp_path / "model.onnx").read_bytes() == fuzz["case"](models(fuzz), 0).files["model.onnx"]


def test_refusals_are_counted_by_error_type(fuzz: Dict[str, Any], tmp_path: Path) -> None:
    assert fuzz["run"](models(fuzz)[0][0], tmp_path) in ("FormatError", "ExportError")


def test_changes_keep_most_of_a_file() -> None:
    rng, content = np.random.default_rng(0), bytes(1000)
    changed = [changes.spoiled(content, rng) for _ in range(300)]
    assert sum(one != content for one in changed) > 200
    assert np.median([len(one) for one in changed]) > 900
    assert changes.with_other_number(b"dim: 3 }", rng) != b"dim: 3 }"


def test_a_protobuf_with_another_field_is_mostly_still_one() -> None:
    content, rng = random_network(0).SerializeToString(), np.random.default_rng(0)
    assert b"".join(field.to_bytes() for field in changes.fields_of(content)) == content
    readable = 0
    for _ in range(100):
        try:
            onnx.load_from_string(changes.with_other_field(content, rng))
            readable += 1
        except Exception:  # protobuf has an exception of its own in every version
            continue
    assert readable > 70


def test_a_changed_pair_or_bundle_is_mostly_read_behind_its_hashes(fuzz: Dict[str, Any], tmp_path: Path) -> None:
    groups = corpus.groups_made(tmp_path)
    for model in (one for group in groups for one in group if one.kind != "source"):
        assert fuzz["run"](model._replace(files=changes.sealed(model.files)), tmp_path) == "ran", model.name
        (place,) = [name for name in model.files if name.endswith(MODEL)]
        damaged = {**model.files, place.replace(MODEL, "init_net.pb"): b"\xff"}
        assert fuzz["run"](model._replace(files=damaged), tmp_path) == "PairError"
        assert fuzz["run"](model._replace(files=changes.sealed(damaged)), tmp_path) == "FormatError"
