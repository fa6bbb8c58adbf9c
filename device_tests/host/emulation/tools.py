"""The host's programs that emulation needs."""

from __future__ import annotations

import shutil
import subprocess
from typing import Sequence

from device_tests.host.emulation.cache import EmulationUnavailable

TOOLS = ("apt-get", "apt-config", "dpkg", "dpkg-deb", "tar")


def require_tools(tools: Sequence[str] = TOOLS, purpose: str = "emulated ARM") -> None:
    """EmulationUnavailable, naming them, if some tools are not installed."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        raise EmulationUnavailable(f"{purpose} needs {', '.join(tools)}; not installed here: {', '.join(missing)}")


def run_tool(command: Sequence[str]) -> str:
    """The stdout of a command; EmulationUnavailable, with the last line of its stderr, if it fails."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise EmulationUnavailable(f"{command[0]} failed: {reason}")
    return done.stdout
