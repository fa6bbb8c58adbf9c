"""Parts of pages about classes that are mistaken for each other: a matrix, and the style of wrong pictures."""

from __future__ import annotations

from typing import Sequence

from armnet.page.elements import table, text

MOST_LINES = 200  # faults that are listed after those with pictures
RED_AND_GREEN = "<p>Green: the truth. Red: the answer.</p>"
WIDEST = 40  # classes of a confusion matrix that is shown whole

FAULTS = """
.faults { display: grid; grid-template-columns: repeat(auto-fill, minmax(256px, 1fr)); gap: 12px; }
.fault { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 10px; }
.fault .pictures { display: flex; gap: 6px; flex-wrap: wrap; }
.fault figure { margin: 0; } .fault figcaption { color: var(--faint); font-size: 11px; }
.fault img { max-width: 100%; border-radius: 4px; display: block; }
.fault .name { overflow-wrap: anywhere; font-size: 12px; color: var(--faint); }
.fault .truth { color: var(--activation); } .fault .said { color: var(--alarm); }
table.confusion td, table.confusion th { text-align: center; padding: 3px 5px; font-size: 12px; }
table.confusion th.side { text-align: right; }
table.confusion th { max-width: 12em; overflow-wrap: anywhere; }
"""


def confusion(names: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    """How often each class is taken for each other one."""
    if len(names) <= WIDEST:
        how, shown = "A row for each true class, a column for each answer.", _matrix(names, counts)
    else:
        how, shown = "The classes that are mistaken for another one most often.", _pairs(names, counts)
    return f'<h2>Confusion matrix</h2><p>{how}</p><div class="panel">{shown}</div>'


def _matrix(names: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    head = "".join(f"<th>{text(name)}</th>" for name in names)
    body = []
    for i, (name, row) in enumerate(zip(names, counts)):
        cells = "".join(_cell(count, sum(row), i == j) for j, count in enumerate(row))
        body.append(f'<tr><th class="side">{text(name)}</th>{cells}</tr>')
    return f'<table class="confusion"><thead><tr><th></th>{head}</tr></thead><tbody>{"".join(body)}</tbody></table>'


def _cell(count: int, total: int, right: bool) -> str:
    if not count:
        return "<td></td>"
    colour = "var(--activation)" if right else "var(--alarm)"
    share = 12 + 58 * count / total
    return f'<td style="background:color-mix(in srgb, {colour} {share:.0f}%, transparent)">{count}</td>'


def _pairs(names: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    """The pairs of classes that are confused most."""
    pairs = [(count, i, j) for i, row in enumerate(counts) for j, count in enumerate(row) if i != j and count]
    pairs.sort(key=lambda pair: (-pair[0], pair[1:]))
    rows = [[text(names[i]), text(names[j]), str(count)] for count, i, j in pairs[:MOST_LINES]]
    return table(["true class", "answer", "times"], rows, right=["times"])
