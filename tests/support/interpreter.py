"""Runs programs in a separate interpreter, with all packages or with NumPy alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from runtime_arm.imports import OURS
from tests.support.paths import ROOT

# Makes every import fail except those of the standard library, NumPy and armnet.
NUMPY_ALONE = f"""
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names and top not in {("numpy", *OURS)!r} and not top.startswith("_"):
            raise ModuleNotFoundError(f"No module named {{top!r}}", name=top)

sys.meta_path.insert(0, Missing())
"""


def python(program: str, folder: Path = ROOT) -> str:
    """What the program prints when it runs in a separate interpreter."""
    words = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{program}"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout
