"""Paths of the repository, its files and its demo network, and of the material beside it."""

from __future__ import annotations

import subprocess
from pathlib import Path, PurePosixPath
from typing import List

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "demo"
SCRIPTS = ROOT / "scripts"
SHARED = ROOT.parent / "shared"
GOLDENS = SHARED / "goldens"


def tracked(*folders: str) -> List[PurePosixPath]:
    """The files of the repository, or of these folders, relative to its root: those that git tracks or would add."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *folders]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [PurePosixPath(line) for line in done.stdout.splitlines() if (ROOT / line).is_file()]
