"""scripts/operator_counts: of well-known networks no normalisation, lone activation or copied concatenation is left."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("onnx", reason="exporting needs onnx")

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "operator_counts"
ACTIVATIONS = {"Relu", "Clip", "LeakyRelu", "PRelu", "Sigmoid", "Swish", "onnx.HardSwish"}
NORMALISATIONS = {"SpatialBN", "Mul", "Add"}


def test_what_is_left_of_well_known_networks() -> None:
    words = [sys.executable, str(SCRIPT), "--json"]
    completed = subprocess.run(words, capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stderr
    rows = {row["network"]: row for row in json.loads(completed.stdout)}
    assert list(rows) == ["resnet50", "mobilenet_v2", "googlenet", "densenet121", "squeezenet1_1"]
    for row in rows.values():
        assert not row["after"].keys() & (ACTIVATIONS | NORMALISATIONS), row
        assert sum(row["after"].values()) < 0.61 * sum(row["before"].values())
    assert [rows[name]["copies"]["after"] for name in ("googlenet", "squeezenet1_1")] == [0, 0]
    # A normalisation in front of its convolution, with the activation between them, is one operator with that.
    assert rows["densenet121"]["after"]["armnet.FusedBatchNorm"] == 62
    # What is in front of a block's last concatenation would have to live longer than memory allows.
    assert rows["densenet121"]["copies"]["after"] <= 1


def test_it_prints_a_table() -> None:
    words = [sys.executable, str(SCRIPT), "resnet18", "--image-size", "32"]
    completed = subprocess.run(words, capture_output=True, text=True, check=False)
    lines = [line.split() for line in completed.stdout.splitlines()]
    assert ["resnet18", "before", "after"] in lines
    assert ["SpatialBN", "20"] in lines
    assert ["ConvRelu", "9"] in lines
