"""What scripts/zoo_check found, as a page."""

from __future__ import annotations

from typing import Any, List, Mapping

NOT_EXPORTED = "not exported"
HEAD = """# Networks of torchvision and timm

`scripts/zoo_check` exports the smallest network of every family with random weights, by both exporters of PyTorch, and
holds the plain and the optimised pair against onnxruntime. This page is what it found.
{} of its families were tried.
"""
KNOWN = {
    "visformer_tiny": "rounding: its scores grow to 70,000 before the last Softmax. Beside a run in float64, of "
    "outputs up to 631, the plain pair is 1.3e-2 away, the optimised one 5.1e-3, and onnxruntime 4.5e-3, as dynamo "
    "exports it"
}


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
    names = {name.split()[1] for name, row in rows.items() if row["outcome"] != "ok"}
    lines += [f"\n{name}: {why}." for name, why in KNOWN.items() if name in names]
    return "\n".join(lines) + "\n"
