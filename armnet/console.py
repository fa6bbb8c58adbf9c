"""What commands print: tables and JSON on stdout, progress and notes on stderr."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator

SCHEMA = 1  # of the JSON that commands print; raised when a key changes its meaning or goes

Progress = Callable[[str, int, int], None]  # what is being done, how many are done, of how many


def print_json(command: str, content: Dict[str, Any]) -> None:
    """One JSON object with the schema's version and the command's name."""
    print(json.dumps({"schema": SCHEMA, "command": command, **content}, indent=2))


def note(text: str) -> None:
    """A line for the person at the terminal."""
    print(text, file=sys.stderr)


@contextmanager
def progress(what: str) -> Iterator[Progress]:
    """A progress bar on stderr where that is a terminal and rich is installed; nothing otherwise."""
    bar = _rich_bar() if sys.stderr.isatty() else None
    if bar is None:
        yield lambda text, done, total: None
        return
    with bar:
        task = bar.add_task(what, total=None)
        yield lambda text, done, total: bar.update(task, description=f"{what}: {text}", completed=done, total=total)


def _rich_bar() -> Any:
    try:
        from rich.console import Console
        from rich.progress import Progress as Bar
    except ImportError:
        return None
    return Bar(console=Console(stderr=True), transient=True)
