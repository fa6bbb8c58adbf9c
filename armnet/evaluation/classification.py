"""Counts the answers of classifiers: top-1, top-5, and which class is taken for which."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from armnet.evaluation.example import Example, Fault, Finding, Scores
from runtime_arm.results.result import called, label_of

WIDEST = 1000  # classes of a confusion matrix


class ClassMeasure:
    """Counts answers whose truth is the number of a class. labels: of the classes, None if there are none."""

    kinds: Tuple[str, ...] = ("classes",)
    threshold: Optional[float] = None

    def __init__(self, labels: Optional[Sequence[str]]):
        self.labels = labels

    def scores(self, answered: Sequence[Tuple[Example, Finding]]) -> Scores:
        """top1 and top5, and for each class that occurs its recall and precision."""
        truth = np.asarray([example.truth for example, _ in answered], np.int64)
        best = np.asarray([finding["top"][0][0] for _, finding in answered], np.int64)
        among = [example.truth in [number for number, _ in finding["top"]] for example, finding in answered]
        metrics = {"top1": float(np.mean(truth == best)), "top5": float(np.mean(among))}
        rows: List[Dict[str, Any]] = []
        occurring = [int(number) for number in np.unique(np.concatenate([truth, best]))]
        for number in occurring:
            mine, said = truth == number, best == number
            right = int((mine & said).sum())
            rows.append(
                {
                    "class": self.name(number),
                    "examples": int(mine.sum()),
                    "recall": right / mine.sum() if mine.any() else None,
                    "precision": right / said.sum() if said.any() else None,
                }
            )
        return Scores(metrics, rows, self._confusion(truth, best, occurring))

    def _confusion(self, truth: Any, best: Any, occurring: List[int]) -> Optional[Tuple[List[str], List[List[int]]]]:
        if len(occurring) > WIDEST:
            return None
        counts = np.zeros((len(occurring), len(occurring)), np.int64)
        np.add.at(counts, (np.searchsorted(occurring, truth), np.searchsorted(occurring, best)), 1)
        return [self.name(number) for number in occurring], counts.tolist()

    def problem(self, example: Example, finding: Finding) -> Optional[str]:
        """Every answer can be compared."""
        return None

    def fault(self, example: Example, finding: Finding) -> Optional[Fault]:
        """An answer is wrong if its best class is not the true one; the higher its score, the worse."""
        number, score = finding["top"][0]
        if number == example.truth:
            return None
        return Fault(score, self.name(example.truth), f"{self.name(number)} ({score:.4g})")

    def drawn(self, example: Example, finding: Finding) -> Optional[Mapping[str, Any]]:
        """The picture as it is."""
        from armnet.page.pictures import picture_of

        picture = picture_of(example.value)
        return None if picture is None else {"": picture}

    def name(self, number: int) -> str:
        """What a class is called."""
        return called(label_of(number, self.labels), number)
