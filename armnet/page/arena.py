"""Draws the arena over time: steps to the right, bytes upwards."""

from __future__ import annotations

from typing import Iterator, List, Sequence

from armnet.page.elements import shortened, text
from armnet.page.timeline import Block, Timeline
from runtime_arm.app.display import size

WIDTH, HEIGHT = 1200.0, 380.0
LEAST_WIDTH = 900  # pixels on a screen, below which its words are too small: a phone scrolls
LEFT, RIGHT, TOP, BOTTOM = 64.0, 12.0, 22.0, 34.0
LETTER = 5.8  # the width of a letter in a block
GOLDEN_ANGLE = 137.508  # degrees: neighbouring blocks get hues that are far apart


def picture(timeline: Timeline, operators: Sequence[str]) -> str:
    """The picture as an SVG element; ``operators`` name the steps."""
    scale = _Scale(len(timeline.live), timeline.arena_nbytes)
    parts = [*_axes(scale), *_blocks(timeline.blocks, scale, operators), *_live(timeline.live, scale, operators)]
    return (
        f'<svg viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}" width="100%" style="min-width:{LEAST_WIDTH}px" role="img" '
        'aria-label="arena over time">'
        '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><rect width="6" height="6" fill="var(--scratch)" opacity="0.35"/>'
        '<line x1="0" y1="0" x2="0" y2="6" stroke="var(--scratch)" stroke-width="3"/></pattern></defs>'
        f"{''.join(parts)}</svg>"
    )


class _Scale:
    def __init__(self, steps: int, nbytes: int):
        self.steps, self.nbytes = max(steps, 1), max(nbytes, 1)
        self.per_step = (WIDTH - LEFT - RIGHT) / self.steps
        self.per_byte = (HEIGHT - TOP - BOTTOM) / self.nbytes

    def x(self, step: float) -> float:
        return LEFT + step * self.per_step

    def y(self, nbytes: float) -> float:
        return HEIGHT - BOTTOM - nbytes * self.per_byte


def _axes(scale: _Scale) -> Iterator[str]:
    right = scale.x(scale.steps)
    for nbytes in _ticks(scale.nbytes, 6):
        y = scale.y(nbytes)
        yield f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{size(nbytes)}</text>'
    for step in _ticks(scale.steps - 1, 16):
        x = scale.x(step + 0.5)
        yield f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 15:.1f}" text-anchor="middle">{step}</text>'
    yield f'<text x="{right}" y="{HEIGHT - 4}" text-anchor="end">step</text>'


def _ticks(most: int, count: int) -> List[int]:
    """Round numbers from 0 to ``most``, at equal distances, ``count`` of them above 0 or fewer."""
    rounded = (digit * 10**power for power in range(19) for digit in (1, 2, 5))
    step = next(step for step in rounded if most <= step * count)
    return list(range(0, most + 1, step))


def _blocks(blocks: Sequence[Block], scale: _Scale, operators: Sequence[str]) -> Iterator[str]:
    for number, block in enumerate(blocks):
        x, y = scale.x(block.first), scale.y(block.offset + block.nbytes)
        width, height = scale.x(block.last + 1) - x, block.nbytes * scale.per_byte
        span = f"steps {block.first} to {block.last}" if block.last > block.first else f"step {block.first}"
        names = " = ".join(block.names[:6]) + (f" and {len(block.names) - 6} more" if len(block.names) > 6 else "")
        yield (
            f'<rect class="block" x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{max(height, 0.5):.2f}" '
            f'fill="{_fill(block, number)}"><title>{text(names)}\n{size(block.nbytes)} ({block.kind}), {span}\n'
            f"written by {text(operators[block.first]) if operators else '?'}</title></rect>"
        )
        if height > 12 and block.kind != "scratch" and block.names:
            shown = _cut(block.names[0], int((width - 8) / LETTER))
            yield f'<text class="label" x="{x + 4:.1f}" y="{y + height / 2 + 3.5:.1f}">{text(shown)}</text>'


def _cut(name: str, letters: int) -> str:
    """The name, shortened to ``letters`` characters; "" if these are too few to be useful."""
    if len(name) <= letters:
        return name
    return shortened(name, letters) if letters > 6 else ""


def _fill(block: Block, number: int) -> str:
    if block.kind == "scratch":
        return "url(#hatch)"
    if block.kind == "input":
        return "var(--input)"
    return f"hsl({number * GOLDEN_ANGLE % 360:.0f} 52% var(--light))"


def _live(live: Sequence[int], scale: _Scale, operators: Sequence[str]) -> Iterator[str]:
    """The bytes in use as a line, and a mark at the maximum."""
    corners = [
        f"{scale.x(at):.2f},{scale.y(nbytes):.2f} {scale.x(at + 1):.2f},{scale.y(nbytes):.2f}"
        for at, nbytes in enumerate(live)
    ]
    yield f'<polyline class="live" points="{" ".join(corners)}"/>'
    if live and operators:
        at = max(range(len(live)), key=live.__getitem__)
        x, side = scale.x(at + 0.5), "start" if at < len(live) / 2 else "end"
        yield f'<line class="peak" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 6}" y2="{HEIGHT - BOTTOM}"/>'
        yield (
            f'<text class="peak-label" x="{x + (5 if side == "start" else -5):.1f}" y="{TOP - 8}" '
            f'text-anchor="{side}">maximum: {size(live[at])} at step {at}, {text(operators[at])}</text>'
        )
