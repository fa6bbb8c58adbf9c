"""Mask: the class of every pixel."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.results.result import Result, called, label_of


@dataclass(frozen=True)
class Region:
    """The pixels of one class: its label (None without labels), its number and its share of the picture."""

    label: Optional[str]
    index: int
    share: float


class Mask(Result):
    """The class of every pixel of the original picture.

    classes: (height, width) uint8 or int32. probability: (height, width) float32 of class 1, where the net tells
    foreground from background; else None.
    """

    kind = "mask"

    def __init__(self, classes: Array, labels: Optional[Sequence[str]], probability: Optional[Array] = None):
        self.classes = classes
        self.labels = None if labels is None else tuple(labels)
        self.probability = probability

    @property
    def regions(self) -> List[Region]:
        """The classes that occur, the largest first."""
        counts = np.bincount(self.classes.reshape(-1))
        order = [int(i) for i in np.argsort(-counts, kind="stable") if counts[i]]
        return [Region(label_of(i, self.labels), i, float(counts[i] / self.classes.size)) for i in order]

    def to_dict(self) -> Dict[str, Any]:
        height, width = self.classes.shape
        return {"kind": self.kind, "size": [width, height], "regions": [asdict(one) for one in self.regions]}

    def lines(self) -> List[str]:
        return [f"{one.share:9.1%}  {called(one.label, one.index)}" for one in self.regions]

    def draw(self, picture: Any) -> Any:
        from runtime_arm.results.drawing import Canvas

        canvas = Canvas(picture)
        canvas.tint(self.classes)
        canvas.legend([(called(one.label, one.index), one.index) for one in self.regions])
        return canvas.picture
