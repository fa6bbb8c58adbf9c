"""The report of a test run in Markdown: the figures of models on devices, and why tests failed or were skipped.

GitHub shows it as a job's summary, ``--armnet-summary "$GITHUB_STEP_SUMMARY"``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Dict, Iterable, List, NamedTuple, Tuple

from armnet.pytest_plugin.common import facts_of, shown

LONGEST = 60  # lines of one failure
_FIRST = ("agreement", "error", "instructions", "start_instructions", "memory")  # columns; others come after them
_VERDICTS = {"passed": "passed", "failed": "**failed**", "error": "**failed**", "skipped": "skipped"}


class Told(NamedTuple):
    """What one test said. numbers: by name; text: why it failed or was skipped, or ""."""

    test: str
    outcome: str
    model: str
    device: str
    numbers: Dict[str, Any]
    text: str


def told_by(stats: Dict[str, List[Any]]) -> List[Told]:
    """The tests of models or devices among the reports of a run, by pytest's outcomes."""
    found = []
    for outcome in _VERDICTS:
        for report in stats.get(outcome, ()):
            if outcome == "passed" and report.when != "call":
                continue
            facts = facts_of(report)
            if facts:
                model, device = str(facts.pop("model", "")), str(facts.pop("device", ""))
                found.append(Told(report.nodeid, outcome, model, device, facts, _reason(report)))
    return found


def _reason(report: Any) -> str:
    """Why a test failed or was skipped; "" if it passed."""
    if report.skipped:
        return str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else str(report.longrepr)
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash is not None else report.longreprtext)


def as_markdown(told: List[Told]) -> str:
    """A table with one row per model and device, and below it the reasons."""
    lines = ["### Models on devices", ""]
    if not told:
        return "\n".join([*lines, "No test of a model on a device ran.", ""])
    rows = _rows(told)
    names = {name: None for _, _, numbers in rows.values() for name in numbers}
    columns = [*(name for name in _FIRST if name in names), *(name for name in names if name not in _FIRST)]
    lines.append(_row(["model", "device", "result", *(name.replace("_", " ") for name in columns)]))
    lines.append(_row([*["---"] * 3, *["---:"] * len(columns)]))
    for (model, device), (passed, outcomes, numbers) in rows.items():
        result = f"passed ({passed})" if set(outcomes) == {"passed"} else ", ".join(dict.fromkeys(outcomes))
        lines.append(_row([model, device, result, *(_cell(numbers.get(name)) for name in columns)]))
    for one in told:
        if one.text:
            verdict, element = ("skipped", "details") if one.outcome == "skipped" else ("failed", "details open")
            head = f"<{element}><summary>{verdict}: <code>{_escaped(one.test)}</code></summary>"
            lines += ["", head, "", *_fenced(one.text), "</details>"]
    return "\n".join([*lines, ""])


def _rows(told: Iterable[Told]) -> Dict[Tuple[str, str], Tuple[int, List[str], Dict[str, Any]]]:
    """By model and device: how many tests passed, the verdicts of all, and all numbers."""
    rows: Dict[Tuple[str, str], Tuple[int, List[str], Dict[str, Any]]] = {}
    for one in told:
        passed, outcomes, numbers = rows.get((one.model, one.device), (0, [], {}))
        outcomes.append(_VERDICTS[one.outcome])
        numbers.update(one.numbers)
        rows[one.model, one.device] = (passed + (one.outcome == "passed"), outcomes, numbers)
    return dict(sorted(rows.items()))


def _cell(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else shown(value)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(_escaped(cell).replace('|', chr(92) + '|') for cell in cells)} |"


def _escaped(text: str) -> str:
    """Text with Markdown and HTML escaped, except for the stars of a verdict."""
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _fenced(text: str) -> List[str]:
    lines = text.splitlines()
    if len(lines) > LONGEST:
        lines = [*lines[:LONGEST], f"... and {len(lines) - LONGEST} more lines"]
    longest = max((len(ticks) for ticks in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}text", *lines, fence, ""]


def append_summary(path: Path, stats: Dict[str, List[Any]]) -> None:
    """Adds the report of a run to a file, which is made if it is not there."""
    with path.open("a", encoding="utf-8") as file:
        file.write(as_markdown(told_by(stats)) + "\n")
