"""Which layouts of a convolution's input fit a layout of its results."""

from __future__ import annotations

from typing import Iterator, Optional

from runtime_arm.engines.tiled.columns import met_under
from runtime_arm.operators.common.windows import Window
from runtime_arm.operators.conv.convolution import Convolution
from runtime_arm.registry.layouts import Tiles
from runtime_arm.registry.specs import TensorSpec


def reach_of(convolution: Convolution) -> int:
    """How many pixels beyond the edge of the image the kernel meets."""
    window = convolution.window
    behind = [
        (o - 1) * s + (k - 1) * d - head - n + 1
        for o, s, k, d, head, n in zip(
            window.output, window.stride, window.kernel, window.dilation, window.head, window.image
        )
    ]
    reach: int = max(0, *window.head, *behind)
    return reach


def in_step(x: TensorSpec, to: Tiles, window: Window, reach: int, border: int) -> Optional[Tiles]:
    """The layout of an input whose tiles lie at the same positions as those of the results ``to``, with a border of at
    least ``reach`` and, if that fits, of ``border``; None if there is none."""
    tile, around = window.stride[0] * to.tile, max(reach, border)
    widest = around + tile
    while around <= widest:
        of = Tiles.of(x, tile, around)
        if (of.pitch, of.rows) == (to.pitch, to.rows) and _holds(of, to, window):
            return of
        around = of.border + 1  # up to there the layout is the same; a tile may have billions of pixels
    return None


def skipping(x: TensorSpec, to: Tiles, window: Window, reach: int) -> Iterator[Tiles]:
    """Layouts of one plane for the input of a strided convolution, which passes over some of its pixels; ``to`` has one
    plane, too."""
    if window.stride[0] > 1 and to.batch == 1:
        layouts = (Tiles.of(x, 1, border) for border in sorted({reach, max(1, reach)}))
        yield from (of for of in layouts if _holds(of, to, window))


def _holds(of: Tiles, to: Tiles, window: Window) -> bool:
    """Whether everything that the taps read is in the input's memory, also for positions outside the images."""
    nearest = sum(of.neighbour(axis, -window.head[axis])[1] for axis in (0, 1))
    farthest = sum(
        of.neighbour(axis, (to.tile - 1) * s + (k - 1) * d - head)[1]
        for axis, (s, k, d, head) in enumerate(zip(window.stride, window.kernel, window.dilation, window.head))
    )
    last = met_under(to.strips(to.body)[-1], of, window).last
    return -nearest <= of.guard and last + farthest < of.body + of.guard
