"""Functions for drawing pictures as SVG: texts, boxes, arrows, on a white sheet that suits light and dark pages."""

from __future__ import annotations

from typing import List, Sequence
from xml.sax.saxutils import escape

BLUE, AMBER, GREEN, RED, GREY = "#dbe8f7", "#fbeecb", "#d9efdc", "#f6d9d6", "#eceff2"
EDGES = {BLUE: "#3d6fa8", AMBER: "#b98a1d", GREEN: "#3f8a4c", RED: "#b5483e", GREY: "#8795a3"}
STYLE = """
text { font: 14px system-ui, sans-serif; fill: #1c2733 }
.small { font-size: 12px; fill: #4a5a6a } .tiny { font-size: 10px; fill: #4a5a6a }
.title { font-weight: 600; font-size: 16px } .middle { text-anchor: middle } .end { text-anchor: end }
.arrow { stroke: #4a5a6a; stroke-width: 1.6; fill: none; marker-end: url(#head) }
"""


def text(x: float, y: float, content: str, style: str = "") -> str:
    return f'<text class="{style}" x="{x:g}" y="{y:g}">{escape(content)}</text>'


def box(x: float, y: float, width: float, height: float, colour: str, title: str = "") -> str:
    """A rectangle; ``title`` is shown when the pointer rests on it."""
    inside = f"<title>{escape(title)}</title>" if title else ""
    shape = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
    return f'<rect {shape} fill="{colour}" stroke="{EDGES[colour]}">{inside}</rect>'


def cells(x: float, y: float, rows: int, columns: int, side: float, colour: str) -> List[str]:
    """A grid of squares."""
    return [box(x + side * i, y + side * j, side, side, colour) for j in range(rows) for i in range(columns)]


def arrow(x0: float, y0: float, x1: float, y1: float) -> str:
    return f'<path class="arrow" d="M{x0:g},{y0:g} L{x1:g},{y1:g}"/>'


def sheet(title: str, width: int, height: int, parts: Sequence[str]) -> str:
    """The whole picture."""
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    head = '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
            f"<title>{escape(title)}</title>\n<style>{STYLE}</style>",
            f'<defs>{head}<path d="M0,0 L8,4 L0,8 z" fill="#4a5a6a"/></marker></defs>',
            f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>',
            *parts,
            "</svg>\n",
        ]
    )
