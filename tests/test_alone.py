"""A fresh clone, with nothing beside it: what the scripts print there, of the project's own networks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import ROOT, tracked


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that git tracks, in a folder without ../shared."""
    folder: Path = tmp_path_factory.mktemp("alone") / "armnet"
    for path in tracked():
        (folder / path.parent).mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, folder / path)
    return folder


def run(clone: Path, *words: str) -> Any:
    environment = {**os.environ, "PYTHONPATH": str(clone)}
    return subprocess.run(
        [sys.executable, *words], cwd=clone, env=environment, capture_output=True, text=True, check=False
    )


def test_memory_of_networks_that_the_project_makes(clone: Path) -> None:
    pytest.importorskip("onnx", reason="the networks are written as ONNX")
    done = run(clone, "scripts/memory_table", "--json", "squeezenet1_1", "unet")
    assert done.returncode == 0, done.stderr
    for row in json.loads(done.stdout)["networks"]:
        assert row["caffe2"] is None
        assert row["bound"] <= row["arena"] <= row["live"] <= row["by_name"] < row["before"]
        assert row["total"] == row["arena"] + row["scratch"]


def test_a_recorded_network_that_is_not_there_is_refused(clone: Path) -> None:
    done = run(clone, "scripts/memory_table", "resnet50@noinplace")
    assert done.returncode == 2
    assert "no recorded networks in" in done.stderr
    assert "unknown network 'resnet50@noinplace'" in done.stderr


def test_distance_of_the_demos_network(clone: Path) -> None:
    for package in ("onnx", "tflite", "ai_edge_litert"):
        pytest.importorskip(package, reason=f"writing a TFLite file and comparing with LiteRT needs {package}")
    done = run(clone, "scripts/tflite_distance", "--json")
    assert done.returncode == 0, done.stderr
    assert "the demo's takes their place" in done.stderr
    rows = json.loads(done.stdout)["outputs"]
    assert [row["network"] for row in rows] == ["digits_int8", "digits_int16", "digits_dynamic"]
    assert max(row["reference"] for row in rows) < 1e-6  # probabilities; what follows the integers is float


@pytest.mark.parametrize("part", ["models", "tiny"])
def test_benchmarks(clone: Path, part: str) -> None:
    for package in ("onnx", "onnxruntime"):
        pytest.importorskip(package, reason=f"the benchmarks need {package}")
    done = run(clone, "-m", "scripts.benchmarks", "--parts", part, "--runs", "1", "--threads", "1")
    assert done.returncode == 0, done.stderr
    assert "digits" in done.stdout
