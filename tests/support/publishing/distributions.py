"""What a release consists of: the wheel and the source distribution, built as the release builds them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.support.paths import ROOT, tracked

REPOSITORY = "https://repository.example/armnet"


class Distributions(NamedTuple):
    """The files that are published."""

    wheel: Path
    source: Path


def clean_copy(folder: Path) -> Path:
    """A copy of the files of the repository alone: setuptools would pack the leftovers of earlier builds."""
    for path in tracked():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, target)
    return folder


def build_distributions(folder: Path) -> Distributions:
    """Builds both, the wheel from the source distribution, as ``python -m build`` does."""
    checkout = clean_copy(folder / "checkout")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(checkout)]
    environment = {**os.environ, "REPOSITORY_URL": REPOSITORY}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return Distributions(next(folder.glob("armnet-*.whl")), next(folder.glob("armnet-*.tar.gz")))
