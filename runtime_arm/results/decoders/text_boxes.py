"""PP-OCR's detector of writing (DB, Liao et al., 2020): a map of how likely each pixel is part of a line.

Output: (1, 1, rows, columns). The regions of the map become slanted boxes, made larger, because the map shows the
middle of each line alone. Source: PaddleOCR, ppocr/postprocess/db_postprocess.py.
"""

from __future__ import annotations

from typing import Optional

import numpy as np

from runtime_arm.results.boxes import Found, TextBoxes
from runtime_arm.results.decoder import Decoder, Outputs, Parameters, Setting
from runtime_arm.results.facts import Facts
from runtime_arm.results.regions import Region, regions_of, smallest_rectangle
from runtime_arm.results.result import Result

_MAP, _BOX, _GROWTH = 0.3, 0.5, 1.6  # the least value of a line's pixels, of their mean; how much a box grows
_SHORTEST, _MOST = 3.0, 1000  # pixels of a box's shorter side; regions
_MEAN, _STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def decode(outputs: Outputs, setting: Setting) -> Result:
    """Lines of writing with their four corners, from the upper left one clockwise."""
    plane = setting.output(outputs, "map").astype(np.float64)
    plane = plane.reshape(plane.shape[-2:])
    least = setting.least(_BOX)
    corners, scores = [], []
    for region in regions_of(plane >= setting.number("map", _MAP))[:_MOST]:
        score = region.mean(plane)
        corner = _corners(region, setting.number("growth", _GROWTH)) if score >= least else None
        if corner is not None:
            corners.append(corner)
            scores.append(score)
    scale = np.asarray([setting.frame.input_width / plane.shape[1], setting.frame.input_height / plane.shape[0]])
    points = np.asarray(corners, np.float64).reshape(-1, 4, 2) * scale
    boxes = np.concatenate([points.min(axis=1), points.max(axis=1)], axis=1)
    found = Found(boxes, np.asarray(scores), np.zeros(len(scores), np.int64), points)
    return TextBoxes(found.boxes(setting.frame, ("text",)))


def _corners(region: Region, growth: float) -> Optional[np.ndarray]:
    """The corners (4, 2) of a region's slanted box, grown on every side by growth * area / perimeter."""
    corners = smallest_rectangle(region.outline())
    sides = [float(np.linalg.norm(corners[i] - corners[i + 1])) for i in (0, 1)]
    if min(sides) < _SHORTEST:
        return None
    grown = growth * sides[0] * sides[1] / (2 * sum(sides))
    along, across = ((corners[i + 1] - corners[i]) / sides[i] * grown for i in (0, 1))
    return np.asarray(corners + np.asarray([-along - across, along - across, along + across, across - along]))


def recognise(facts: Facts) -> Optional[Parameters]:
    """PaddlePaddle made it, and it ends in two transposed convolutions and a sigmoid over one channel."""
    if facts.picture is None or len(facts.outputs) != 1 or facts.picture.channels != 3:
        return None
    output = facts.outputs[0]
    paddle = "paddle" in f"{facts.net.name} {facts.properties.get('producer', '')}".lower()
    types = [op.type for op in facts.chain(output.name)]
    head = output.made_by == "Sigmoid" and types[:1] == ["Sigmoid"] and types.count("ConvTranspose") >= 2
    return {"outputs": {"map": output.name}} if paddle and head and output.fits(1, None, None) else None


DECODER = Decoder(
    "boxes",
    decode,
    recognise,
    {"channels": "BGR", "scale": 1 / 255, "mean": _MEAN, "std": _STD, "multiple": 32, "longest": 960},
)
