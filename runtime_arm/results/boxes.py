"""Boxes: things found in a picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.records import NamedTuple
from runtime_arm.results.frame import Frame
from runtime_arm.results.nms import non_maximum_suppression
from runtime_arm.results.result import Result, called, label_of

Point = Tuple[float, float]


@dataclass(frozen=True)
class Box:
    """One thing: its label (None without labels), the number of its class, its score, its box x0, y0, x1, y1 and the
    points that the net knows of it, in pixels of the original picture."""

    label: Optional[str]
    index: int
    score: float
    box: Tuple[float, float, float, float]
    points: Tuple[Point, ...] = ()

    def to_dict(self) -> Dict[str, Any]:
        """The object in JSON; ``points`` only where there are some."""
        facts: Dict[str, Any] = {
            "label": self.label,
            "index": self.index,
            "score": self.score,
            "box": [round(edge, 3) for edge in self.box],
        }
        if self.points:
            facts["points"] = [[round(x, 3), round(y, 3)] for x, y in self.points]
        return facts


class Boxes(Result):
    """Things found in a picture, a sequence of ``Box``, the highest score first."""

    kind = "boxes"

    def __init__(self, boxes: Sequence[Box]):
        self.boxes = tuple(boxes)

    def __len__(self) -> int:
        return len(self.boxes)

    def __iter__(self) -> Iterator[Box]:
        return iter(self.boxes)

    def __getitem__(self, place: int) -> Box:
        return self.boxes[place]

    def to_dict(self) -> Dict[str, Any]:
        return {"kind": self.kind, "boxes": [box.to_dict() for box in self.boxes]}

    def lines(self) -> List[str]:
        return [_line(box) for box in self.boxes] or ["nothing found"]

    def draw(self, picture: Any) -> Any:
        from runtime_arm.results.drawing import Canvas

        canvas = Canvas(picture)
        for box in self.boxes:
            self._outline(canvas, box)
        for box in self.boxes:
            self._label(canvas, box)
        return canvas.picture

    def _outline(self, canvas: Any, box: Box) -> None:
        canvas.box(box.box, box.index)
        canvas.points(box.points, box.index)

    def _label(self, canvas: Any, box: Box) -> None:
        canvas.label(box.box, f"{called(box.label, box.index)} {box.score:.2f}", box.index)


class Faces(Boxes):
    """Faces with their landmarks, in the order in which the net gives them (eyes, nose, corners of the mouth, ...)."""


class Poses(Boxes):
    """Bodies with their joints."""


class TextBoxes(Boxes):
    """Lines of writing; the points of each are the four corners of its slanted box."""

    def _outline(self, canvas: Any, box: Box) -> None:
        canvas.polygon(box.points, box.index)

    def _label(self, canvas: Any, box: Box) -> None:
        """None: writing is not to be covered."""


def _line(box: Box) -> str:
    x0, y0, x1, y1 = box.box
    return f"{box.score:10.6g}  {called(box.label, box.index)}  at ({x0:.0f}, {y0:.0f})-({x1:.0f}, {y1:.0f})"


class Found(NamedTuple):
    """Candidates of a detector. corners: (n, 4) x0 y0 x1 y1 in pixels of the input; scores: (n,); classes: (n,) ints;
    points: (n, k, 2) in pixels of the input, or None."""

    corners: Array
    scores: Array
    classes: Array
    points: Optional[Array] = None

    def above(self, threshold: float) -> Found:
        """Those whose score is at least ``threshold``; boxes whose corners are not finite are none."""
        chosen = (self.scores >= threshold) & np.isfinite(self.corners).all(axis=1)
        return self.at(np.flatnonzero(chosen))

    def at(self, places: Array) -> Found:
        """Those at these places."""
        points = None if self.points is None else self.points[places]
        return Found(self.corners[places], self.scores[places], self.classes[places], points)

    def distinct(self, overlap: float, limit: int) -> Found:
        """The ``limit`` best without those that overlap a better one of the same class by more than ``overlap``."""
        return self.at(non_maximum_suppression(self.corners, self.scores, self.classes, overlap, limit))

    def boxes(self, frame: Frame, labels: Optional[Sequence[str]]) -> List[Box]:
        """The boxes in the original picture, the best first; those outside of it are left out."""
        corners = frame.boxes(self.corners)
        points = None if self.points is None else frame.points(self.points)
        found = []
        for place in np.argsort(-self.scores, kind="stable"):
            x0, y0, x1, y1 = (float(edge) for edge in corners[place])
            if x1 <= x0 or y1 <= y0:
                continue
            index = int(self.classes[place])
            known = () if points is None else tuple((float(x), float(y)) for x, y in points[place])
            found.append(Box(label_of(index, labels), index, float(self.scores[place]), (x0, y0, x1, y1), known))
        return found
