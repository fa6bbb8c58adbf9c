"""Imported first by the scripts that are started by their path: they find the packages of this checkout.

A package that is not installed and an ``ArmnetError`` are reported in one line, with exit status 2.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import TracebackType
from typing import Optional, Type

ROOT = Path(__file__).resolve().parents[1]


def _tell(kind: Type[BaseException], error: BaseException, traceback: Optional[TracebackType]) -> None:
    """Reports an uncaught exception: one line for a user's mistake, a traceback for a bug."""
    from runtime_arm.app.command_line import guarded
    from runtime_arm.errors import ArmnetError

    def stop() -> int:
        raise error

    if issubclass(kind, (ArmnetError, ImportError)):
        script = Path(sys.argv[0])
        script = script.parent if script.name == "__main__.py" else script
        sys.exit(guarded(f"scripts/{script.name}", stop))
    sys.__excepthook__(kind, error, traceback)


sys.path.insert(0, str(ROOT))
sys.excepthook = _tell
