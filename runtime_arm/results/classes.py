"""Classes: the scores of classes."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Sequence

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.records import record
from runtime_arm.results.result import Result, called, label_of

SHOWN = 5  # classes that are listed unless somebody asks for another number


@record(frozen=True)
class ClassScore:
    """One class: its label (None without labels), its number and its score."""

    label: Optional[str]
    index: int
    score: float

    def to_dict(self) -> Dict[str, Any]:
        """The object in JSON."""
        return {"label": self.label, "index": self.index, "score": self.score}


class Classes(Result):
    """The scores of all classes of one input, and the best of them as a sequence, the best first.

    scores: (classes,). meaning: "probabilities", "logits" (any number; the largest wins), or "independent"
    (probabilities that need not add up to 1, for classes that do not exclude each other).
    """

    kind = "classes"

    def __init__(self, scores: Array, labels: Optional[Sequence[str]], meaning: str, top: int = SHOWN):
        self.scores = np.asarray(scores, np.float64).reshape(-1)
        self.labels = None if labels is None else tuple(labels)
        self.meaning = meaning
        self._top = self.best(top)

    def best(self, count: int) -> List[ClassScore]:
        """The ``count`` classes with the highest scores, the highest first; the lower number first where equal."""
        order = np.argsort(-self.scores, kind="stable")[:count]
        return [ClassScore(label_of(int(i), self.labels), int(i), float(self.scores[i])) for i in order]

    @property
    def label(self) -> Optional[str]:
        """The label of the best class."""
        return self.best(1)[0].label

    @property
    def index(self) -> int:
        """The number of the best class."""
        return self.best(1)[0].index

    @property
    def score(self) -> float:
        """The score of the best class."""
        return self.best(1)[0].score

    def __len__(self) -> int:
        return len(self._top)

    def __iter__(self) -> Iterator[ClassScore]:
        return iter(self._top)

    def __getitem__(self, place: int) -> ClassScore:
        return self._top[place]

    def to_dict(self) -> Dict[str, Any]:
        return {"kind": self.kind, "scores": self.meaning, "classes": [one.to_dict() for one in self._top]}

    def lines(self) -> List[str]:
        unit = "  (logit)" if self.meaning == "logits" else ""
        return [f"{one.score:10.6g}  {called(one.label, one.index)}{unit}" for one in self._top]
