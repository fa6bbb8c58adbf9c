"""Tries the usual mistakes in preprocessing, for a net that computes correctly but answers wrongly, on a picture with a
known label.

It varies the channels, the range of the values, how a picture gets its size, and, if the net leaves its sizes open, the
order of the dimensions.
"""

from __future__ import annotations

from itertools import product
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from runtime_arm.app.model import Model
from runtime_arm.app.rules import PRESETS, VALUES, channels_for, layout_for, size_for
from runtime_arm.errors import ArmnetError, ResultError, UsageError, there_are
from runtime_arm.results.boxes import Boxes
from runtime_arm.results.classes import Classes

_RANGES = ("0..255", "0..1", "-1..1", "imagenet", "caffe")
_FITS = ("stretch", "letterbox", "crop")
_NUMBERS = ("scale", "mean", "std")


class Trial(NamedTuple):
    """One way to prepare the picture. changes: the differences from the present way, in words; found: the net's answer;
    score: the score of the right label; right: whether the answer is right; rule: the preprocessing.
    """

    changes: Tuple[str, ...]
    found: str
    score: float
    right: bool
    rule: Dict[str, Any]


class PreprocessingTrials(NamedTuple):
    """The present way and all others. Right ones come first, and among these the ones with the fewest changes."""

    present: Trial
    others: List[Trial]

    @property
    def fix(self) -> Optional[Trial]:
        """The change that would make the answer right, if the present one is wrong."""
        right = not self.present.right and self.others and self.others[0].right
        return self.others[0] if right else None


def try_preprocessings(model: Model, picture: Any, label: str) -> PreprocessingTrials:
    """Answers for a picture, with every preprocessing that people confuse with the right one.

    label: the name or the number of the class that the answer should have. UsageError if there is no such class, or if
    the net's results have no classes.
    """
    index = _index(model, label)
    present = _tried(model, picture, index, (), dict(model.rule))
    if present is None:
        raise UsageError(f"the net's result is of kind {model.decoder.kind!r}, which has no label to be right or wrong")
    own, others = dict(model.rule), []
    try:
        for changes, rule in _ways(model, own):
            found = _tried(model, picture, index, changes, rule)
            if found is not None:
                others.append(found)
    finally:
        model.rule = own
    return PreprocessingTrials(present, sorted(others, key=lambda one: (not one.right, len(one.changes), -one.score)))


def _index(model: Model, label: str) -> int:
    labels = [name.lower() for name in model.labels or ()]
    if label.lower() in labels:
        return labels.index(label.lower())
    parts = [at for at, name in enumerate(labels) if label.lower() in [part.strip() for part in name.split(",")]]
    if len(parts) == 1:
        return parts[0]
    if label.isdigit():
        return int(label)
    known = there_are(label, model.labels or ())
    raise UsageError(f"no class is called {label!r}; there are {known}" if labels else "give --labels, or a number")


def _ways(model: Model, own: Dict[str, Any]) -> Iterator[Tuple[Tuple[str, ...], Dict[str, Any]]]:
    """The changes, in words, and the rule, for every way but the present one."""
    shape = None if model.input is None else model.input.shape
    layout = layout_for(own, shape)
    present = channels_for(own, shape, layout)
    grey = present == "GRAY"
    whole = None not in size_for(shape, layout) and "resize" not in own and "crop" not in own
    layouts = [None, *(other for other in ("NCHW", "NHWC") if shape is None and other != layout)]
    channels = [None] if grey else [None, "BGR" if present == "RGB" else "RGB"]
    fits = [None, *(fit for fit in _FITS if fit != own.get("fit", "stretch"))] if whole else [None]
    for order, values, fit, place in product(channels, (None, *_RANGES), fits, layouts):
        rule, changes = dict(own), []
        if values is not None:
            numbers = {key: value for key, value in PRESETS[values].items() if key in _NUMBERS}
            if grey and any(isinstance(value, list) for value in numbers.values()):
                continue
            if numbers == {key: own[key] for key in _NUMBERS if key in own}:
                continue
            rule = {**{key: value for key, value in rule.items() if key not in _NUMBERS}, **numbers}
            changes.append(f"values {values}" if values[0] in "-0" else f"mean and std of {values}")
        if order is not None:
            changes.append(f"{order} instead of {present}")
            rule["channels"] = order
        if fit is not None:
            changes.append({"crop": "cropped", "letterbox": "letterboxed", "stretch": "stretched"}[fit])
            rule["fit"] = fit
        if place is not None:
            changes.append(f"{place} instead of {layout}")
            rule["layout"] = place
        if changes:
            yield tuple(changes), rule


def _tried(model: Model, picture: Any, index: int, changes: Tuple[str, ...], rule: Dict[str, Any]) -> Optional[Trial]:
    """The answer under this rule; None for a result without classes, or if the net refuses the input."""
    model.rule = rule
    try:
        (answer,) = model.answers(picture)
    except ResultError:  # NaN: not the way
        return Trial(changes, "no numbers", 0.0, False, rule)
    except ArmnetError:
        if not changes:
            raise
        return None
    result = answer.result
    if isinstance(result, Classes):
        if index >= len(result.scores):
            raise UsageError(f"no class {index}; the net has {len(result.scores)}")
        best = result.best(1)[0]
        return Trial(
            changes, best.label or f"class {best.index}", float(result.scores[index]), best.index == index, rule
        )
    if isinstance(result, Boxes):
        score = max((box.score for box in result if box.index == index), default=0.0)
        first = result[0].label or f"class {result[0].index}" if len(result) else "nothing"
        return Trial(changes, first, score, bool(len(result)) and result[0].index == index, rule)
    return None


def as_option(rule: Dict[str, Any], own: Dict[str, Any]) -> Dict[str, Any]:
    """What to give as --preprocessing to get this rule: its values, and what else differs from the present one."""
    return {key: value for key, value in rule.items() if key in VALUES or own.get(key) != value}
