"""Draws the pictures of the pages in docs/ and of README.md: python -m scripts.pages.draw_pictures

Those of tiles, memory and engines show what the runtime really does: its layouts, its plan for the demo's network, and
the costs and errors that its engines declare. The bars of speed.svg come from BENCHMARKS.md.
"""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Tuple

import numpy as np

from scripts.pages.svg import AMBER, BLUE, GREEN, GREY, RED, arrow, box, cells, sheet, text

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs/pictures"
Facts = Dict[str, Any]


def winograd() -> str:
    """F(4x4, 3x3): a tile of 6 x 6 pixels and a filter of 3 x 3 make 4 x 4 outputs by 36 products."""
    side = 18
    parts = [
        *cells(30, 70, 6, 6, side, BLUE),
        text(84, 55, "tile of the input", "middle"),
        text(84, 200, "d: they overlap by 2", "small middle"),
        arrow(150, 124, 236, 124),
        text(193, 112, "Bᵀ d B", "middle"),
        text(193, 144, "additions", "small middle"),
        *cells(250, 70, 6, 6, side, GREEN),
        text(304, 55, "its 36 frequencies", "middle"),
        *cells(57, 290, 3, 3, side, AMBER),
        text(84, 275, "filter", "middle"),
        text(84, 365, "g: 3 x 3", "small middle"),
        arrow(150, 317, 236, 317),
        text(193, 305, "G g Gᵀ", "middle"),
        text(193, 337, "once", "small middle"),
        *cells(250, 263, 6, 6, side, AMBER),
        text(304, 390, "36 frequencies of the filter", "small middle"),
        arrow(370, 124, 436, 190),
        arrow(370, 317, 436, 245),
        *cells(450, 164, 6, 6, side, GREEN),
        text(504, 150, "products", "middle"),
        text(504, 290, "a product of matrices", "small middle"),
        text(504, 306, "for each frequency:", "small middle"),
        text(504, 322, "tiles x channels x filters", "small middle"),
        arrow(570, 218, 656, 218),
        text(613, 206, "Aᵀ M A", "middle"),
        text(613, 238, "additions", "small middle"),
        *cells(670, 182, 4, 4, side, BLUE),
        text(706, 168, "4 x 4 outputs", "middle"),
        text(470, 60, "16 outputs, for each pair of channels:", ""),
        text(470, 84, "directly 16 x 9 = 144 multiplications", "small"),
        text(470, 104, "here 6 x 6 = 36: a quarter", "small"),
    ]
    return sheet("Winograd's convolution F(4x4, 3x3)", 800, 410, parts)


def tiles() -> str:
    """How Tiles lay an image of 4 x 6 pixels in memory: drawn from the runtime's own layout."""
    from runtime_arm.registry.layouts import Tiles

    layout = Tiles(batch=1, channels=1, height=4, width=6, tile=2, border=1)
    memory = np.full((layout.tile, layout.tile, layout.positions, 1), -1)
    side, colours = 30, (BLUE, AMBER, GREEN, RED)
    parts = [text(30, 40, "an image of 4 x 6 pixels, in tiles of 2 x 2")]
    for row in range(layout.height):
        for column in range(layout.width):
            ty, py = divmod(row, layout.tile)
            tx, px = divmod(column, layout.tile)
            number = row * layout.width + column
            layout.pixels(memory, (py, px))[0, ty, tx, 0] = number
            x, y = 30 + column * side + tx * 6, 60 + row * side + ty * 6
            parts.append(box(x, y, side, side, colours[py * 2 + px]))
            parts.append(text(x + side / 2, y + 20, str(number), "small middle"))
    top = 240
    parts.append(text(30, top, "in memory: a plane for each of the four places in a tile, a position for each tile"))
    for plane in range(layout.tile**2):
        y = top + 40 + plane * 44
        parts.append(text(30, y + 20, f"place {divmod(plane, 2)}", "small"))
        for position, number in enumerate(memory[divmod(plane, 2)][:, 0]):
            x = 110 + position * side
            parts.append(box(x, y, side, side, colours[plane] if number >= 0 else GREY))
            parts.append(text(x + side / 2, y + 20, str(number) if number >= 0 else "0", "small middle"))
    notes = (
        (0, layout.guard, "guard"),
        (layout.guard, layout.body, f"rows of {layout.pitch} positions; the last one is border"),
        (layout.guard + layout.body, layout.guard, "guard"),
    )
    for first, count, words in notes:
        middle = 110 + (first + count / 2) * side
        parts.append(text(middle, top + 28, words, "tiny middle"))
        parts.append(f'<path d="M{110 + first * side + 3},{top + 34} h{count * side - 6}" stroke="#4a5a6a"/>')
    parts.append(
        text(30, top + 240, "A neighbour lies a fixed distance away, so that a pass runs over long stretches.")
    )
    return sheet("A blob in tiles", 110 + layout.positions * side + 30, top + 262, parts)


def arena(facts: Facts) -> str:
    """The content of the arena's bytes, step by step, as ``armnet inspect`` shows it."""
    blocks, steps, nbytes = facts["memory"]["blocks"], len(facts["operators"]), facts["arena_nbytes"]
    left, top, width, height = 70, 60, 640, 340
    column, colours = width / steps, {"input": AMBER, "blob": BLUE, "scratch": GREY}
    parts = [text(left, 36, "The arena of the demo's network, for one picture", "title")]
    for block in blocks:
        x, wide = left + block["first"] * column, (block["last"] - block["first"] + 1) * column
        high = max(block["nbytes"] / nbytes * height, 1.5)
        y = top + height - block["offset"] / nbytes * height - high
        colour = colours.get(block["kind"], BLUE)
        parts.append(box(x, y, wide, high, colour, f"{', '.join(block['names'])}: {block['nbytes']:,} bytes"))
        if high > 14 and wide > 34:
            name = block["names"][0].rpartition(" ")[2] + (" ..." if len(block["names"]) > 1 else "")
            parts.append(text(x + wide / 2, y + high / 2 + 4, name, "tiny middle"))
    parts += [text(left + (i + 0.5) * column, top + height + 16, str(i), "tiny middle") for i in range(steps)]
    parts += [
        f'<path d="M{left},{top} v{height} h{width}" fill="none" stroke="#4a5a6a"/>',
        text(left - 8, top + 10, f"{nbytes / 1000:.0f} kB", "small end"),
        text(left - 8, top + height, "0", "small end"),
        text(left + width / 2, top + height + 36, "step", "small middle"),
        box(left + width + 20, top, 14, 14, BLUE),
        text(left + width + 40, top + 12, "blobs", "small"),
        box(left + width + 20, top + 24, 14, 14, AMBER),
        text(left + width + 40, top + 36, "input", "small"),
        box(left + width + 20, top + 48, 14, 14, GREY),
        text(left + width + 40, top + 60, "scratch", "small"),
    ]
    return sheet("The arena of the demo's network", 830, 460, parts)


def engines(choices: List[Tuple[str, Facts]]) -> str:
    """The cost and the rounding of a convolution with each engine, as the engines declare them."""
    parts = [text(30, 36, "What a 3x3 convolution costs, by engine", "title")]
    for number, (name, options) in enumerate(choices):
        left, top = 30, 70 + number * 230
        most = max(option["multiplies"] for option in options.values())
        least = min(option["multiplies"] for option in options.values())
        parts.append(text(left, top, name))
        for row, (engine, option) in enumerate(sorted(options.items(), key=lambda pair: pair[1]["multiplies"])):
            y, wide = top + 16 + row * 30, option["multiplies"] / most * 330
            parts.append(text(left + 160, y + 16, engine, "small end"))
            parts.append(box(left + 170, y, wide, 22, GREEN if option["multiplies"] == least else BLUE))
            told = (
                f"{option['multiplies'] / least:.2f} times the cheapest; may round {option['error']:.3g} times as much"
            )
            parts.append(text(left + 180 + wide, y + 16, told, "tiny"))
    return sheet("Engines of a convolution", 880, 80 + 230 * len(choices), parts)


def ratios() -> List[Tuple[str, float]]:
    """The networks of "Beside other runtimes" in BENCHMARKS.md, with armnet's time divided by onnxruntime's."""
    section = (ROOT / "BENCHMARKS.md").read_text(encoding="utf-8").partition("## Beside other runtimes")[2]
    lines = [line.strip("| ").split("|") for line in section.partition("\n## ")[0].splitlines() if line[:1] == "|"]
    column = [word.strip() for word in lines[0]].index("/ onnxruntime")
    return [(line[0].strip(), float(line[column])) for line in lines[2:]]


def speed(networks: List[Tuple[str, float]]) -> str:
    """A bar for each network; the line at 1 is the other runtime."""
    left, top, unit, step = 160, 76, 160, 30
    width, bottom = 560, top + step * len(networks)
    parts = [
        text(20, 30, "armnet's time as a multiple of onnxruntime's", "title"),
        text(20, 50, "One x86 core, one picture of 224 x 224, float32. Shorter is better.", "small"),
    ]
    for row, (name, ratio) in enumerate(networks):
        y = top + row * step
        parts.append(text(left - 10, y + 16, name, "small end"))
        parts.append(box(left, y, ratio * unit, 22, GREEN if ratio < 1 else BLUE))
        parts.append(text(left + ratio * unit - 8, y + 16, f"{ratio:.2f}", "small end"))
    line = f'<path d="M{left + unit},{top - 8} V{bottom}" stroke="#4a5a6a" stroke-dasharray="4 3"/>'
    parts = [line, *parts, text(left + unit, bottom + 16, "1: as fast as onnxruntime", "small middle")]
    return sheet("armnet's time as a multiple of onnxruntime's", width, bottom + 32, parts)


def inspected() -> Facts:
    """The output of ``armnet inspect --json`` for the demo's network."""
    from armnet.__main__ import main

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as told:
        main(["export", str(ROOT / "demo/digits.onnx"), "-o", f"{folder}/digits"])
        told.truncate(told.seek(0))
        main(["inspect", f"{folder}/digits", "--json"])
    facts: Facts = json.loads(told.getvalue())
    return facts


def choices() -> List[Tuple[str, Facts]]:
    """The engines of a large convolution and of a small one, with the work that they declare."""
    import armnet

    found = []
    for channels, size in ((64, 56), (16, 6)):
        conv = armnet.OperatorDef.of("Conv", ["x", "w"], ["y"], kernels=[3, 3], pads=[1, 1, 1, 1])
        net = armnet.NetDef(op=(conv,), external_input=("x", "w"), external_output=("y",))
        weights = np.ones((channels, channels, 3, 3), np.float32)
        fill = armnet.OperatorDef.of("GivenTensorFill", [], ["w"], shape=list(weights.shape), values=weights.ravel())
        pair = armnet.Pair.from_nets(armnet.NetDef(op=(fill,), external_output=("w",)), net)
        report = armnet.Report()
        armnet.optimize(pair, shapes={"x": (1, channels, size, size)}, report=report)
        (choice,) = report.engines
        name = f"{channels} channels to {channels}, {size} x {size} pixels"
        found.append((name, dict(choice.options)))
    return found


def pictures() -> Dict[str, str]:
    """Every picture by the name of its file."""
    return {
        "winograd.svg": winograd(),
        "tiles.svg": tiles(),
        "arena.svg": arena(inspected()),
        "engines.svg": engines(choices()),
        "speed.svg": speed(ratios()),
    }


if __name__ == "__main__":
    for name, content in pictures().items():
        (FOLDER / name).write_text(content, encoding="utf-8")
        print(FOLDER / name)
