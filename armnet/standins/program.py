"""Runs somebody's program, unmodified, with the stand-ins in place of the packages that it imports."""

from __future__ import annotations

import os
import runpy
import shutil
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Callable, Iterator, List, Optional

from armnet.standins.on_import import OnImport
from armnet.standins.packages import PACKAGES
from armnet.standins.stub import write_stub
from runtime_arm.errors import ArmnetError, UsageError

_LONGEST_SHEBANG = 1 << 10  # bytes
_RUNPY = runpy.__file__


def run_program(words: List[str]) -> int:
    """Run ``["script.py", "argument", ...]``, ``["-m", "module", ...]`` or the name of a command that is a Python
    script, as Python does: with its arguments in ``sys.argv``.

    Returns its exit status, 1 after a traceback of what it raised; SystemExit and KeyboardInterrupt go through.
    UsageError if there is no such program.
    """
    if not words or words == ["-m"]:
        raise UsageError("give a program to run: a script, -m and a module, or a command that is a Python script")
    is_module = words[0] == "-m"
    path = "" if is_module else _script(words[0])
    with _found_by_children() as write:
        sys.meta_path.insert(0, OnImport(write))
        try:
            _run_module(words[1:]) if is_module else _run_script([path, *words[1:]])
        except Exception as error:  # the program's own, which a command of armnet would tell in one line
            traceback = _from_program(error.__traceback__)
            sys.excepthook(type(error), error.with_traceback(traceback), traceback)
            return 1
    return 0


def _run_module(words: List[str]) -> None:
    sys.argv = words
    sys.path.insert(0, os.getcwd())
    runpy.run_module(words[0], run_name="__main__", alter_sys=True)


def _run_script(words: List[str]) -> None:
    sys.argv = words
    if os.path.isfile(words[0]):
        sys.path.insert(0, os.path.dirname(os.path.abspath(words[0])))
    runpy.run_path(words[0], run_name="__main__")


def _from_program(traceback: Optional[TracebackType]) -> Optional[TracebackType]:
    """The traceback without the frames that lead to the program; all of it if the program did not start."""
    frame = traceback
    while frame is not None and frame.tb_frame.f_code.co_filename in (__file__, _RUNPY, "<frozen runpy>"):
        frame = frame.tb_next
    return frame or traceback


def _script(word: str) -> str:
    """The path of the program."""
    if os.path.exists(word):
        return word
    found = shutil.which(word)
    if found is None:
        raise UsageError(f"{word}: there is no such file or command")
    with open(found, "rb") as file:
        first = file.readline(_LONGEST_SHEBANG)
    if not first.startswith(b"#!") or b"python" not in first:
        raise UsageError(f"{found} is no Python script; armnet exec runs programs in Python")
    return found


@contextmanager
def _found_by_children() -> Iterator[Callable[[str], None]]:
    """Inside the block, programs that this one starts find the stand-ins, too, and ``importlib.metadata`` finds their
    distributions. Where no temporary folder can be written, only this process has the stand-ins. The function that it
    gives does the same for one of those packages of which there is a part alone."""
    before = os.environ.get("PYTHONPATH")
    armnet_home = str(Path(__file__).resolve().parents[2])
    with tempfile.TemporaryDirectory(prefix="armnet-") if _can_write() else _nowhere() as folder:

        def write(name: str) -> None:
            with suppress(ArmnetError):
                if folder:
                    write_stub(Path(folder), name)

        for name, package in PACKAGES.items():
            if not package.part:
                write(name)
        if folder:
            sys.path.insert(0, folder)
            os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, armnet_home, before]))
        try:
            yield write
        finally:
            if before is None:
                os.environ.pop("PYTHONPATH", None)
            else:
                os.environ["PYTHONPATH"] = before


def _can_write() -> bool:
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        return False
    return True


@contextmanager
def _nowhere() -> Iterator[str]:
    yield ""
