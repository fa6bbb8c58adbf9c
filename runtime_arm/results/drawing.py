"""Draws results over pictures, with Pillow."""

from __future__ import annotations

import os
from typing import Any, List, Optional, Sequence, Tuple, Union

import numpy as np

from runtime_arm.errors import FeedError
from runtime_arm.imports import needed_for
from runtime_arm.netdef import Array

Place = Sequence[float]

COLOURS = (
    (230, 25, 75),
    (60, 180, 75),
    (0, 130, 200),
    (245, 130, 48),
    (145, 30, 180),
    (0, 170, 170),
    (240, 50, 230),
    (128, 128, 0),
    (170, 110, 40),
    (128, 0, 0),
    (0, 128, 128),
    (0, 0, 128),
)
_HEAT = ((0, 0, 4), (81, 18, 124), (183, 55, 121), (252, 137, 97), (252, 253, 191))  # dark to bright
_LARGEST_CAPTION = 12  # lines


def as_picture(picture: Any) -> Any:
    """A Pillow picture of a Pillow picture, an array (H, W) or (H, W, C) of uint8, or a path; upright, RGB."""
    with needed_for("drawing"):
        from PIL import Image, ImageOps
    if isinstance(picture, np.ndarray):
        if picture.dtype != np.uint8 or picture.ndim not in (2, 3):
            raise FeedError(f"drawing takes pixels (H, W, C) of uint8, got {picture.dtype.name}{list(picture.shape)}")
        return Image.fromarray(picture).convert("RGB")
    if isinstance(picture, (str, os.PathLike)):
        from runtime_arm.errors import first_line

        try:
            with Image.open(picture) as opened:
                return ImageOps.exif_transpose(opened).convert("RGB")
        except Exception as error:  # decoders raise anything for a broken file
            raise FeedError(f"{os.fspath(picture)}: cannot be read as a picture: {first_line(error)}") from error
    if not isinstance(picture, Image.Image):
        raise FeedError(f"drawing takes a picture, an array or a path, got {type(picture).__name__}")
    return ImageOps.exif_transpose(picture).convert("RGB")


def heat_colours(values: Array) -> Array:
    """(H, W, 3) uint8: the least number black, the largest nearly white."""
    least, most = float(values.min()), float(values.max())
    share = (values - least) / ((most - least) or 1.0)
    places = np.linspace(0, 1, len(_HEAT))
    bands = [np.interp(share, places, [colour[band] for colour in _HEAT]) for band in range(3)]
    return np.stack(bands, axis=-1).astype(np.uint8)


def colour_of(index: int) -> Tuple[int, int, int]:
    """The colour of a class."""
    return COLOURS[index % len(COLOURS)]


class Canvas:
    """A copy of a picture to draw on; lines and letters grow with the picture."""

    def __init__(self, picture: Any):
        with needed_for("drawing"):
            from PIL import ImageDraw

        self.picture = as_picture(picture).copy()
        self._draw = ImageDraw.Draw(self.picture)
        self._stroke = max(2, round(min(self.picture.size) / 200))
        self._font = _font(max(11, round(min(self.picture.size) / 28)))
        self._labels: List[Tuple[float, float, float, float]] = []  # where labels of boxes are

    def box(self, box: Place, index: int) -> None:
        """A rectangle."""
        self._draw.rectangle([tuple(box[:2]), tuple(box[2:])], outline=colour_of(index), width=self._stroke)

    def label(self, box: Place, text: str, index: int) -> None:
        """The label of a box, above it, below it or inside it: where no other label is, else nowhere."""
        foot = self._free_foot(box, text)
        if foot is not None:
            self._labels.append(self._label_area((box[0], foot), text))
            self._label((box[0], foot), text, index)

    def _free_foot(self, box: Place, text: str) -> Optional[float]:
        height = self._height(text)
        for foot in (box[1], box[3] + height, box[1] + height, box[3]):
            left, top, right, bottom = self._label_area((box[0], foot), text)
            apart = all(left >= x1 or right <= x0 or top >= y1 or bottom <= y0 for x0, y0, x1, y1 in self._labels)
            if apart and height <= foot <= self.picture.height:
                return foot
        return None

    def polygon(self, points: Sequence[Place], index: int) -> None:
        """A closed line."""
        closed = [tuple(point) for point in (*points, points[0])]
        self._draw.line(closed, fill=colour_of(index), width=self._stroke, joint="curve")

    def line(self, start: Place, end: Place, index: int) -> None:
        """A straight line."""
        self._draw.line([tuple(start), tuple(end)], fill=colour_of(index), width=self._stroke)

    def points(self, points: Sequence[Place], index: int) -> None:
        """A dot for each point."""
        r = 1.5 * self._stroke
        for x, y in points:
            self._draw.ellipse([x - r, y - r, x + r, y + r], fill=colour_of(index), outline="white")

    def tint(self, classes: Array) -> None:
        """Half-transparent colours by class (H, W); class 0 stays as it is."""
        from PIL import Image

        palette = np.asarray([colour_of(i) for i in range(len(COLOURS))], np.uint8)
        over = Image.fromarray(palette[classes % len(COLOURS)]).resize(self.picture.size, 0)
        alpha = Image.fromarray(np.where(classes > 0, 140, 0).astype(np.uint8)).resize(self.picture.size, 0)
        self.picture.paste(over, (0, 0), alpha)

    def legend(self, entries: Sequence[Tuple[str, int]]) -> None:
        """Names of classes in their colours, one below the other."""
        for line, (text, index) in enumerate(entries[:_LARGEST_CAPTION]):
            self._label((0, (line + 1) * self._height("Ag")), text, index)

    def caption(self, lines: List[str]) -> None:
        """Lines of text in the upper left corner."""
        self.legend([(" ".join(line.split()), 0) for line in lines])

    def _label(self, corner: Place, text: str, index: int) -> None:
        """White letters on the class's colour, with their lower left corner here, moved inside the picture."""
        area = self._label_area(corner, text)
        left, top, _, _ = self._draw.textbbox((0, 0), text, font=self._font)
        self._draw.rectangle(area, fill=colour_of(index))
        self._draw.text((area[0] + 2 - left, area[1] + 2 - top), text, fill="white", font=self._font)

    def _label_area(self, corner: Place, text: str) -> Tuple[float, float, float, float]:
        """Left, top, right and bottom of a label."""
        left, _, right, _ = self._draw.textbbox((0, 0), text, font=self._font)
        width, height = right - left + 4, self._height(text)
        x = min(max(corner[0], 0), max(self.picture.width - width, 0))
        y = max(corner[1] - height, 0)
        return x, y, x + width, y + height

    def _height(self, text: str) -> float:
        _, top, _, bottom = self._draw.textbbox((0, 0), text, font=self._font)
        return float(bottom - top + 4)


def _font(size: int) -> Union[Any, None]:
    """Pillow's own letters, of this size if Pillow can."""
    from PIL import ImageFont

    try:
        return ImageFont.load_default(size)
    except (TypeError, OSError, ImportError):  # Pillow before 10.1, or built without FreeType: letters of one size
        return ImageFont.load_default()
