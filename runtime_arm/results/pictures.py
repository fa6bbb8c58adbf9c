"""Image and Depth: pictures that a net makes, and numbers for every pixel."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.results.result import Result


class Image(Result):
    """A picture that the net made. pixels: (height, width, 3) uint8, RGB."""

    kind = "image"

    def __init__(self, pixels: Array):
        self.pixels = pixels

    @property
    def size(self) -> List[int]:
        """Width and height."""
        return [self.pixels.shape[1], self.pixels.shape[0]]

    def to_dict(self) -> Dict[str, Any]:
        return {"kind": self.kind, "size": self.size}

    def lines(self) -> List[str]:
        return [f"a picture of {self.size[0]}x{self.size[1]} pixels"]

    def draw(self, picture: Any = None) -> Any:
        """The picture that the net made, as a Pillow picture; the one given is not looked at."""
        from runtime_arm.results.drawing import as_picture

        return as_picture(self.pixels)


class Depth(Result):
    """A number for every pixel of the original picture, such as a depth. values: (height, width) float32."""

    kind = "depth"

    def __init__(self, values: Array):
        self.values = values

    def to_dict(self) -> Dict[str, Any]:
        height, width = self.values.shape
        return {"kind": self.kind, "size": [width, height], "min": self._least, "max": self._most}

    @property
    def _least(self) -> float:
        return float(self.values.min())

    @property
    def _most(self) -> float:
        return float(self.values.max())

    def lines(self) -> List[str]:
        y, x = np.unravel_index(int(self.values.argmax()), self.values.shape)
        return [f"from {self._least:.6g} to {self._most:.6g}, the largest at ({x}, {y})"]

    def draw(self, picture: Any = None) -> Any:
        """The numbers as colours, dark to bright; the picture given is not looked at."""
        from runtime_arm.results.drawing import as_picture, heat_colours

        return as_picture(heat_colours(self.values))
