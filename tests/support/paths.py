"""Where things are: the repository, its demo network, and the material beside it."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "demo"
SCRIPTS = ROOT / "scripts"
SHARED = ROOT.parent / "shared"
GOLDENS = SHARED / "goldens"
