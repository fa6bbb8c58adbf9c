"""Draws docs/pictures/demo.svg: runs the demo in a terminal and makes an animated picture of its output.

python -m scripts.pages.record_demo
"""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import List, Tuple

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "docs/pictures/demo.svg"
COLUMNS, ROWS = 100, 28
LINE_HEIGHT = 24.4  # of rich's SVG: a character is 20 high, a line 1.22 of that
START = 0.18  # of the time: the first picture shows a full terminal
COMMAND, OUTPUT, HEADING = 1.2, 0.09, 0.6  # seconds for which a line of that kind stands before the next one
FORMAT = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<title>scripts/demo, recorded in a terminal</title>
<style>
{unique_id}-x {{}}
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width }}
.{unique_id}-title {{ font: bold 18px system-ui, sans-serif }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="2" width="{terminal_width}" height="{terminal_height}"/></clipPath></defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
<g id="scroll">{backgrounds}<g class="{unique_id}-matrix">{matrix}</g>
<rect id="cover" x="0" y="0" width="{terminal_width}" height="100000" fill="#292929"/></g>
</g></svg>
"""


def recorded() -> List[str]:
    """The lines that the demo prints on a terminal, with their colours."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "TERM": "xterm-256color", "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "scripts.demo"]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=theirs, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env=environment
    ) as demo:
        os.close(theirs)
        text = b""
        while True:
            try:
                text += os.read(ours, 65536)
            except OSError:  # the terminal was closed at the demo's end
                break
    if demo.returncode:
        sys.exit(f"the demo failed: exit status {demo.returncode}")
    return text.decode().replace("\r", "").strip("\n").split("\n")


def drawn(lines: List[str]) -> Tuple[str, List[float]]:
    """rich's picture of all the lines, and the time from each line to the next."""
    from rich.console import Console
    from rich.text import Text

    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    waits: List[float] = []
    for line in lines:
        text = Text.from_ansi(line)
        if line.startswith("$ "):
            text.stylize("bold green", 0, 1)
            text.stylize("bold", 1)
        elif line.startswith("=== "):
            text.stylize("bold magenta")
        parts = text.wrap(console, COLUMNS) or [Text()]
        for part in parts:
            console.print(part, no_wrap=True, overflow="crop", highlight=False)
        wait = COMMAND if line.startswith("$ ") else HEADING if line.startswith("=== ") else OUTPUT
        waits += [0.0] * (len(parts) - 1) + [wait]
    return console.export_svg(title="scripts/demo", code_format=FORMAT, unique_id="demo"), waits


def animated(svg: str, waits: List[float]) -> str:
    """The picture, as high as the terminal: lines appear one by one and scroll, once; it stays at the end.

    A cover moves down from line to line, and everything moves up once the terminal is full. Readers who want no motion
    see the first lines.
    """
    total = sum(waits) + 0.1
    scroll, cover, now = ["0%{transform:translateY(0)}"], ["0%{transform:translateY(0)}"], 0.1
    for count, wait in enumerate(waits, 1):
        share = f"{100 * now / total:.2f}%"
        cover.append(f"{share}{{transform:translateY({count * LINE_HEIGHT + 1.5:.1f}px)}}")
        if count > ROWS:
            scroll.append(f"{share}{{transform:translateY({(ROWS - count) * LINE_HEIGHT:.1f}px)}}")
        now += wait
    last = [frames[-1].partition("{")[2] for frames in (scroll, cover)]
    style = (
        f"@keyframes scroll{{{''.join(scroll)}100%{{{last[0]}}}\n@keyframes cover{{{''.join(cover)}100%{{{last[1]}}}\n"
        f"#scroll{{animation:scroll {total:.1f}s step-end -{START * total:.1f}s forwards}}\n"
        f"#cover{{animation:cover {total:.1f}s step-end -{START * total:.1f}s forwards}}\n"
        "@media (prefers-reduced-motion: reduce){#scroll{animation:none}#cover{display:none}}"
    )
    svg = svg.replace("demo-x {}", style)
    svg = re.sub(r' clip-path="url\(#demo-line-\d+\)"', "", svg)  # of rich's own frame, which FORMAT leaves out
    svg = re.sub(r"<text[^>]*>\n</text>", "", svg)
    height = ROWS * LINE_HEIGHT + 2
    whole = len(waits) * LINE_HEIGHT
    shrink = round(whole - ROWS * LINE_HEIGHT)

    def lower(found: re.Match[str]) -> str:
        return f"{found[1]}{float(found[2]) - shrink:.1f}{found[3]}"

    svg = re.sub(r'(viewBox="0 0 [\d.]+ )([\d.]+)(")', lower, svg, count=1)
    svg = re.sub(r'(<rect fill="#292929"[^>]*height=")([\d.]+)(")', lower, svg, count=1)
    clip = r'(<clipPath id="demo-clip-terminal">\s*<rect x="0" y="2" width="[\d.]+" height=")[\d.]+(")'
    return re.sub(clip, rf"\g<1>{height:.1f}\2", svg, count=1)


if __name__ == "__main__":
    TARGET.write_text(animated(*drawn(recorded())), encoding="utf-8")
    print(TARGET)
