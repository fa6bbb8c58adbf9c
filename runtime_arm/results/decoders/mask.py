"""Nets that classify every pixel, such as DeepLab.

Output: scores (1, classes, rows, columns), or with the classes last; one score per pixel separates foreground from
background; integers are the classes themselves. Parameters: ``last``, whether classes come last; ``scores``, of one
score a pixel: "probabilities" or "logits"; ``names`` of background and foreground; ``indices``, whether the output
holds classes.
"""

from __future__ import annotations

from typing import Optional

import numpy as np

from runtime_arm.errors import UsageError
from runtime_arm.netdef import Array
from runtime_arm.results.decoder import Decoder, Outputs, Parameters, Setting, sigmoid
from runtime_arm.results.decoders.classes import SIGMOIDS, SOFTMAXES
from runtime_arm.results.facts import Facts
from runtime_arm.results.mask import Mask
from runtime_arm.results.resampling import nearest, sampled
from runtime_arm.results.result import Result

MOST = 256  # classes
_FOREGROUND = ("background", "foreground")


def decode(outputs: Outputs, setting: Setting) -> Result:
    """The class of every pixel of the original picture."""
    scores = setting.output(outputs, "scores")
    if setting.parameters.get("indices"):
        plane = np.squeeze(scores)
        if plane.ndim != 2:
            raise UsageError(f"a mask is one class a pixel; the output's shape is {plane.shape}")
        return Mask(
            np.clip(nearest(plane, *setting.frame.grid(*plane.shape)), 0, None).astype(np.int32), setting.labels
        )
    if scores.ndim == 2:
        scores = scores[None]
    elif scores.ndim != 3:
        raise UsageError(f"the output that holds the scores must have 4 dimensions, it has {scores.ndim + 1}")
    elif setting.parameters.get("last"):
        scores = scores.transpose(2, 0, 1)
    if len(scores) == 1:
        return _foreground(scores[0], setting)
    return Mask(_best_class(scores, *setting.frame.grid(*scores.shape[1:])), setting.labels)


def _foreground(plane: Array, setting: Setting) -> Mask:
    plane = plane.astype(np.float32)
    if setting.parameters.get("scores") == "logits":
        plane = sigmoid(plane).astype(np.float32)
    probability = sampled(plane, *setting.frame.grid(*plane.shape))
    classes = (probability >= setting.least(0.5)).astype(np.uint8)
    return Mask(classes, setting.labels or setting.parameters.get("names") or _FOREGROUND, probability)


def _best_class(scores: Array, y: Array, x: Array) -> Array:
    """The class of the largest score at every place, scores in between interpolated. scores: (classes, H, W)."""
    best = sampled(scores[0].astype(np.float32), y, x)
    found = np.zeros(best.shape, np.uint8 if len(scores) <= MOST else np.int32)
    for index in range(1, len(scores)):
        plane = sampled(scores[index].astype(np.float32), y, x)
        better = plane > best
        found[better] = index
        np.maximum(best, plane, out=best)
    return found


def recognise(facts: Facts) -> Optional[Parameters]:
    """One output of the picture's size: softmax over classes, five or more classes, a sigmoid, or ArgMax."""
    if facts.picture is None or facts.picture.channels != 3 or len(facts.outputs) != 1:
        return None
    output, picture = facts.outputs[0], facts.picture
    size = (picture.height, picture.width)
    if output.shape is None or None in size:
        return None
    found: Parameters = {"outputs": {"scores": output.name}}
    if output.made_by in ("ArgMax", "QuantizedArgMax") and output.dims == size:
        return {**found, "indices": True}
    if len(output.shape) != 4:
        return None
    last = output.shape[1:3] == size
    if not last and output.shape[2:] != size:
        return None
    count = output.shape[3] if last else output.shape[1]
    if count == 1 and output.made_by in SIGMOIDS:
        named = {"names": ["background", "person"]} if "selfie" in facts.net.name.lower() else {}
        return {**found, "last": last, "classes": 2, **named}
    several = count is not None and 2 <= count <= MOST
    if several and (output.made_by in SOFTMAXES or (count or 0) >= 5 or count == facts.labels):
        return {**found, "last": last, "classes": count}
    return None


DECODER = Decoder("mask", decode, recognise, classes=True)
