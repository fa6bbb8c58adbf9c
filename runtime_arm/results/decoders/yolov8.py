"""YOLOv8, YOLO11 and their kin without anchors: a box and the scores of classes for every cell.

Output: (1, 4 + classes + more, n), centre and size in pixels of the input, or in fractions of it (TFLite). Parameters:
``points``, how many points of (x, y, score) follow the classes (poses); ``coefficients``, how many numbers follow that
belong to masks; ``selected`` for models that select boxes themselves: (1, n, 6), corners, score and class.
"""

from __future__ import annotations

from ast import literal_eval
from typing import Optional

import numpy as np

from runtime_arm.errors import FeedError
from runtime_arm.results.boxes import Boxes, Found, Poses
from runtime_arm.results.decoder import Decoder, Outputs, Parameters, Setting, corners_of
from runtime_arm.results.decoders.yolov5 import MOST, OVERLAP, PREPROCESSING, THRESHOLD, chosen
from runtime_arm.results.facts import Facts
from runtime_arm.results.grids import cell_count
from runtime_arm.results.result import Result

STRIDES = ((8, 16, 32), (8, 16, 32, 64), (16, 32))


def decode(outputs: Outputs, setting: Setting) -> Result:
    """Boxes, with points if the model finds poses."""
    columns = setting.matrix(outputs, "boxes")
    if setting.parameters.get("selected"):
        return _selected(columns.reshape(-1, 6), setting)
    points, more = int(setting.number("points", 0)), int(setting.number("coefficients", 0))
    end = len(columns) - 3 * points - more
    if end < 5:
        raise FeedError(f"the output has {len(columns)} rows, too few for boxes and classes")
    if points:
        return _poses(columns, end, points, setting)
    return chosen(columns[:4].T, columns[4:end].T, setting)


def _selected(rows: np.ndarray, setting: Setting) -> Boxes:
    found = Found(rows[:, :4], rows[:, 4], np.nan_to_num(rows[:, 5]).astype(np.int64))
    return Boxes(found.above(setting.least(THRESHOLD)).boxes(setting.frame, setting.labels))


def _poses(columns: np.ndarray, end: int, points: int, setting: Setting) -> Boxes:
    scores = columns[4:end].T
    best = scores.argmax(axis=1)
    places = columns[end : end + 3 * points].T.reshape(-1, points, 3)[:, :, :2]
    found = Found(corners_of(columns[:2].T, columns[2:4].T), scores.max(axis=1), best, places)
    found = found.above(setting.least(THRESHOLD)).distinct(setting.number("overlap", OVERLAP), MOST)
    return Poses(found.boxes(setting.frame, setting.labels or ("person",)))


def recognise(facts: Facts) -> Optional[Parameters]:
    """One output, a column for every cell of the known strides; other columns only as the model's metadata says."""
    if facts.picture is None or not facts.outputs:
        return None
    output, task = facts.outputs[0], facts.properties.get("task", "")
    found: Parameters = {"outputs": {"boxes": output.name}}
    if task == "detect" and output.shape is not None and output.fits(None, 6) and len(facts.outputs) == 1:
        return {**found, "selected": True}
    counts = [cell_count(facts.picture.height, facts.picture.width, strides) for strides in STRIDES]
    if not output.fits(None, None) or output.shape is None or output.shape[2] is None or output.shape[2] not in counts:
        return None
    rows = output.shape[1]
    if rows is None or rows < 5 or task in ("obb", "classify"):
        return None
    if task == "pose":
        points = _number_of_points(facts.properties.get("kpt_shape", ""))
        return {**found, "points": points, "classes": rows - 4 - 3 * points} if rows > 4 + 3 * points > 4 else None
    if len(facts.outputs) == 2 and facts.outputs[1].fits(32, None, None) and rows > 36:
        return {**found, "coefficients": 32, "classes": rows - 36}
    if len(facts.outputs) > 1 and task != "detect":
        return None
    return {**found, "classes": rows - 4}


def _number_of_points(text: str) -> int:
    """17 for "[17, 3]"; 0 if the text is something else."""
    try:
        shape = literal_eval(text)
        return int(shape[0]) if shape[1] == 3 else 0
    except (ValueError, SyntaxError, TypeError, IndexError, KeyError, MemoryError, RecursionError):
        return 0


DECODER = Decoder("boxes", decode, recognise, PREPROCESSING, classes=True)
