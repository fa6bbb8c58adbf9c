"""Frame: where the pixels of a net's input lie in the original picture."""

from __future__ import annotations

from typing import Tuple

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.records import NamedTuple


class Frame(NamedTuple):
    """The original picture, upright, of ``width`` x ``height`` pixels, as it is placed in a net's input.

    input_width, input_height: the size of the net's input. scale_x, scale_y: its pixels for one pixel of the picture.
    left, top: where the picture's upper left corner is in the input; negative if the picture was cropped.
    """

    width: int
    height: int
    input_width: int
    input_height: int
    scale_x: float = 1.0
    scale_y: float = 1.0
    left: float = 0.0
    top: float = 0.0

    @staticmethod
    def whole(width: int, height: int) -> Frame:
        """The frame of an input that is the picture itself."""
        return Frame(width, height, width, height)

    def points(self, xy: Array) -> Array:
        """Points (..., 2) of the input, in pixels, as points of the picture."""
        return np.asarray((np.asarray(xy, np.float64) - (self.left, self.top)) / (self.scale_x, self.scale_y))

    def boxes(self, corners: Array) -> Array:
        """Boxes (..., 4) of the input, x0 y0 x1 y1 in pixels, as boxes of the picture, cut at its edges."""
        corners = np.asarray(corners, np.float64)
        moved = np.concatenate([self.points(corners[..., :2]), self.points(corners[..., 2:])], axis=-1)
        return np.asarray(np.clip(moved, 0, (self.width, self.height) * 2))

    def fractions(self, corners: Array) -> Array:
        """Boxes or points (..., 2 n) in fractions of the input, x first, in pixels of the input."""
        size = (self.input_width, self.input_height) * (corners.shape[-1] // 2)
        return np.asarray(np.asarray(corners, np.float64) * size)

    def grid(self, rows: int, columns: int) -> Tuple[Array, Array]:
        """For each row and each column of the picture its place in a plane of ``rows`` x ``columns`` that covers the
        input; places of pixel centres, cut at the plane's edges."""
        x = (np.arange(self.width) + 0.5) * self.scale_x + self.left
        y = (np.arange(self.height) + 0.5) * self.scale_y + self.top
        return (
            np.clip(y * (rows / self.input_height) - 0.5, 0, rows - 1),
            np.clip(x * (columns / self.input_width) - 0.5, 0, columns - 1),
        )
