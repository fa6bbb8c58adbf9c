"""How a command starts and ends: a mistake in what was asked is one line on stderr, a bug keeps its traceback."""

from __future__ import annotations

import argparse
import errno
import io
import os
import re
import sys
from typing import Any, Callable, NoReturn

from runtime_arm.errors import ArmnetError
from runtime_arm.imports import needed_for

REFUSED = 2  # the exit status of a user's mistake; 1 is an answer ("they differ")
INTERRUPTED = 130  # the exit status that shells give to a program ended by Ctrl-C


class Parser(argparse.ArgumentParser):
    """Reads a command line. A mistake is one line on stderr, which names the way to the help, and exit status 2."""

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **{"formatter_class": argparse.RawDescriptionHelpFormatter, **options})
        self._negative_number_matcher = re.compile(r"-\.?\d")  # so that ``-1..1`` is a word and no option

    def error(self, message: str) -> NoReturn:
        sys.exit(_told(self.prog, f"{message}; {self.prog} --help tells more", REFUSED))


def guarded(program: str, command: Callable[[], int]) -> int:
    """The exit status of ``command()``; an error that ends it is one line on stderr, after the program's name."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a label or a file name that the terminal cannot show
    try:
        with needed_for("this"):
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
    """The command's exit status, after everything it printed has been written."""
    try:
        status = command()
    except SystemExit:  # raised by argparse, perhaps after it printed its help
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
    """Sends what is still buffered for stdout nowhere, so that it does not fail again when Python exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
