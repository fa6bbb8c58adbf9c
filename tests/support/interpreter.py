"""Programs in an interpreter of their own, also in one that has no packages but NumPy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from runtime_arm.imports import OURS
from tests.support.paths import ROOT

# Makes the import of every package fail that is neither Python's own nor NumPy nor armnet's.
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
    """What the program prints in an interpreter of its own."""
    words = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{program}"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout
