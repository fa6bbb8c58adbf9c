"""Paths of the repository, its files and its demo network, and of the material beside it."""

from __future__ import annotations

import importlib.util
import runpy
import subprocess
import sys
from pathlib import Path, PurePosixPath
from typing import Any, Dict, List

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


def module_at(path: Path) -> Any:
    """The Python file at a path that no package has, as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def names_of_script(name: str) -> Dict[str, Any]:
    """What a script of ``scripts/`` defines; it finds the modules beside it, as when it is started."""
    sys.path.insert(0, str(SCRIPTS))
    try:
        return runpy.run_path(str(SCRIPTS / name))
    finally:
        sys.path.remove(str(SCRIPTS))
