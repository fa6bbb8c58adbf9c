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
GAP = 3  # blanks between two columns of a table
LEAST = 12  # characters of a text in a table that are left at least

Progress = Callable[[str, int, int], None]  # is given what is being done, how many are done, of how many


def print_json(command: str, content: Dict[str, Any]) -> None:
    """Prints one JSON object, with the version of its schema and the command's name."""
    print(json.dumps({"schema": SCHEMA, "command": command, **content}, indent=2))


def note(text: str) -> None:
    """Prints one line on stderr, for people."""
    print(text, file=sys.stderr)


def print_text(text: str) -> None:
    """Prints a text on stdout, on a terminal wrapped to its width."""
    from runtime_arm.app.display import fitted

    print(fitted(text, shutil.get_terminal_size().columns) if sys.stdout.isatty() else text)


def without_empty_columns(
    columns: Sequence[str], rows: Sequence[Sequence[Any]]
) -> Tuple[Sequence[str], Sequence[Sequence[Any]]]:
    """The columns of a table in which some row has something, and their cells; all columns if there are no rows."""
    filled = [place for place in range(len(columns)) if not rows or any(row[place] != "" for row in rows)]
    return [columns[place] for place in filled], [[row[place] for place in filled] for row in rows]


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], *, right: Sequence[str] = (), whole: Sequence[str] = ()
) -> None:
    """Prints a table on stdout; columns named in ``right`` are numbers, aligned to the right, those in ``whole`` hold
    names that people type.

    On a terminal that is too narrow, texts are shortened, numbers and such names never. Columns that do not fit then
    follow in a table below, which begins with the first column again. A file or a pipe gets everything.
    """
    from runtime_arm.app.display import table

    if not sys.stdout.isatty():
        print(table(columns, rows, right=right))
        return
    for number, part in enumerate(_parts(columns, rows, [*right, *whole], shutil.get_terminal_size().columns)):
        if number:
            print()
        _print_part(*part, right)


def _print_part(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str]) -> None:
    """Prints a table that fits, by rich if it is installed."""
    from runtime_arm.app.display import table

    try:
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        print(table(columns, rows, right=right))
        return
    shown = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for name in columns:
        number = name in right
        justify: Any = "right" if number else "left"
        shown.add_column(name, justify=justify, no_wrap=True, style="cyan" if number else None)
    for row in rows:
        shown.add_row(*map(Text, row))
    Console().print(shown)


def _parts(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], whole: Sequence[str], room: int
) -> Iterator[Tuple[List[str], List[List[str]]]]:
    """Tables that fit, as names of columns and cells; each begins with the first column."""
    cells = [list(columns), *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells)]
    least = [width if name in whole else min(width, LEAST) for name, width in zip(columns, widths)]
    places, used = [0], least[0]
    for place in range(1, len(columns)):
        if used + GAP + least[place] > room and len(places) > 1:
            yield _part(cells, places, widths, least, room)
            places, used = [0], least[0]
        places.append(place)
        used += GAP + least[place]
    yield _part(cells, places, widths, least, room)


def _part(
    cells: Sequence[Sequence[str]], places: Sequence[int], widths: Sequence[int], least: Sequence[int], room: int
) -> Tuple[List[str], List[List[str]]]:
    """The table of these columns, with its longest texts shortened until it fits."""
    given = {place: widths[place] for place in places}
    while sum(given.values()) + GAP * (len(places) - 1) > room:
        place = max(places, key=lambda place: given[place] - least[place])
        if given[place] == least[place]:
            break
        given[place] -= 1
    header, *rows = ([_shortened(line[place], given[place]) for place in places] for line in cells)
    return header, rows


def _shortened(text: str, width: int) -> str:
    cut = "…" if (sys.stdout.encoding or "").lower().startswith("utf") else "~"
    return text if len(text) <= width else f"{text[: width - 1]}{cut}"


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
