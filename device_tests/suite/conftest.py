"""Gives the tests the data that the host has prepared for them in a folder beside this file."""

from __future__ import annotations

from pathlib import Path
from typing import List

import pytest

DATA = Path(__file__).parent / "data"  # vectors.pb, networks/NAME, training/NAME, bundles/NAME.pyz


def prepared(pattern: str) -> List[Path]:
    """The files in the data that match a pattern."""
    return sorted(DATA.glob(pattern))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs a test with a parameter ``network``, ``training`` or ``bundle`` for each; skips it if there is none."""
    for name, pattern in (("network", "networks/*"), ("training", "training/*"), ("bundle", "bundles/*.pyz")):
        if name in metafunc.fixturenames:
            found = [pytest.param(path, id=path.stem) for path in prepared(pattern)]
            nothing = pytest.param(None, marks=pytest.mark.skip(reason=f"no {pattern} was prepared for this device"))
            metafunc.parametrize(name, found or [nothing])
