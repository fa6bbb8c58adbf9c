"""What a target is: a machine that a suite or a network can be sent to, behind one small interface.

    with target_of("emulated:armhf") as target:  # makes a folder on the machine
        target.deploy({"runtime_arm/__init__.py": path})
        target.run(["-c", "import runtime_arm"]).returncode

Leaving the block removes the folder.
"""

from __future__ import annotations

import abc
import json
from pathlib import Path
from types import TracebackType
from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional, Sequence, Type

from runtime_arm.errors import ArmnetError

OnLine = Callable[[str], None]  # is given a line of a program's stderr

Files = Mapping[str, Path]  # local files, by their path in the target's folder

TIMEOUT = 900.0  # seconds that one run may take


class DeviceError(ArmnetError):
    """The target cannot be reached, refuses, or fails while it works; the message names it."""


class Completed(NamedTuple):
    """How a run of the target's Python ended."""

    returncode: int
    stdout: str
    stderr: str


class Target(abc.ABC):
    """A machine that runs Python. Entering makes a folder on it; leaving removes it and ends what still runs there.

    name: as the user writes it. Every failure of the machine, or of the connection to it, is a DeviceError of one line.
    """

    def __init__(self, name: str):
        self.name = name

    @abc.abstractmethod
    def open(self) -> None:
        """Makes the folder."""

    @abc.abstractmethod
    def close(self) -> None:
        """Removes the folder and its contents. Never raises; closing twice does nothing."""

    @abc.abstractmethod
    def deploy(self, files: Files) -> None:
        """Copies files into the folder; makes subfolders as needed."""

    @abc.abstractmethod
    def fetch(self, name: str) -> bytes:
        """The content of a file in the folder."""

    @abc.abstractmethod
    def _execute(self, arguments: Sequence[str], timeout: float, on_line: Optional[OnLine]) -> Completed:
        """Runs the target's Python in the folder. Any exit status is returned; a negative one names a signal."""

    def run(self, arguments: Sequence[str], timeout: float = TIMEOUT, on_line: Optional[OnLine] = None) -> Completed:
        """Runs the target's Python to its end, in the folder, where it looks for modules first.

        on_line: called with each line of stderr while the program runs, where the target can do so.
        """
        done = self._execute(arguments, timeout, on_line)
        if done.returncode < 0 or done.returncode == 137:
            reason = f"was killed there by signal {-done.returncode if done.returncode < 0 else 9}"
            raise self.error(f"Python {reason}, as Linux does where memory runs out")
        return done

    def output(self, arguments: Sequence[str], timeout: float = TIMEOUT) -> str:
        """The stdout of a run that must succeed; otherwise a DeviceError with the last line it printed."""
        done = self.run(arguments, timeout)
        if done.returncode:
            raise self.error(last_line(done.stderr or done.stdout) or f"exit status {done.returncode}")
        return done.stdout

    def identity(self) -> Dict[str, Any]:
        """What the machine is: see ``runtime_arm.machine.identity``. The runtime must be deployed first."""
        identity: Dict[str, Any] = json.loads(self.output(["-m", "runtime_arm.machine.identity"]))
        return identity

    def error(self, problem: str) -> DeviceError:
        return DeviceError(f"{self.name}: {problem}")

    def __enter__(self) -> Target:
        try:
            self.open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()


def last_line(text: str) -> str:
    """The last line that is not blank, "" if there is none."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
