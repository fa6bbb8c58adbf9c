"""Fixtures of the commands' tests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from armnet.__main__ import main
from tests.docs.json_schemas import AVAILABLE, assert_output_fits
from tests.support.commands import PREPROCESSING, Armnet, Outcome
from tests.support.paths import DEMO


@pytest.fixture
def armnet(capsys: pytest.CaptureFixture[str]) -> Armnet:
    """Runs a command and returns its outcome. JSON that it prints fits the schema of docs/formats/schemas."""

    def run(*words: object) -> Outcome:
        capsys.readouterr()
        try:
            status = main([str(word) for word in words])
        except SystemExit as leaving:
            status = int(leaving.code or 0)
        captured = capsys.readouterr()
        if "--json" in words and captured.out and AVAILABLE:
            assert_output_fits(json.loads(captured.out))
        return status, captured.out, captured.err

    return run


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's network as a pair."""
    pair = tmp_path_factory.mktemp("pairs") / "digits"
    meta = ["--labels", str(DEMO / "labels.txt"), "--preprocessing", PREPROCESSING]
    assert main(["export", str(DEMO / "digits.onnx"), "-o", str(pair), *meta]) == 0
    return pair
