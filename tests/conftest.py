"""Fixtures of every test."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import List

import pytest

from tests.support.paths import SHARED


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real models and recorded runs beside the repository; the test is skipped where it is absent."""
    if not SHARED.is_dir():
        pytest.skip("shared material not found at ../shared")
    return SHARED


def pytest_collection_modifyitems(items: List[pytest.Item]) -> None:
    """Say why a test has no cases: those that ONNX brings along need its package."""
    for item in items:
        for mark in item.iter_markers("skip"):
            if find_spec("onnx") is None and mark.kwargs.get("reason", "").startswith("got empty parameter set"):
                mark.kwargs["reason"] = "its cases come with the package onnx, which is not installed"
