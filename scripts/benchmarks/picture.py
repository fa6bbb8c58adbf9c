"""Draws the results: ratios to other runtimes as bars, times by image size and by batch as lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from scripts.benchmarks.part import Row
from scripts.benchmarks.runtimes import TITLES

_BETTER = "lower is better"
_COLOURS = ("#2f6fde", "#e07b28", "#2d9a4b", "#c2447f", "#7a4fd0", "#0d8f8a")
_BAR = 0.16  # inches of the picture's height for each bar
_SMALL = 8.0  # points
Ratios = Mapping[str, Mapping[str, Optional[float]]]  # by what the colour says, and by network
_PAPER = {"facecolor": "white", "edgecolor": "none", "pad": 0.3}


class _Lines(NamedTuple):
    """A panel of lines: what it shows, along the key of a row and of the part, times a factor."""

    along: str
    what: str
    factor: float
    title: str
    x: str
    y: str


_LINES = (
    _Lines("size", "pixel_seconds", 1e9, "Time by image size", "pixels of a side", "ns a pixel"),
    _Lines("batch", "image_seconds", 1e3, "Time by batch", "images in a batch", "ms an image"),
)


def draw(results: Mapping[str, Any], path: Path) -> None:
    """Draws the parts that were measured."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "armnet"
    from matplotlib import pyplot

    parts = results["parts"]
    bars = [(title, ratios) for title, ratios in _panels(parts) if ratios]
    lines = [line for line in _LINES if parts.get(line.along)]
    heights = [1.2 + _BAR * sum(map(len, ratios.values())) for _, ratios in bars] + [4.2] * bool(lines)
    figure = pyplot.figure(figsize=(10, sum(heights)), constrained_layout=True)
    grid = figure.add_gridspec(len(heights), 2, height_ratios=heights)
    for place, (title, ratios) in enumerate(bars):
        _bars(figure.add_subplot(grid[place, :]), ratios, title)
    for column, line in enumerate(lines):
        _draw_lines(figure.add_subplot(grid[len(bars), column]), parts[line.along], line)
    figure.savefig(path, **({"metadata": {"Date": None}} if path.suffix == ".svg" else {"dpi": 120}))
    pyplot.close(figure)


def _panels(parts: Mapping[str, Sequence[Row]]) -> Iterator[Tuple[str, Ratios]]:
    """The titles of the panels with bars, and their content."""
    yield "Beside other runtimes, one thread", _by_runtime(parts.get("runtimes", ()))
    for name, title in (
        ("networks", "Known networks"),
        ("models", "Models in use"),
        ("tiny", "Tiny networks"),
        ("sequences", "Recurrent networks and transformers"),
    ):
        yield f"{title} beside onnxruntime", _by_threads(parts.get(name, ()))


def _by_runtime(rows: Sequence[Row]) -> Ratios:
    """The ratio of each network to each runtime that was timed on it."""
    found = {title: {row["network"]: row.get(f"{name}_ratio") for row in rows} for name, title in TITLES.items()}
    return {title: ratios for title, ratios in found.items() if any(ratios.values())}


def _by_threads(rows: Sequence[Row]) -> Ratios:
    """The ratio of each network, by the number of threads; of processor time, if that is the part's ratio."""
    rows = [row for row in rows if row.get("ratio")]
    names = _called([row["network"] for row in rows])
    found: Dict[int, Dict[str, Optional[float]]] = {}
    for row in rows:
        found.setdefault(row.get("threads", 1), {})[names[row["network"]]] = row.get("cpu_ratio", row["ratio"])
    return {_threads(count): ratios for count, ratios in sorted(found.items())}


def _called(networks: Sequence[str]) -> Dict[str, str]:
    """Short names: a file's folder, which is named after the model, with the file's name if the folder holds
    several.
    """
    paths = {network: Path(network) for network in networks}
    folders: Dict[str, List[str]] = {}
    for path in paths.values():
        if path.stem not in folders.setdefault(path.parent.name, []):
            folders[path.parent.name].append(path.stem)
    names = {}
    for network, path in paths.items():
        folder = path.parent.name
        name = f"{folder} {path.stem}" if len(folders[folder]) > 1 or not folder else folder
        names[network] = f"{name} ({path.parts[0]})" if len(path.parts) > 2 else path.stem
    return names


def _bars(axes: Any, ratios: Ratios, title: str) -> None:
    networks = list(dict.fromkeys(network for mine in ratios.values() for network in mine))
    height = 0.8 / len(ratios)
    for position, (who, mine) in enumerate(ratios.items()):
        there = {network: ratio for network, ratio in mine.items() if ratio is not None}
        places = [networks.index(network) + (position - (len(ratios) - 1) / 2) * height for network in there]
        bars = axes.barh(places, list(there.values()), height, color=_COLOURS[position], label=who)
        axes.bar_label(bars, fmt="%.2f", fontsize=_SMALL - 1.5, padding=2, bbox=_PAPER)
    axes.set_yticks(range(len(networks)), networks, fontsize=_SMALL)
    axes.set_ylim(len(networks) - 0.4, -0.6)
    axes.axvline(1, color="black", linewidth=0.9)
    axes.set_xlim(right=1.08 * max(ratio for mine in ratios.values() for ratio in mine.values() if ratio is not None))
    axes.set_title(title, loc="left", pad=6 if len(ratios) < 3 else 22)  # many colours take a line below the title
    axes.set(xlabel=f"armnet's time divided by the other's ({_BETTER}; below 1 armnet is faster)")
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    axes.legend(fontsize=_SMALL, ncols=len(ratios), loc="lower right", bbox_to_anchor=(1.0, 1.0), frameon=False)


def _draw_lines(axes: Any, rows: Sequence[Row], line: _Lines) -> None:
    networks, counts = (sorted({row[key] for row in rows}) for key in ("network", "threads"))
    for network, threads in sorted({(row["network"], row["threads"]) for row in rows}):
        colour, style = _COLOURS[networks.index(network) % len(_COLOURS)], ("-", "--", ":")[counts.index(threads) % 3]
        mine = [row for row in rows if (row["network"], row["threads"]) == (network, threads)]
        x, y = [row[line.along] for row in mine], [row[line.what] * line.factor for row in mine]
        axes.plot(x, y, style, marker="o", markersize=3.5, color=colour, label=f"{network}, {_threads(threads)}")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    values = sorted({row[line.along] for row in rows})
    axes.set_xticks(values, [str(value) for value in values], fontsize=_SMALL, rotation=45)
    axes.minorticks_off()
    axes.yaxis.set_major_locator(_round_numbers())
    axes.yaxis.set_major_formatter("{x:g}")
    axes.grid(alpha=0.3)
    axes.set(title=line.title, xlabel=line.x, ylabel=f"{line.y} ({_BETTER})")
    axes.legend(fontsize=_SMALL - 1, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.22))


def _round_numbers() -> Any:
    from matplotlib.ticker import LogLocator

    return LogLocator(base=10, subs=(1.0, 2.0, 5.0))


def _threads(count: int) -> str:
    return f"{count} thread" if count == 1 else f"{count} threads"
