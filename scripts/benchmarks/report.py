"""Shows the results as text, as Markdown and as a picture."""

from __future__ import annotations

import datetime
from typing import Any, Dict, List, Mapping, Sequence

from runtime_arm.app.display import size, table
from runtime_arm.machine import identity as machine
from scripts.benchmarks.part import Part, Row

SCHEMA = 1
INTRODUCTION = (
    "Made by `scripts/bench --write BENCHMARKS.md`. These are figures of one machine on one day: run it on yours. "
    "A ratio is armnet's time divided by the other runtime's: below 1 armnet is faster."
)


def versions() -> Dict[str, str]:
    """The versions of the packages that are timed beside armnet."""
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for package in ("onnxruntime", "onnx", "ai-edge-litert", "MNN", "ncnn", "opencv-python-headless", "torch"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def empty_results() -> Dict[str, Any]:
    """Results without any rows."""
    return {"schema": SCHEMA, "parts": {}, "measured": {}}


def add(results: Dict[str, Any], name: str, rows: List[Row]) -> None:
    """Adds the rows of a part, with the machine and the day."""
    day = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    results["parts"][name] = rows
    results["measured"][name] = {"when": day, "machine": machine.identity(), "versions": versions()}


def as_text(part: Part, rows: Sequence[Row]) -> str:
    """A table for the terminal."""
    heads, cells = part.cells(rows)
    return f"{part.title}\n" + table(heads, cells, right=heads[part.names :])


def as_markdown(results: Mapping[str, Any], parts: Mapping[str, Part], picture: str) -> str:
    """The text of BENCHMARKS.md. picture: its path relative to that file, "" for none."""
    lines = ["# Benchmarks", "", INTRODUCTION, ""]
    lines += _places(results, parts)
    if picture:
        lines += [f"![Ratios to onnxruntime, and times by image size and batch]({picture})", ""]
    for name, part in parts.items():
        rows = results["parts"].get(name)
        if rows:
            heads, cells = part.cells(rows)
            rule = ["---" if i < part.names else "--:" for i in range(len(heads))]
            lines += [f"## {part.title}", ""] + ([part.remark, ""] if part.remark else [])
            lines += ["| " + " | ".join(line) + " |" for line in (heads, rule, *cells)] + [""]
            lines += [f"- {warning}" for warning in _warnings(rows)] + ([""] if _warnings(rows) else [])
    return "\n".join(lines)


def _warnings(rows: Sequence[Row]) -> List[str]:
    """The warnings about noise, each once per network."""
    heard = ((row["network"], warning) for row in rows for warning in row.get("warnings", ()))
    return sorted({f"{network}: {warning}" for network, warning in heard if "noisy" in warning})


def _places(results: Mapping[str, Any], parts: Mapping[str, Part]) -> List[str]:
    """A table of where and when the parts were measured, one for each machine."""
    groups: Dict[str, List[str]] = {}
    for name, about in results["measured"].items():
        groups.setdefault(str(_described(about["machine"])), []).append(name)
    lines: List[str] = []
    for names in groups.values():
        abouts = [results["measured"][name] for name in names]
        beside = dict.fromkeys(" ".join(one) for about in abouts for one in about["versions"].items())
        days = sorted({about["when"].split()[0] for about in abouts})
        rows = {
            **_described(abouts[0]["machine"]),
            "beside": ", ".join(beside),
            "day": " to ".join(days[:1] + days[1:][-1:]),
        }
        if len(groups) > 1:
            rows["parts"] = ", ".join(parts[name].title for name in names)
        lines += ["| | |", "|---|---|", *(f"| {what} | {told} |" for what, told in rows.items()), ""]
    return lines


def _described(who: Mapping[str, Any]) -> Dict[str, str]:
    blas = who["blas"] or {}
    product = " ".join([*blas.get("config", "no BLAS").split()[:2], *([blas["core"]] if blas.get("core") else [])])
    return {
        "machine": ", ".join([who["cpu"], *(f"{name} {size(nbytes)}" for name, nbytes in who["caches"].items())]),
        "system": f"{who['system']}, Python {who['python']}",
        "armnet": f"{who['armnet']}, NumPy {who['numpy']}, {product}",
    }
