"""The guides name files that exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import List

import pytest

from scripts.draw_architecture import TARGET, picture
from tests.support.paths import ROOT

GUIDES = ("CONTRIBUTING.md", "ARCHITECTURE.md")


def paths_in(guide: str) -> List[str]:
    """The paths of the repository in backticks: words with a slash, without blanks, that do not start with ``..``."""
    names = re.findall(r"`([\w./-]+/[\w./-]*)`", (ROOT / guide).read_text(encoding="utf-8"))
    return [name for name in names if not name.startswith("..")]


@pytest.mark.parametrize("guide", GUIDES)
def test_every_path_in_backticks_exists(guide: str) -> None:
    found = paths_in(guide)
    assert len(found) > 40
    assert [name for name in found if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("guide", GUIDES)
def test_every_link_leads_somewhere(guide: str) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / guide).read_text(encoding="utf-8"))
    assert targets
    assert [target for target in targets if not Path(ROOT / target).exists()] == []


def test_the_picture_is_what_the_script_draws() -> None:
    assert TARGET.read_text(encoding="utf-8") == picture()
