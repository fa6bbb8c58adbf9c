"""Progress for people, on terminals and in logs."""

from __future__ import annotations

import os
import sys
from typing import Any, List

import pytest

from armnet import console


def test_without_a_terminal_progress_is_an_occasional_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: clock[0])
    with console.progress("export") as report:
        for done, now in enumerate([101.0, 109.9, 110.0, 119.9, 120.1]):
            clock[0] = now
            report("folding", done, 5)
    assert capsys.readouterr().err.splitlines() == [
        "armnet: export: folding, 2 of 5",
        "armnet: export: folding, 4 of 5",
    ]


def test_columns_in_which_no_row_has_anything_are_left_out() -> None:
    rows = [["a", "", 0], ["b", "", 2]]
    assert console.without_empty_columns(["name", "why", "count"], rows) == (["name", "count"], [["a", 0], ["b", 2]])
    assert console.without_empty_columns(["name", "why"], []) == (["name", "why"], [])


COLUMNS = ["model", "engine", "ms", "bytes", "licence"]
ROWS = [["a-very-long-name-of-a-model", "WINOGRAD", "1234.567", "1.23 MB", "Apache-2.0"], ["b", "", 1.5, 7, "MIT"]]


@pytest.fixture(params=["rich", "plain"])
def narrow(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a terminal of so many columns of stdout, with and without rich."""
    if request.param == "rich":
        pytest.importorskip("rich", reason="it draws tables on terminals")
    else:
        monkeypatch.setitem(sys.modules, "rich.box", None)

    def set_width(width: int) -> None:
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setenv("TERM", "dumb")  # rich then writes no colours
        monkeypatch.setattr(console.shutil, "get_terminal_size", lambda: os.terminal_size((width, 24)))
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    return set_width


@pytest.mark.parametrize("width", range(26, 90, 3))
def test_a_narrow_terminal_gets_every_number_whole(narrow: Any, capsys: pytest.CaptureFixture[str], width: int) -> None:
    narrow(width)
    console.print_table(COLUMNS, ROWS, right=["ms", "bytes"])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    shown = " ".join(lines)
    assert all(word in shown for word in ("1234.567", "1.5", "1.23 MB", "WINOGRAD", "Apache-2.0", "MIT", "a-very"))
    tables = sum(line.startswith("model") for line in lines)
    assert (tables == 1) == (width >= 57)
    assert ("a-very-long-name-of-a-model   WIN" in shown.replace("model  W", "model   W")) == (width >= 72)


def test_columns_that_do_not_fit_follow_beneath(narrow: Any, capsys: pytest.CaptureFixture[str]) -> None:
    narrow(40)
    console.print_table(COLUMNS, ROWS, right=["ms", "bytes"])
    lines: List[str] = [line.split() for line in capsys.readouterr().out.splitlines()]  # type: ignore[misc]
    assert lines[0] == ["model", "engine", "ms"]
    assert lines[5] == ["model", "bytes", "licence"]


def test_what_is_short_stays_whole(narrow: Any, capsys: pytest.CaptureFixture[str]) -> None:
    narrow(40)
    console.print_table(["blob", "error", "by"], [["residual", "6.24e-07", "x" * 30]], right=["error"])
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.split() == ["residual", "6.24e-07", f"{'x' * 17}…"]


def test_a_pipe_gets_the_whole_table(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_table(COLUMNS, ROWS, right=["ms", "bytes"])
    assert "a-very-long-name-of-a-model  WINOGRAD  1234.567  1.23 MB  Apache-2.0" in capsys.readouterr().out
