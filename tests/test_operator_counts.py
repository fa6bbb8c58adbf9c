"""scripts/operator_counts: well-known networks keep no separate normalisation or activation and hardly any copies."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.paths import SCRIPTS

pytest.importorskip("onnx", reason="exporting needs onnx")

SCRIPT = SCRIPTS / "operator_counts"
ACTIVATIONS = {"Relu", "Clip", "LeakyRelu", "PRelu", "Sigmoid", "Swish", "onnx.HardSwish"}
NORMALISATIONS = {"SpatialBN", "Mul", "Add"}


def test_operators_that_are_left_in_well_known_networks() -> None:
    words = [sys.executable, str(SCRIPT), "--json", "--image-size", "64"]
    completed = subprocess.run(words, capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stderr
    rows = {row["network"]: row for row in json.loads(completed.stdout)}
    assert list(rows) == ["resnet50", "mobilenet_v2", "googlenet", "densenet121", "squeezenet1_1"]
    for row in rows.values():
        assert not row["after"].keys() & (ACTIVATIONS | NORMALISATIONS), row
        assert sum(row["after"].values()) < 0.64 * sum(row["before"].values())
    # DenseNet keeps a few of its 58 copies: without them its first dense block, which sets the peak, would need more.
    copies = {name: row["copies"]["after"] for name, row in rows.items()}
    assert copies.pop("densenet121") <= 3
    assert not any(copies.values()), copies
    # A normalisation before a convolution becomes one operator with the activation between them.
    assert rows["densenet121"]["after"]["armnet.FusedBatchNorm"] == 62
    assert rows["densenet121"]["normalisations_behind"] == {"Concat": 58, "AveragePool": 3, "armnet.FusedMaxPool": 1}


def test_it_prints_a_table() -> None:
    words = [sys.executable, str(SCRIPT), "resnet18", "--image-size", "32"]
    completed = subprocess.run(words, capture_output=True, text=True, check=False)
    lines = [line.split() for line in completed.stdout.splitlines()]
    assert ["resnet18", "before", "after"] in lines
    assert ["SpatialBN", "20"] in lines
    assert ["ConvRelu", "8"] in lines
    assert "No batch normalisation is left." in completed.stdout
