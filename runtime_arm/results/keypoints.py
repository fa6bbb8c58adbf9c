"""Keypoints: the points of one body, hand or face."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Sequence, Tuple

from runtime_arm.records import NamedTuple
from runtime_arm.results.result import Result

BODY = (
    "nose",
    "left eye",
    "right eye",
    "left ear",
    "right ear",
    "left shoulder",
    "right shoulder",
    "left elbow",
    "right elbow",
    "left wrist",
    "right wrist",
    "left hip",
    "right hip",
    "left knee",
    "right knee",
    "left ankle",
    "right ankle",
)  # the 17 points of COCO's bodies, in order
BONES: Tuple[Tuple[int, int], ...] = (
    (0, 1),
    (0, 2),
    (1, 3),
    (2, 4),
    (5, 6),
    (5, 7),
    (7, 9),
    (6, 8),
    (8, 10),
    (5, 11),
    (6, 12),
    (11, 12),
)
BONES += ((11, 13), (13, 15), (12, 14), (14, 16))
VISIBLE = 0.3  # points with a lower score are not drawn
MOST_LINES = 64  # more points, such as those of a face, are told in one line


class Keypoint(NamedTuple):
    """One point: its name, its place in pixels of the original picture, and its score."""

    name: str
    point: Tuple[float, float]
    score: float


class Keypoints(Result):
    """The points of one body, hand or face, a sequence of ``Keypoint`` in the net's order."""

    kind = "keypoints"

    def __init__(self, points: Sequence[Keypoint]):
        self.points = tuple(points)

    def __len__(self) -> int:
        return len(self.points)

    def __iter__(self) -> Iterator[Keypoint]:
        return iter(self.points)

    def __getitem__(self, place: int) -> Keypoint:
        return self.points[place]

    def to_dict(self) -> Dict[str, Any]:
        points = [{**one._asdict(), "point": [round(n, 3) for n in one.point]} for one in self.points]
        return {"kind": self.kind, "points": points}

    def lines(self) -> List[str]:
        if len(self.points) > MOST_LINES:
            x, y = zip(*(one.point for one in self.points))
            extent = f"({min(x):.0f}, {min(y):.0f})-({max(x):.0f}, {max(y):.0f})"
            best = max(one.score for one in self.points)
            return [f"{best:10.6g}  {len(self.points)} points within {extent}; --json lists them"]
        return [f"{one.score:10.6g}  {one.name} at ({one.point[0]:.0f}, {one.point[1]:.0f})" for one in self.points]

    def draw(self, picture: Any) -> Any:
        from runtime_arm.results.drawing import Canvas

        canvas = Canvas(picture)
        for first, second in BONES if tuple(one.name for one in self.points) == BODY else ():
            if min(self.points[first].score, self.points[second].score) >= VISIBLE:
                canvas.line(self.points[first].point, self.points[second].point, first)
        canvas.points([one.point for one in self.points if one.score >= VISIBLE], 0)
        return canvas.picture
