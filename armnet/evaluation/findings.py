"""Findings: what is kept of an answer, as plain JSON, and when two answers to one input differ.

classes       {"top": [[number, score], ...]}                 the best five
boxes         {"boxes": [[number, score, x0, y0, x1, y1], ...]}
mask          {"shape": [height, width], "classes": packed}   see ``unpacked``
sound events  {"events": [[number, start, end, score], ...]}
text          {"text": line}
all           {"error": message}                              an input that could not be answered
"""

from __future__ import annotations

import base64
import zlib
from typing import Any, Callable, Dict, List, Sequence

import numpy as np

from armnet.evaluation.example import Finding
from runtime_arm.errors import UsageError
from runtime_arm.netdef import Array
from runtime_arm.results.nms import intersection_over_union
from runtime_arm.results.result import Result

KEPT = 5  # classes
MOST_BOXES = 300
SURE = 0.5  # the score of a box that the other answer must have, too
_SAME_BOX = 0.9  # intersection over union
_NEARLY = 0.1  # by which the score of the other's box may be lower
_SAME_MASK = 0.01  # the share of pixels that may differ


def finding_of(result: Result) -> Finding:
    """What is kept of a result. UsageError for results that have nothing to count."""
    if result.kind not in _KEEPERS:
        raise UsageError(
            f"the answers are of the kind {result.kind!r}, which cannot be evaluated; there are {', '.join(_KEEPERS)}; "
            "--task says what the outputs mean"
        )
    return _KEEPERS[result.kind](result)


def _classes(result: Any) -> Finding:
    return {"top": [[one.index, round(one.score, 6)] for one in result.best(KEPT)]}


def _boxes(result: Any) -> Finding:
    kept = [[b.index, round(b.score, 6), *(round(edge, 3) for edge in b.box)] for b in result.boxes[:MOST_BOXES]]
    return {"boxes": kept}


def _mask(result: Any) -> Finding:
    classes = np.ascontiguousarray(result.classes, np.uint16)
    return {"shape": list(classes.shape), "classes": base64.b64encode(zlib.compress(classes.tobytes())).decode()}


def _events(result: Any) -> Finding:
    return {"events": [[one.index, round(one.start, 3), round(one.end, 3), round(one.score, 6)] for one in result]}


def _text(result: Any) -> Finding:
    return {"text": result.text}


_KEEPERS: Dict[str, Callable[[Any], Finding]] = {
    "classes": _classes,
    "boxes": _boxes,
    "mask": _mask,
    "sound events": _events,
    "text": _text,
}


def unpacked(finding: Finding) -> Array:
    """The class of every pixel, (height, width), that a finding holds."""
    content = zlib.decompress(base64.b64decode(finding["classes"]))
    return np.asarray(np.frombuffer(content, np.uint16).reshape(finding["shape"]))


def differ(one: Finding, other: Finding) -> bool:
    """Whether two answers to one input differ.

    Classes: in the best one. Boxes: one answer has a box of SURE that the other lacks. Masks: in the class of more than
    one pixel in a hundred. Sounds: in what is heard.
    """
    if set(one) != set(other):
        return True
    if "top" in one:
        return bool(one["top"][0][0] != other["top"][0][0])
    if "boxes" in one:
        return not (_all_in(one["boxes"], other["boxes"]) and _all_in(other["boxes"], one["boxes"]))
    if "shape" in one:
        return bool(one["shape"] != other["shape"] or np.mean(unpacked(one) != unpacked(other)) > _SAME_MASK)
    if "events" in one:
        return [event[0] for event in one["events"]] != [event[0] for event in other["events"]]
    return one != other


def _all_in(boxes: Sequence[List[float]], others: Sequence[List[float]]) -> bool:
    """Whether every box that is sure has a partner among the others."""
    for number, score, *corners in boxes:
        if score < SURE:
            continue
        partners = [box[2:] for box in others if box[0] == number and box[1] >= SURE - _NEARLY]
        if not partners or intersection_over_union(np.asarray(corners), np.asarray(partners)).max() < _SAME_BOX:
            return False
    return True
