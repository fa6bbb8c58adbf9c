"""SSD and its kin with the boxes already chosen: TFLite_Detection_PostProcess, TensorFlow's detection models, and
models that give boxes, labels and scores.

Parameters: ``order`` says which edge comes first, "yxyx" (TensorFlow) or "xyxy"; ``units``, whether edges are fractions
of the input ("fractions") or its pixels ("pixels"); ``first``, the number in the output of the first labelled class.
Outputs: boxes (1, n, 4), classes (1, n), scores (1, n), and perhaps count (1).
"""

from __future__ import annotations

from typing import Dict, Optional

import numpy as np

from runtime_arm.results.boxes import Boxes, Found
from runtime_arm.results.decoder import Decoder, Outputs, Parameters, Setting
from runtime_arm.results.facts import Facts
from runtime_arm.results.result import Result

_ROLES = ("boxes", "classes", "scores", "count")
_TENSORFLOW = ("detection_boxes", "detection_classes", "detection_scores", "num_detections")
THRESHOLD = 0.5


def decode(outputs: Outputs, setting: Setting) -> Result:
    """The boxes that the net chose."""
    corners = setting.output(outputs, "boxes").reshape(-1, 4).astype(np.float64)
    scores = setting.output(outputs, "scores").reshape(-1).astype(np.float64)
    classes = np.nan_to_num(setting.output(outputs, "classes").reshape(-1).astype(np.float64)).round().astype(np.int64)
    count = len(scores)
    if "count" in (setting.parameters.get("outputs") or {}):
        count = int(np.clip(np.nan_to_num(setting.output(outputs, "count").reshape(-1)[0]), 0, count))
    if setting.parameters.get("order", "yxyx") == "yxyx":
        corners = corners[:, [1, 0, 3, 2]]
    if setting.parameters.get("units", "fractions") == "fractions":
        corners = setting.frame.fractions(corners)
    found = Found(corners, scores, classes - int(setting.number("first", 0))).at(np.arange(count))
    return Boxes(found.above(setting.least(THRESHOLD)).boxes(setting.frame, setting.labels))


def recognise(facts: Facts) -> Optional[Parameters]:
    """The operator DetectionPostProcess, or TensorFlow's names, or the outputs boxes, labels and scores."""
    if len(facts.pictures) != 1:
        return None
    last = next((op for op in reversed(facts.net.op) if op.type == "DetectionPostProcess"), None)
    if last is not None:
        outputs = _behind(facts, tuple(last.output))
        count = last.get_int("num_classes", 0) if hasattr(last, "get_int") else 0
        return {"outputs": outputs, **({"classes": count} if count else {})} if "boxes" in outputs else None
    named = facts.named(*_TENSORFLOW)
    if named is not None:
        return {"outputs": dict(zip(_ROLES, named.values())), "first": 1}
    return None


def _behind(facts: Facts, blobs: object) -> Dict[str, str]:
    """The outputs, by role, that are these blobs of the operator, perhaps under another name."""
    assert isinstance(blobs, tuple)
    found = {}
    for output in facts.outputs:
        blob = output.name
        writer = facts.writer(blob)
        while blob not in blobs and writer is not None and writer.input:
            blob = writer.input[0]
            writer = facts.writer(blob)
        if blob in blobs:
            found[_ROLES[blobs.index(blob)]] = output.name
    return found


DECODER = Decoder("boxes", decode, recognise, {"channels": "RGB"}, classes=True)
