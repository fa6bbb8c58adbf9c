"""The results of scripts/zoo_check, as a page."""

from __future__ import annotations

from typing import Any, Collection, List, Mapping, Sequence

NOT_EXPORTED = "not exported"
HEAD = """# Networks of torchvision and timm

`scripts/zoo_check` exports the smallest network of every family with random weights, by both exporters of PyTorch, and
compares the plain and the optimised pair with onnxruntime. This page shows the results up to {day}.
{tried} of {known} families were tried.
"""


def page(rows: Mapping[str, Mapping[str, Any]], families: Sequence[str], day: str) -> str:
    """The page: counts by exporter, then every network that is not good, with the reason, then the good ones, those
    with a remark first, those of the ``families`` that were not tried, and the commits whose code was tried."""
    outcomes = sorted({row["outcome"] for row in rows.values()})
    exporters = sorted({name.split()[-1] for name in rows})
    tried = {name.split()[0] for name in rows}
    known = sorted(tried.union(families))
    lines: List[str] = [
        HEAD.format(day=day, tried=len(tried), known=len(known)),
        f"| exporter | {' | '.join(outcomes)} |",
        "|---|" + "---|" * len(outcomes),
    ]
    for exporter in exporters:
        of_it = [row["outcome"] for name, row in rows.items() if name.endswith(f" {exporter}")]
        lines.append(f"| {exporter} | {' | '.join(str(of_it.count(outcome)) for outcome in outcomes)} |")
    lines += ["", "| network | exporter | outcome | reason |", "|---|---|---|---|"]
    told = [(name, row["outcome"], row["remark"]) for name, row in sorted(rows.items())]
    lines += [_line(name, outcome, reason) for name, outcome, reason in told if outcome != "ok"]
    remarks = [_line(name, remark) for name, outcome, remark in told if outcome == "ok" and remark]
    if remarks:
        lines += ["", "| network | exporter | ok, with a remark |", "|---|---|---|", *remarks]
    good = {one: {name.split()[0] for name, row in rows.items() if _is_good(name, row, one)} for one in exporters}
    everywhere = set(known).intersection(*good.values())
    lines += ["", f"Ok by {' and '.join(exporters)}: {_listed(everywhere)}."]
    for exporter in exporters:
        lines += ["", f"Ok only with {exporter}: {_listed(good[exporter] - everywhere)}."]
    lines += ["", f"Not tried: {_listed(set(known) - tried)}."]
    commits = sorted({row.get("commit") or "" for row in rows.values()} - {""})
    for commit in commits:
        of_it = {name.split()[0] for name, row in rows.items() if row.get("commit") == commit}
        lines += ["", f"By the code of {commit}: {_listed(of_it)}."]
    return "\n".join(lines) + "\n"


def _line(name: str, *texts: str) -> str:
    """The line of a row in a table."""
    family, network, exporter = name.split()
    cells = [" ".join(str(text).replace("|", "\\|").split())[:300] for text in texts]
    return f"| {' | '.join([f'{family} {network}', exporter, *cells])} |"


def _is_good(name: str, row: Mapping[str, Any], exporter: str) -> bool:
    return bool(row["outcome"] == "ok") and name.endswith(f" {exporter}")


def _listed(families: Collection[str]) -> str:
    return ", ".join(sorted(families)) or "none"
