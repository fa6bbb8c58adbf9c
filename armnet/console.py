"""What commands print: tables and JSON on stdout, progress and notes on stderr."""

from __future__ import annotations

import json
import shutil
import sys
import time
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, Sequence, Tuple

SCHEMA = 1  # the version of the JSON that commands print; raised when a key changes its meaning or is removed
INTERVAL = 10.0  # seconds between two lines of progress where no bar can be drawn

Progress = Callable[[str, int, int], None]  # is given what is being done, how many are done, of how many


def print_json(command: str, content: Dict[str, Any]) -> None:
    """Prints one JSON object, with the version of its schema and the command's name."""
    print(json.dumps({"schema": SCHEMA, "command": command, **content}, indent=2))


def note(text: str) -> None:
    """Prints one line on stderr, for people."""
    print(text, file=sys.stderr)


def without_empty_columns(
    columns: Sequence[str], rows: Sequence[Sequence[Any]]
) -> Tuple[Sequence[str], Sequence[Sequence[Any]]]:
    """The columns of a table in which some row has something, and their cells; all columns if there are no rows."""
    filled = [place for place in range(len(columns)) if not rows or any(row[place] != "" for row in rows)]
    return [columns[place] for place in filled], [[row[place] for place in filled] for row in rows]


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, right: Sequence[str] = ()) -> None:
    """Prints a table on stdout; columns named in ``right`` are aligned to the right.

    On a terminal no line is wider than that: rich, where it is installed, shortens cells, otherwise lines are cut. A
    file or a pipe gets everything.
    """
    from runtime_arm.app.display import table

    if not sys.stdout.isatty():
        print(table(columns, rows, right=right))
    elif not _print_rich_table(columns, rows, right):
        width = shutil.get_terminal_size().columns
        lines = table(columns, rows, right=right).splitlines()
        print("\n".join(line if len(line) <= width else f"{line[: width - 1]}~" for line in lines))


def _print_rich_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], right: Sequence[str]) -> bool:
    """Whether rich is there and has printed the table."""
    try:
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        return False
    console = Console()
    shown = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for name, width in zip(columns, _fitting(columns, rows, console.width)):
        number = name in right
        shown.add_column(
            name,
            width=width,
            justify="right" if number else "left",
            no_wrap=True,
            overflow="ellipsis",
            style="cyan" if number else None,
        )
    for row in rows:
        shown.add_row(*(Text(str(cell)) for cell in row))
    console.print(shown)
    return True


def _fitting(columns: Sequence[str], rows: Sequence[Sequence[Any]], room: int) -> List[int]:
    """The width of each column, so that all of them and three blanks between them fit: the widest give way."""
    widths = [max(len(str(cell)) for cell in column) for column in zip(columns, *rows)]
    while sum(widths) + 3 * (len(widths) - 1) > room and max(widths) > 1:
        widths[widths.index(max(widths))] -= 1
    return widths


@contextmanager
def progress(what: str) -> Iterator[Progress]:
    """Shows progress on stderr: a bar if that is a terminal and rich is installed, else a line every ten seconds."""
    bar = _rich_bar() if sys.stderr.isatty() else None
    if bar is None:
        said = time.monotonic()

        def say(text: str, done: int, total: int) -> None:
            nonlocal said
            if time.monotonic() >= said + INTERVAL:
                said = time.monotonic()
                note(f"armnet: {what}: {text}, {done} of {total}")

        yield say
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
    shared = sys.stdout.isatty()  # otherwise results would go where the bar is, and not into their file or pipe
    return Bar(console=Console(stderr=True), transient=True, redirect_stdout=shared)
