"""MediaPipe's networks that find the points of one hand, face or body in a picture that shows little else.

Outputs: points (1, n * 3), or (1, n * 5) with visibility and presence as logits, in pixels of the input; a flag (1, 1),
how likely the picture shows one. Parameters: ``numbers`` of a point; ``logit``, whether the flag passes through a
sigmoid.
Source: MediaPipe, hand_landmark_cpu.pbtxt, face_landmark_cpu.pbtxt and pose_landmark_by_roi_cpu.pbtxt.
"""

from __future__ import annotations

from typing import Dict, Optional, Tuple

import numpy as np

from runtime_arm.errors import UsageError
from runtime_arm.results.decoder import Decoder, Outputs, Parameters, Setting, sigmoid
from runtime_arm.results.decoders.classes import SIGMOIDS
from runtime_arm.results.facts import Facts
from runtime_arm.results.keypoints import Keypoint, Keypoints
from runtime_arm.results.result import Result

_FINGERS = ("index finger", "middle finger", "ring finger", "little finger")
_JOINTS = [f"{finger} {joint}" for finger in _FINGERS for joint in ("mcp", "pip", "dip", "tip")]
HAND = ("wrist", "thumb cmc", "thumb mcp", "thumb ip", "thumb tip", *_JOINTS)
_EYES = [f"{side} eye{part}" for side in ("left", "right") for part in (" inner", "", " outer")]
_PARTS = ("shoulder", "elbow", "wrist", "little finger", "index finger", "thumb", "hip", "knee", "ankle", "heel", "toe")
_LIMBS = [f"{side} {part}" for part in _PARTS for side in ("left", "right")]
POSE = ("nose", *_EYES, "left ear", "right ear", "left of mouth", "right of mouth", *_LIMBS)
_HELPERS = 6  # points behind those of a body, which say where to look in the next frame of a video
NAMES: Dict[int, Tuple[str, ...]] = {len(HAND): HAND, len(POSE) + _HELPERS: POSE}


def decode(outputs: Outputs, setting: Setting) -> Result:
    """The points; one counts no more than the flag, or than its visibility."""
    raw, numbers = setting.output(outputs, "points").astype(np.float64), int(setting.number("numbers", 3))
    if numbers < 2 or raw.size % numbers or not raw.size:
        raise UsageError(f"the output that holds the points has {raw.size} numbers, which are no points of {numbers}")
    raw = raw.reshape(-1, numbers)
    flag = setting.output(outputs, "flag").reshape(-1)[:1].astype(np.float64)
    scores = np.full(len(raw), sigmoid(flag) if setting.parameters.get("logit") else flag)
    if numbers > 3:
        scores = np.minimum(scores, sigmoid(raw[:, 3]))
    names = NAMES.get(len(raw)) or [f"point {place}" for place in range(len(raw))]
    named = zip(names, setting.frame.points(raw[:, :2]), scores)
    return Keypoints([Keypoint(name, (float(x), float(y)), float(score)) for name, (x, y), score in named])


def recognise(facts: Facts) -> Optional[Parameters]:
    """The size of the picture and of every output, in MediaPipe's order."""
    if facts.picture is None or not all(output.shape for output in facts.outputs):
        return None
    size, shapes = (facts.picture.height, facts.picture.width), [output.dims for output in facts.outputs]
    numbers, logit = 3, False
    if (size, shapes) == ((224, 224), [(63,), (), (), (63,)]):
        flag = facts.outputs[1]
    elif (size, shapes) == ((256, 256), [(195,), (), (256, 256), (64, 64, 39), (117,)]):
        flag, numbers = facts.outputs[1], 5
    elif size == (192, 192) and shapes in ([(1404,), ()], [(1404,), (160,), (142,), (142,), (10,), (10,), ()]):
        flag = facts.outputs[-1]
        logit = flag.made_by not in SIGMOIDS
    else:
        return None
    roles = {"points": facts.outputs[0].name, "flag": flag.name}
    return {"outputs": roles, "numbers": numbers, "logit": logit}


DECODER = Decoder(
    "keypoints", decode, recognise, {"channels": "RGB", "mean": 0.0, "std": 255.0, "fit": "letterbox", "pad": 0}
)
