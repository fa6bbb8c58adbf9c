"""Nets that draw a map of heat for every point: the hottest place is where the point is.

Output: heat (1, points, rows, columns), or with the points last; perhaps offsets of as many rows and columns and twice
as many channels, y before x, in pixels of the input (PoseNet). Parameters: ``last``, whether the points come last;
``logits``, whether heat goes through a sigmoid; ``points``, their names.
"""

from __future__ import annotations

from typing import Optional

import numpy as np

from runtime_arm.errors import UsageError
from runtime_arm.results.decoder import Decoder, Outputs, Parameters, Setting, sigmoid
from runtime_arm.results.facts import Facts
from runtime_arm.results.keypoints import BODY, Keypoint, Keypoints
from runtime_arm.results.result import Result


def decode(outputs: Outputs, setting: Setting) -> Result:
    """The hottest place of each map, moved a quarter of a cell to the side that is hotter, or by the offsets."""
    heat = _first(setting, outputs, "heat")
    count, rows, columns = heat.shape
    if min(heat.shape) < 1:
        raise UsageError(f"the net gives heat of shape {heat.shape}; there is no point")
    best = heat.reshape(count, -1).argmax(axis=1)
    y, x = np.unravel_index(best, (rows, columns))
    score = heat[np.arange(count), y, x]
    frame = setting.frame
    if "offsets" in (setting.parameters.get("outputs") or {}):
        offsets = _first(setting, outputs, "offsets")
        each = np.arange(count)
        step = (frame.input_height / max(rows - 1, 1), frame.input_width / max(columns - 1, 1))
        places = np.stack([x * step[1] + offsets[each + count, y, x], y * step[0] + offsets[each, y, x]], axis=-1)
    else:
        moved = np.stack([x + _lean(heat, y, x, 0, 1), y + _lean(heat, y, x, 1, 0)], axis=-1) + 0.5
        places = moved * (frame.input_width / columns, frame.input_height / rows)
    if setting.parameters.get("logits"):
        score = sigmoid(score)
    named = zip(_names(setting, count), frame.points(places), score)
    return Keypoints([Keypoint(name, (float(px), float(py)), float(s)) for name, (px, py), s in named])


def _first(setting: Setting, outputs: Outputs, role: str) -> np.ndarray:
    """An output as (channels, rows, columns)."""
    array = setting.output(outputs, role).astype(np.float64)
    if array.ndim != 3:
        raise UsageError(f"the output that holds {role} must have 4 dimensions, it has {array.ndim + 1}")
    return array.transpose(2, 0, 1) if setting.parameters.get("last") else array


def _lean(heat: np.ndarray, y: np.ndarray, x: np.ndarray, down: int, right: int) -> np.ndarray:
    """A quarter of a cell towards the hotter neighbour along one axis."""
    rows, columns = heat.shape[1:]
    each = np.arange(len(heat))
    after = heat[each, np.minimum(y + down, rows - 1), np.minimum(x + right, columns - 1)]
    before = heat[each, np.maximum(y - down, 0), np.maximum(x - right, 0)]
    return np.asarray(np.sign(after - before) * 0.25)


def _names(setting: Setting, count: int) -> tuple[str, ...]:
    given = setting.parameters.get("points") or setting.labels or (BODY if count == len(BODY) else ())
    names = tuple(map(str, given)) if isinstance(given, (list, tuple)) else ()
    return names if len(names) == count else tuple(f"point {i}" for i in range(count))


def recognise(facts: Facts) -> Optional[Parameters]:
    """PoseNet's names, or an only output that is called heat map and is smaller than the picture."""
    if facts.picture is None:
        return None
    last = facts.picture.layout == "NHWC"
    posenet = facts.named("float_heatmaps", "float_short_offsets")
    if posenet is not None:
        roles = dict(zip(("heat", "offsets"), posenet.values()))
        return {"outputs": roles, "last": True, "logits": True}
    if len(facts.outputs) != 1 or not facts.outputs[0].fits(None, None, None):
        return None
    output = facts.outputs[0]
    called = output.name.lower().replace("_", "").replace("-", "")
    if "heatmap" not in called:
        return None
    return {"outputs": {"heat": output.name}, "last": last}


DECODER = Decoder("keypoints", decode, recognise, {"channels": "RGB"})
