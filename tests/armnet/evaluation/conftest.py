"""Every test has journals of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from armnet.evaluation import journal


@pytest.fixture(autouse=True)
def journals(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which evaluations of this test keep what they have answered."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setattr(journal, "cache_root", lambda: folder)
    return folder / "evaluations"
