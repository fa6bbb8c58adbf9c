"""Runs the scripts that install what a device needs, here or over ssh."""

from __future__ import annotations

import pkgutil
import shlex
import subprocess
import sys
from typing import List, Optional, Sequence

from device_tests.host.targets.ssh import client, parse_address
from runtime_arm.errors import DeviceError, UsageError

_STDERR = 2  # the file descriptor


def script_of(kind: str) -> str:
    """The script of a kind of machine, as the package holds it."""
    text = pkgutil.get_data(__package__, f"setup_{kind}.sh")
    assert text is not None
    return text.decode()


def packages_of(kind: str, words: Sequence[str]) -> List[str]:
    """The names of the packages that the script of a kind installs with these options."""
    return _run(_program(kind, [*words, "--list"]), stdout=subprocess.PIPE).stdout.split()


def set_up(kind: str, target: str, words: Sequence[str], to_stderr: bool = False) -> None:
    """Runs the script of a kind on a target, "local" or an ssh address, with options of the script.

    to_stderr: print to stderr, if stdout is needed for something else. UsageError for another target; DeviceError if
    the script fails, after it or ssh has said why on stderr, or if a program is missing here.
    """
    sys.stdout.flush()
    done = _run(_on(target, _program(kind, words)), stdout=_STDERR if to_stderr else None)
    if done.returncode:
        where = "this machine" if target == "local" else target
        raise DeviceError(f"{where} is not set up: exit status {done.returncode}; the reason is given above")


def _program(kind: str, words: Sequence[str]) -> List[str]:
    return ["bash", "-c", script_of(kind), f"armnet setup {kind}", *words]


def _run(command: Sequence[str], stdout: Optional[int]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, stdout=stdout, text=True, check=False)
    except FileNotFoundError:
        raise DeviceError(f"armnet setup needs the program {command[0]}, which is not installed here") from None


def _on(target: str, program: List[str]) -> List[str]:
    """The command that runs a program on a target in this terminal, so that sudo and ssh can ask for passwords."""
    if target == "local":
        return program
    if not target.startswith("ssh://"):
        raise UsageError(f"armnet setup takes ssh://[USER@]HOST[:PORT], or local for this machine, not {target!r}")
    return [*client(parse_address(target), *(["-t"] if sys.stdin.isatty() else [])), shlex.join(program)]
