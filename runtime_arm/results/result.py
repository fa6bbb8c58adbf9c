"""Result: the interface of every result, and how results name classes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Dict, List, Optional, Sequence


class Result(ABC):
    """A net's answer for one input. ``kind`` names its type: classes, boxes, mask, ..."""

    kind: ClassVar[str]

    @abstractmethod
    def to_dict(self) -> Dict[str, Any]:
        """Plain JSON: {"kind": ..., ...}, without arrays of pixels."""

    @abstractmethod
    def lines(self) -> List[str]:
        """The result as a person reads it, a line for each thing found."""

    def draw(self, picture: Any) -> Any:
        """The picture (a Pillow picture, an array (H, W, C) of uint8, or a path) with the result drawn over it.

        Returns a Pillow picture; the one given stays as it is. MissingDependency without Pillow.
        """
        from runtime_arm.results.drawing import Canvas

        canvas = Canvas(picture)
        canvas.caption(self.lines())
        return canvas.picture

    def __repr__(self) -> str:
        lines = self.lines()
        shown = "; ".join(" ".join(line.split()) for line in lines[:3])
        more = f"; and {len(lines) - 3} more" if len(lines) > 3 else ""
        return f"{type(self).__name__}({shown}{more})"


def label_of(index: int, labels: Optional[Sequence[str]]) -> Optional[str]:
    """The label of a class, None if there are no labels."""
    return labels[index] if labels is not None and 0 <= index < len(labels) else None


def called(label: Optional[str], index: int) -> str:
    """The name of a class for people: its label, or its number."""
    return label if label is not None else f"class {index}"
