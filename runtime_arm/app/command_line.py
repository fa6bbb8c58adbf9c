"""How a command of ours ends: a refusal is one line, a reader that has gone and Ctrl-C are no errors of ours."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Callable

from runtime_arm.errors import ArmnetError

REFUSED = 2  # exit status for the user's mistakes; 1 is an answer ("they differ"), tracebacks are our bugs
INTERRUPTED = 130  # what a shell makes of a program that Ctrl-C ended


def guarded(program: str, command: Callable[[], int]) -> int:
    """The exit status of ``command()``; what ends it is told in one line on stderr, under the program's name."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a label or a file name that the terminal cannot show
    try:
        return _flushed(command)
    except ArmnetError as error:
        return _told(program, str(error), REFUSED)
    except MemoryError as error:
        return _told(program, f"memory ran out: {error}".rstrip(": "), REFUSED)
    except KeyboardInterrupt:
        return _told(program, "interrupted", INTERRUPTED)
    except BrokenPipeError:
        _drop_output()
        return 0
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _drop_output()
        return _told(program, f"standard output: {error.strerror}", REFUSED)


def _flushed(command: Callable[[], int]) -> int:
    """Its status, once all that it printed has left."""
    try:
        status = command()
    except SystemExit:  # argparse's, which may have printed its help
        _flush()
        raise
    _flush()
    return status


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def _told(program: str, problem: str, status: int) -> int:
    line = "\\n".join(problem.splitlines())  # names in a file may hold line breaks
    print(f"{program}: {line}", file=sys.stderr)
    return status


def _drop_output() -> None:
    """What is still buffered for stdout goes nowhere, instead of failing again when Python exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
