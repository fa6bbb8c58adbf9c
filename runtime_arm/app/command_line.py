"""How a command starts and ends: a user's mistake is one line on stderr, a bug keeps its traceback."""

from __future__ import annotations

import argparse
import errno
import io
import os
import re
import sys
from typing import Any, Callable, List, NoReturn, Sequence

from runtime_arm.errors import ArmnetError, suggestion
from runtime_arm.imports import needed_for

LIVELY = 50_000  # objects between two searches for garbage: a start makes as many, and hardly any is garbage
BLAS_PATIENCE = "22"  # idle threads of OpenBLAS spin for 2**22 ticks, a millisecond or two, and not for 2**26

REFUSED = 2  # the exit status of a user's mistake; 1 is an answer ("they differ")
INTERRUPTED = 130  # the exit status that shells give to a program ended by Ctrl-C
UNREAD = 141  # and to one whose reader is gone: its output, such as that a bound is broken, was not read


class Parser(argparse.ArgumentParser):
    """Reads a command line. A mistake is one line on stderr, which names the way to the help, and exit status 2."""

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **{"formatter_class": argparse.RawDescriptionHelpFormatter, **options})
        self.register("action", None, _Gather)
        self._negative_number_matcher = re.compile(r"-\.?\d")  # so that ``-1..1`` is a word and no option

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """The arguments; options may come between the others.

        The error for an unknown option suggests a similar one.
        """
        known, unknown = self.parse_known_args(args, namespace)
        if unknown and not any(word.startswith("-") for word in unknown) and self._may_be_mixed():
            known, unknown = self.parse_known_intermixed_args(args, namespace)
        if unknown:
            near = [suggestion(word.partition("=")[0], self._all_options()) for word in unknown if word[:2] == "--"]
            self.error(f"unrecognized arguments: {' '.join(unknown)}{near[0] if near else ''}")
        return known

    def format_help(self) -> str:
        """The help, fitted to the terminal."""
        from shutil import get_terminal_size

        from runtime_arm.app.display import fitted

        width = get_terminal_size().columns - 2
        self.description, self.epilog = (fitted(text or "", width) for text in (self.description, self.epilog))
        return super().format_help()

    def _may_be_mixed(self) -> bool:
        return not any(action.nargs in (argparse.PARSER, argparse.REMAINDER) for action in self._actions)

    def _all_options(self) -> List[str]:
        """The options of this parser and of its actions."""
        below = [sub for action in self._actions for sub in _parsers(action)]
        return [*self._option_string_actions, *(option for sub in below for option in sub._option_string_actions)]

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = [str(choice) for choice in action.choices]
            told = f"{value!r} is none of {', '.join(choices)}{suggestion(str(value), choices)}"
            raise argparse.ArgumentError(action, told)

    def error(self, message: str) -> NoReturn:
        stop = "" if message.endswith("?") else ";"
        sys.exit(_told(self.prog, f"{message}{stop} {self.prog} --help tells more", REFUSED))


class _Gather(argparse._StoreAction):
    """Stores the value of an option. An option that takes several words collects them when it is repeated."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        before: Any = getattr(namespace, self.dest, None)
        if option_string and self.nargs == "+" and self.type is None and before is not self.default:
            values = [*before, *values]
        super().__call__(parser, namespace, values, option_string)


def _parsers(action: argparse.Action) -> Sequence[argparse.ArgumentParser]:
    return list(action.choices.values()) if isinstance(action, argparse._SubParsersAction) else ()


def guarded(program: str, command: Callable[[], int]) -> int:
    """The exit status of ``command()``; an error that ends it is one line on stderr, after the program's name."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a label or a file name that the terminal cannot show
    try:
        with needed_for("this command"):
            return _flushed(command)
    except ArmnetError as error:
        return _told(program, str(error), REFUSED)
    except MemoryError as error:
        return _told(program, f"memory ran out: {error}".rstrip(": "), REFUSED)
    except KeyboardInterrupt:
        return _told(program, "interrupted", INTERRUPTED)
    except BrokenPipeError:
        _drop_output()
        return UNREAD
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
    print(f"{in_red(program, sys.stderr)}: {line}", file=sys.stderr)
    return status


def in_red(text: str, stream: Any) -> str:
    """The text, red if the stream is a terminal and colour is not switched off (https://no-color.org)."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not stream.isatty()
    return text if plain else f"\033[31m{text}\033[0m"


def _drop_output() -> None:
    """Discards what is still buffered for stdout, so that it does not fail again when Python exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
