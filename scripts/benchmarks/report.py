"""Shows the results as text, as Markdown and as a picture."""

from __future__ import annotations

import datetime
from pathlib import Path
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
    for package in ("onnxruntime", "onnx", "ai-edge-litert"):
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
    for about, names in _by_machine(results).items():
        lines += [f"{', '.join(parts[name].title for name in names)}: {about}", ""]
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


def _by_machine(results: Mapping[str, Any]) -> Dict[str, List[str]]:
    """The names of the parts, grouped by the machine on which they were measured."""
    found: Dict[str, List[str]] = {}
    for name, about in results["measured"].items():
        found.setdefault(_described(about), []).append(name)
    return found


def _described(about: Mapping[str, Any]) -> str:
    who = about["machine"]
    caches = ", ".join(f"{name} {size(nbytes)}" for name, nbytes in who["caches"].items())
    blas = (who["blas"] or {}).get("config", "no BLAS")
    packages = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    software = f"Python {who['python']}, NumPy {who['numpy']} ({blas}), armnet {who['armnet']}, {packages}"
    return f"{who['cpu']}, {who['cores']} cores, {caches}; {who['system']}; {software}; {about['when'].split()[0]}"


def draw(results: Mapping[str, Any], path: Path) -> None:
    """Draws the ratios as bars, and the times by image size and by batch as lines."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 2, figsize=(14, 10), constrained_layout=True)
    _bars(axes[0][0], results["parts"].get("networks", ()), "known networks: time relative to onnxruntime")
    _bars(axes[0][1], results["parts"].get("models", ()), "models in use: time relative to onnxruntime")
    _lines(axes[1][0], results["parts"].get("size", ()), "size", "pixel_seconds", 1e9, "ns a pixel by image size")
    _lines(axes[1][1], results["parts"].get("batch", ()), "batch", "image_seconds", 1e3, "ms an image by batch")
    figure.savefig(path)
    pyplot.close(figure)


def _bars(axes: Any, rows: Sequence[Row], title: str) -> None:
    rows = [row for row in rows if row.get("ratio")]
    networks = list(dict.fromkeys(row["network"] for row in rows))
    counts = sorted({row["threads"] for row in rows})
    for position, threads in enumerate(counts):
        mine = {row["network"]: row["ratio"] for row in rows if row["threads"] == threads}
        places = [i + position / (len(counts) + 1) for i, network in enumerate(networks) if network in mine]
        lengths = [mine[network] for network in networks if network in mine]
        axes.barh(places, lengths, height=1 / (len(counts) + 1), label=f"{threads} threads")
    axes.set_yticks(range(len(networks)), [Path(network).stem for network in networks], fontsize=7)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.invert_yaxis()
    _finish(axes, title, bool(rows))


def _lines(axes: Any, rows: Sequence[Row], along: str, what: str, factor: float, title: str) -> None:
    for network, threads in sorted({(row["network"], row["threads"]) for row in rows}):
        mine = [row for row in rows if (row["network"], row["threads"]) == (network, threads)]
        points = [row[along] for row in mine], [row[what] * factor for row in mine]
        axes.plot(*points, marker="o", label=f"{network}, {threads} threads")
    axes.set_xscale("log", base=2)
    axes.set_ylim(bottom=0)
    _finish(axes, title, bool(rows))


def _finish(axes: Any, title: str, has_rows: bool) -> None:
    axes.set_title(title)
    axes.grid(alpha=0.3)
    if has_rows:
        axes.legend(fontsize=7)
