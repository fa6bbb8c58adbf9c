"""Draws docs/pictures/architecture.svg, the picture of ARCHITECTURE.md: scripts/draw_architecture.py"""

from __future__ import annotations

from pathlib import Path
from typing import List, NamedTuple, Sequence
from xml.sax.saxutils import escape

TARGET = Path(__file__).resolve().parents[1] / "docs/pictures/architecture.svg"
WIDTH, HEIGHT = 1080, 640
STYLE = """
svg { background: #ffffff }
text { font: 14px system-ui, sans-serif; fill: #1c2733 }
.title { font-weight: 600; font-size: 16px }
.note { font-size: 12.5px; fill: #4a5a6a }
.label { font-size: 12.5px; fill: #4a5a6a; font-style: italic }
rect { stroke-width: 1.5; rx: 8 }
.code { fill: #e8f0fa; stroke: #3d6fa8 }
.data { fill: #fdf3dc; stroke: #b98a1d }
.package { fill: #ffffff; stroke: #3d6fa8 }
path { stroke: #4a5a6a; stroke-width: 1.6; fill: none; marker-end: url(#head) }
"""


class Box(NamedTuple):
    """A rectangle with a title and lines of text below it. style: code, data or package."""

    x: int
    y: int
    width: int
    height: int
    title: str
    notes: Sequence[str] = ()
    style: str = "code"

    def svg(self) -> str:
        parts = [f'<rect class="{self.style}" x="{self.x}" y="{self.y}" width="{self.width}" height="{self.height}"/>']
        parts.append(_text(self.x + 14, self.y + 25, self.title, "title"))
        parts += [_text(self.x + 14, self.y + 47 + 18 * i, note, "note") for i, note in enumerate(self.notes)]
        return "\n".join(parts)


def _text(x: int, y: int, content: str, style: str) -> str:
    return f'<text class="{style}" x="{x}" y="{y}">{escape(content)}</text>'


def _arrow(*points: Sequence[int], label: str = "", at: Sequence[int] = ()) -> str:
    line = '<path d="M' + " L".join(f"{x},{y}" for x, y in points) + '"/>'
    return line + ("\n" + _text(at[0], at[1], label, "label") if label else "")


BOXES = (
    Box(
        20,
        20,
        200,
        110,
        "A trained network",
        ("an ONNX or TFLite file,", "Caffe's two files,", "or a pair of Caffe2's"),
        "data",
    ),
    Box(270, 20, 270, 110, "exporter/", ("reader, rules, original_run a format", "common/builder.py makes the nets")),
    Box(590, 20, 200, 110, "Pair", ("init_net: weights", "predict_net: computation", "model.json: metadata"), "data"),
    Box(840, 20, 220, 110, "optimize/", ("passes, tier by tier", "an engine a convolution", "order and memory")),
    Box(20, 200, 1040, 250, "runtime_arm/   (works alone, with NumPy; imports run from left to right)"),
    Box(40, 250, 130, 105, "app/", ("pictures, inputs,", "outputs; what a", "bundle runs"), "package"),
    Box(40, 365, 130, 65, "pair/", ("pairs, bundles",), "package"),
    Box(190, 250, 150, 180, "execution/", ("Predictor,", "Workspace,", "executor, workers,", "profiling"), "package"),
    Box(
        360,
        250,
        170,
        180,
        "planning/",
        ("trace, layouts,", "merges, memory,", "work splitting,", "plan, verify"),
        "package",
    ),
    Box(550, 250, 150, 180, "engines/", ("fast kernels:", "conv, tiled, pool,", "fused, integers, ml"), "package"),
    Box(720, 250, 150, 180, "operators/", ("what a type means:", "shape function and", "reference kernel"), "package"),
    Box(890, 250, 150, 56, "registry/", ("schemas, layouts",), "package"),
    Box(890, 312, 150, 56, "machine/", ("caches, cores, BLAS",), "package"),
    Box(890, 374, 150, 56, "netdef/", ("nets as values",), "package"),
    Box(20, 520, 200, 100, "Outputs", ("arrays, or text,", "JSON and .npz"), "data"),
    Box(270, 520, 270, 100, "armnet/", ("the public names and the command;", "calls everything above")),
    Box(590, 520, 200, 100, "Bundle", ("one .pyz file: the pair and", "as much of the runtime", "as it needs"), "data"),
    Box(840, 520, 220, 100, "device_tests/", ("proves the runtime on", "emulated and real ARM")),
)
ARROWS = (
    _arrow((220, 75), (266, 75)),
    _arrow((540, 75), (586, 75)),
    _arrow((790, 60), (836, 60)),
    _arrow((840, 95), (794, 95)),
    _arrow((690, 130), (690, 196), label="the same pair, before or after optimize", at=(704, 168)),
    _arrow((120, 450), (120, 516), label="a run", at=(132, 488)),
    _arrow((690, 450), (690, 516), label="armnet pack", at=(704, 488)),
    _arrow((790, 570), (836, 570)),
)


def picture() -> str:
    """The SVG's text."""
    head = '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    lines: List[str] = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}">',
        f"<title>How data passes through armnet</title>\n<style>{STYLE}</style>",
        f'<defs>{head}<path d="M0,0 L8,4 L0,8 z" style="fill:#4a5a6a;stroke:none;marker-end:none"/></marker></defs>',
        *(box.svg() for box in BOXES),
        *ARROWS,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(picture(), encoding="utf-8")
    print(TARGET)
