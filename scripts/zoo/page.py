"""What scripts/zoo_check found, as a page."""

from __future__ import annotations

from typing import Any, List, Mapping

NOT_EXPORTED = "not exported"
HEAD = """# Networks of torchvision and timm

`scripts/zoo_check` exports the smallest network of every family with random weights, by both exporters of PyTorch, and
holds the plain and the optimised pair against onnxruntime. This page is what it found.
{} of its families were tried.
"""


def page(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """The page: counts by exporter, then every network that is not good, with the reason, and what is known of it."""
    outcomes = sorted({row["outcome"] for row in rows.values()})
    exporters = sorted({name.split()[-1] for name in rows})
    lines: List[str] = [
        HEAD.format(len({name.split()[0] for name in rows})),
        f"| exporter | {' | '.join(outcomes)} |",
        "|---|" + "---|" * len(outcomes),
    ]
    for exporter in exporters:
        of_it = [row["outcome"] for name, row in rows.items() if name.endswith(f" {exporter}")]
        lines.append(f"| {exporter} | {' | '.join(str(of_it.count(outcome)) for outcome in outcomes)} |")
    lines += ["", "| network | exporter | outcome | reason |", "|---|---|---|---|"]
    for name, row in sorted(rows.items()):
        if row["outcome"] != "ok":
            family, network, exporter = name.split()
            reason = " ".join(str(row["remark"]).replace("|", "\\|").split())[:200]
            lines.append(f"| {family} {network} | {exporter} | {row['outcome']} | {reason} |")
    good = sorted({name.split()[0] for name, row in rows.items() if row["outcome"] == "ok"})
    lines += ["", f"At least one exporter's file is ok of: {', '.join(good) or 'none'}."]
    return "\n".join(lines) + "\n"
