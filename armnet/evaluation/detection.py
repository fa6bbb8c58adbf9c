"""Counts boxes by pycocotools: mean average precision as COCO defines it."""

from __future__ import annotations

import contextlib
import io
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from armnet.evaluation.example import Example, Fault, Finding, Scores
from armnet.evaluation.findings import SURE
from runtime_arm.imports import needed_for
from runtime_arm.results.boxes import Box, Boxes
from runtime_arm.results.nms import intersection_over_union
from runtime_arm.results.result import called, label_of

LEAST = 0.01  # the score of boxes that count for precision over all scores
_SAME = 0.5  # the intersection over union of a box that is found
_METRICS = {"map": 0, "map50": 1, "map75": 2, "map_small": 3, "map_medium": 4, "map_large": 5, "recall": 8}


class BoxMeasure:
    """Counts boxes against COCO's annotations.

    content: the annotations, as the file holds them. categories: the id of the category for each class of the model.
    """

    kinds: Tuple[str, ...] = ("boxes",)
    threshold: Optional[float] = LEAST

    def __init__(self, content: Mapping[str, Any], categories: Mapping[int, int], labels: Optional[Sequence[str]]):
        self.content, self.categories = content, categories
        names = {entry["id"]: entry["name"] for entry in content["categories"]}
        self.names = {number: names[category] for number, category in categories.items()}
        self.labels = labels

    def scores(self, answered: Sequence[Tuple[Example, Finding]]) -> Scores:
        """map, map50, map75 and recall; of each class its average precision. Without a value there is no such box."""
        rows: List[Dict[str, Any]] = []
        whole = self._evaluated(answered)
        metrics = {name: float(whole.stats[place]) for name, place in _METRICS.items() if whole.stats[place] >= 0}
        precision = whole.eval["precision"]  # (overlaps, recalls, categories, areas, most boxes)
        for place, category in enumerate(whole.params.catIds):
            known = precision[:, :, place, 0, -1]
            half = precision[0, :, place, 0, -1]
            number = next(n for n, one in self.categories.items() if one == category)
            if (known > -1).any():
                row = {"class": self.names[number], "map": _mean(known), "map50": _mean(half)}
                count = sum(truth["index"] == number for example, _ in answered for truth in example.truth["boxes"])
                rows.append({**row, "boxes": count})
        return Scores(metrics, rows)

    def _evaluated(self, answered: Sequence[Tuple[Example, Finding]]) -> Any:
        """A COCOeval that has counted."""
        with needed_for("measuring boxes"):
            from pycocotools.coco import COCO
            from pycocotools.cocoeval import COCOeval
        images = [example.truth["image"] for example, _ in answered]
        with contextlib.redirect_stdout(io.StringIO()):  # it prints tables of its own
            truth = COCO()
            truth.dataset = {**self.content, "annotations": self._annotations()}
            truth.createIndex()
            found = COCO()
            found.dataset = {**truth.dataset, "annotations": self._detections(answered)}
            found.createIndex()
            counted = COCOeval(truth, found, "bbox")
            counted.params.imgIds = images
            counted.params.catIds = sorted(self.categories.values())
            counted.evaluate()
            counted.accumulate()
            counted.summarize()
        return counted

    def _annotations(self) -> List[Dict[str, Any]]:
        """The true boxes with the keys that older files leave out; those of other categories do not count."""
        kept = []
        for number, one in enumerate(self.content["annotations"], 1):
            *_, width, height = one["bbox"]
            facts = {"id": number, "area": one.get("area", width * height), "iscrowd": int(bool(one.get("iscrowd")))}
            kept.append({"image_id": one["image_id"], "category_id": one["category_id"], "bbox": one["bbox"], **facts})
        return kept

    def _detections(self, answered: Sequence[Tuple[Example, Finding]]) -> List[Dict[str, Any]]:
        found: List[Dict[str, Any]] = []
        for example, finding in answered:
            for index, score, x0, y0, x1, y1 in finding["boxes"]:
                if index in self.categories:
                    facts = {"image_id": example.truth["image"], "category_id": self.categories[index], "iscrowd": 0}
                    box = {"bbox": [x0, y0, x1 - x0, y1 - y0], "area": (x1 - x0) * (y1 - y0), "score": score}
                    found.append({"id": len(found) + 1, **facts, **box})
        return found

    def problem(self, example: Example, finding: Finding) -> Optional[str]:
        """Every answer can be compared."""
        return None

    def fault(self, example: Example, finding: Finding) -> Optional[Fault]:
        """The more boxes an answer misses, or finds by mistake, at a score of SURE, the worse it is."""
        truths = [truth for truth in example.truth["boxes"] if not truth["crowd"]]
        free = list(range(len(truths)))
        extra: List[str] = []
        for index, score, *corners in finding["boxes"]:
            if score < SURE or index not in self.names:
                continue
            boxes = np.asarray([truths[place]["box"] for place in free], np.float64).reshape(-1, 4)
            overlaps = intersection_over_union(np.asarray(corners), boxes) if free else np.zeros(0)
            overlaps = overlaps * [truths[place]["index"] == index for place in free]
            if len(free) and overlaps.max() >= _SAME:
                free.pop(int(overlaps.argmax()))
            elif not self._in_crowd(example, index, corners):
                extra.append(f"{self.names[index]} ({score:.2f})")
        if not free and not extra:
            return None
        missed = [self.names[truths[place]["index"]] for place in free]
        told = f"missed: {', '.join(missed) or 'nothing'}", f"too many: {', '.join(extra) or 'nothing'}"
        return Fault(float(len(missed) + len(extra)), *told)

    def _in_crowd(self, example: Example, index: int, corners: Sequence[float]) -> bool:
        """Whether most of a box is inside a crowd of its class, whose members are not annotated one by one."""
        x0, y0, x1, y1 = corners
        for truth in example.truth["boxes"]:
            if truth["crowd"] and truth["index"] == index:
                a0, b0, a1, b1 = truth["box"]
                common = max(0.0, min(x1, a1) - max(x0, a0)) * max(0.0, min(y1, b1) - max(y0, b0))
                if common >= _SAME * (x1 - x0) * (y1 - y0):
                    return True
        return False

    def drawn(self, example: Example, finding: Finding) -> Optional[Mapping[str, Any]]:
        """The picture with the true boxes, and with those that were found."""
        from armnet.page.pictures import SIDE, picture_of

        picture = picture_of(example.value)
        if picture is None:
            return None
        before = picture.width
        picture.thumbnail((SIDE, SIDE))  # lines and letters are drawn as large as they will be seen
        scale = picture.width / before
        true = [self._box(one["index"], 1.0, one["box"], scale) for one in example.truth["boxes"]]
        found = [self._box(index, score, box, scale) for index, score, *box in finding["boxes"] if score >= SURE]
        return {"truth": Boxes(true).draw(picture), "answer": Boxes(found).draw(picture)}

    def _box(self, index: int, score: float, corners: Sequence[float], scale: float) -> Box:
        x0, y0, x1, y1 = (edge * scale for edge in corners)
        label = self.names.get(index) or called(label_of(index, self.labels), index)
        return Box(label, index, score, (x0, y0, x1, y1))


def _mean(values: Any) -> Optional[float]:
    known = values[values > -1]
    return float(known.mean()) if known.size else None
