"""Counts masks: the mean over classes of intersection over union."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from armnet.evaluation.example import Example, Fault, Finding, Scores
from armnet.evaluation.findings import unpacked
from runtime_arm.errors import FeedError, MissingDependency, first_line
from runtime_arm.files import AnyPath
from runtime_arm.netdef import Array
from runtime_arm.results.mask import Mask
from runtime_arm.results.result import called, label_of

IGNORED = 255  # pixels that do not count, such as the edges of things in PASCAL VOC
_WRONG = 0.9  # an answer below this intersection over union is listed


class MaskMeasure:
    """Counts pixels. two_classes: 255 stands for class 1 and not for pixels that do not count."""

    kinds: Tuple[str, ...] = ("mask",)
    threshold: Optional[float] = None

    def __init__(self, labels: Optional[Sequence[str]], two_classes: bool):
        self.labels, self.two_classes = labels, two_classes

    def truth(self, example: Example) -> Array:
        """The true class of each pixel, (H, W), IGNORED where it does not count."""
        values = read_mask(example.truth)
        return np.asarray((values > 0).astype(np.uint16) if self.two_classes else values.astype(np.uint16))

    def counts(self, example: Example, finding: Finding) -> Array:
        """For each true class, how many pixels are assigned to each class, (n, n)."""
        truth, said = self.truth(example), unpacked(finding)
        if truth.shape != said.shape:
            sizes = ["x".join(map(str, reversed(array.shape))) for array in (truth, said)]
            raise FeedError(f"{example.truth}: the mask has {sizes[0]} pixels, the picture {sizes[1]}")
        counted = np.ones(truth.shape, bool) if self.two_classes else truth != IGNORED
        most = int(max(truth[counted].max(initial=0), said.max(initial=0))) + 1
        pairs = truth[counted].astype(np.int64) * most + said[counted]
        return np.bincount(pairs, minlength=most * most).reshape(most, most)

    def scores(self, answered: Sequence[Tuple[Example, Finding]]) -> Scores:
        """miou over the classes that occur in the masks, and pixel_accuracy; for each class its intersection over
        union.
        """
        total = np.zeros((1, 1), np.int64)
        for example, finding in answered:
            one = self.counts(example, finding)
            size = max(len(total), len(one))
            total, one = (np.pad(counts, (0, size - len(counts))) for counts in (total, one))
            total = total + one
        right, true, said = np.diag(total), total.sum(axis=1), total.sum(axis=0)
        union = true + said - right
        occurring = np.flatnonzero(true)
        rows: List[Dict[str, Any]] = [
            {"class": self.name(int(n)), "iou": float(right[n] / union[n]), "pixels": int(true[n])}
            for n in np.flatnonzero(union)
        ]
        miou = float(np.mean(right[occurring] / union[occurring])) if len(occurring) else 0.0
        return Scores({"miou": miou, "pixel_accuracy": float(right.sum() / max(total.sum(), 1))}, rows)

    def problem(self, example: Example, finding: Finding) -> Optional[str]:
        """The mask cannot be read, or is not of the picture's size."""
        try:
            self.counts(example, finding)
        except FeedError as error:
            return str(error)
        return None

    def fault(self, example: Example, finding: Finding) -> Optional[Fault]:
        """A mask is wrong if its mean intersection over union is below 0.9; the lower, the worse."""
        metrics = self.scores([(example, finding)]).metrics
        if metrics["miou"] >= _WRONG:
            return None
        truth = [self.name(int(number)) for number in np.unique(self.truth(example)) if number != IGNORED]
        said = [self.name(int(number)) for number in np.unique(unpacked(finding))]
        return Fault(1 - metrics["miou"], ", ".join(truth), f"{', '.join(said)}; mIoU {metrics['miou']:.2f}")

    def drawn(self, example: Example, finding: Finding) -> Optional[Mapping[str, Any]]:
        """The picture under the true mask, and under the answer."""
        from armnet.page.pictures import picture_of

        picture = picture_of(example.value)
        if picture is None:
            return None
        truth = self.truth(example)
        shown = np.where(truth == IGNORED, 0, truth) if not self.two_classes else truth
        masks = {"truth": shown, "answer": unpacked(finding)}
        return {name: Mask(classes.astype(np.int32), self.labels).draw(picture) for name, classes in masks.items()}

    def name(self, number: int) -> str:
        """What a class is called."""
        return called(label_of(number, self.labels), number)


def read_mask(path: AnyPath) -> Array:
    """The numbers (H, W) that a mask holds, of a picture with a palette or in grey. FeedError if it is neither."""
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingDependency(f"{path}: masks need Pillow: pip install 'armnet[image]'") from error
    try:
        with Image.open(path) as image:
            mode, values = image.mode, np.asarray(image)
    except Exception as error:  # decoders raise anything for a broken file
        raise FeedError(f"{path}: cannot be read as a mask: {first_line(error)}") from error
    if mode == "1":
        return np.where(values, IGNORED, 0).astype(np.uint8)
    if mode not in ("P", "L", "I;16", "I"):
        raise FeedError(
            f"{path}: a mask holds the number of a class in each pixel, with a palette or in grey, not {mode}"
        )
    return values
