"""The wheel on every Python that it promises to run on, with NumPy as the only other package."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import List

import numpy as np
import pytest

import armnet
from device_tests.host.emulation.cache import EmulationUnavailable
from runtime_arm.version import VERSION
from tests.support.paths import DEMO
from tests.support.publishing.bare_commands import Told, bare_python, told_by
from tests.support.publishing.distributions import Distributions
from tests.support.publishing.pythons import PYTHONS, find_python, numpy_for


@pytest.fixture(scope="module")
def installed(distributions: Distributions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as pip lays it out; it is pure Python, so for all of them alike."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(distributions.wheel) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("onnx", reason="the pair is made of an ONNX file")
    folder = tmp_path_factory.mktemp("pair") / "digits"
    armnet.export(DEMO / "digits.onnx").save(folder)
    return folder


@pytest.mark.parametrize("version", PYTHONS)
def test_with_numpy_alone_it_exports_runs_optimises_and_packs(
    installed: Path, digits: Path, version: str, tmp_path: Path
) -> None:
    python = find_python(version)
    if python is None:
        pytest.skip(f"Python {version} is not installed")
    try:
        environment = bare_python(python, [installed, numpy_for(version)], tmp_path / "environment")
    except EmulationUnavailable as error:
        pytest.skip(str(error))
    with np.load(DEMO / "held_back.npz") as held_back:
        np.save(tmp_path / "x.npy", held_back["images"][:1])
        label = int(held_back["labels"][0])
    commands: List[List[object]] = [
        ["--version"],
        ["run", digits, "x.npy", "--json"],
        ["optimize", digits, "-o", "fast"],
        ["run", "fast", "x.npy", "--json"],
        ["pack", "fast", "-o", "fast.pyz"],
        ["export", DEMO / "digits.onnx", "-o", "exported"],
        ["export", "fast", "--to", "onnx", "-o", "back.onnx"],
    ]
    version_told, ran, optimized, ran_fast, packed, exported, back = told_by(environment, tmp_path, commands)
    assert version_told.out == f"armnet {VERSION}\n"
    for one in (ran, optimized, ran_fast, packed, exported):
        assert one.status == 0, one
    assert best(ran) == best(ran_fast) == label
    assert back.status == 2
    (line,) = back.err.splitlines()
    assert "needs the package onnx: pip install 'armnet[export]'" in line
    assert not (tmp_path / "back.onnx").exists()


def best(run: Told) -> int:
    """The index of the best class in what ``armnet run --json`` printed."""
    return int(json.loads(run.out)["runs"][0]["result"]["classes"][0]["index"])
