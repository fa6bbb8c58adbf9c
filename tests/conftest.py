"""Fixtures of every test, and the one profile of Hypothesis."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import List

import pytest
from hypothesis import HealthCheck, settings

from tests.support.paths import SHARED
from tests.support.publishing.distributions import Distributions, build_distributions

# No test fails because the machine is busy: neither a deadline nor the time or luck of drawing an example counts.
# In CI every run draws the same examples; elsewhere each run draws new ones.
settings.register_profile(
    "armnet",
    deadline=None,
    derandomize="CI" in os.environ,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.load_profile("armnet")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real models and recorded runs beside the repository; the test is skipped where it is absent."""
    if not SHARED.is_dir():
        pytest.skip("shared material not found at ../shared")
    return SHARED


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    """The wheel and the source distribution of the working tree."""
    pytest.importorskip("build", reason="it builds what is published: pip install '.[publish]'")
    return build_distributions(tmp_path_factory.mktemp("distributions"))


def pytest_collection_modifyitems(items: List[pytest.Item]) -> None:
    """Say why a test has no cases: those that ONNX brings along need its package."""
    for item in items:
        for mark in item.iter_markers("skip"):
            if find_spec("onnx") is None and mark.kwargs.get("reason", "").startswith("got empty parameter set"):
                mark.kwargs["reason"] = "its cases come with the package onnx, which is not installed"
