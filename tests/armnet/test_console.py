"""Progress for people, on terminals and in logs."""

from __future__ import annotations

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
