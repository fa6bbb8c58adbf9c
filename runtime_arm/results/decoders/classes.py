"""Classifiers: one score per class.

Parameters: ``scores`` says what the numbers are: "probabilities", "softmax" (logits that softmax turns into
probabilities), "logits" (shown as they are), "independent" (probabilities of classes that do not exclude each other),
"sigmoid" (logits of such classes).
"""

from __future__ import annotations

from typing import Optional

import numpy as np

from runtime_arm.errors import UsageError
from runtime_arm.netdef import Array
from runtime_arm.results.classes import Classes
from runtime_arm.results.decoder import Decoder, Outputs, Parameters, Setting, probabilities, sigmoid
from runtime_arm.results.facts import Facts
from runtime_arm.results.result import Result

MEANINGS = ("probabilities", "softmax", "logits", "independent", "sigmoid")
IMAGENET = (1000, 1001)
SOFTMAXES = ("Softmax", "QuantizedSoftmax", "QLinearSoftmax", "Int8Softmax", "SoftmaxWithLoss")
SIGMOIDS = ("Sigmoid", "Logistic", "QuantizedLogistic", "QLinearSigmoid", "HardSigmoid")
_DIGITS = ((28, 28), (32, 32), (8, 8))


def decode(outputs: Outputs, setting: Setting) -> Result:
    """The scores, as the parameter ``scores`` says."""
    scores = setting.output(outputs, "scores").reshape(-1)
    meaning = setting.parameters.get("scores", "logits")
    if meaning not in MEANINGS:
        raise UsageError(f"the result's parameter 'scores' must be one of {', '.join(MEANINGS)}, got {meaning!r}")
    told = {"softmax": "probabilities", "sigmoid": "independent"}.get(meaning, meaning)
    return Classes(as_probabilities(scores, meaning), setting.labels, told, setting.top)


def as_probabilities(scores: Array, meaning: str) -> Array:
    """Scores through the function that ``meaning`` names."""
    return np.asarray({"softmax": probabilities, "sigmoid": sigmoid}.get(meaning, np.asarray)(scores))


def recognise(facts: Facts) -> Optional[Parameters]:
    """A single vector that ends in softmax, or has as many numbers as there are labels or ImageNet's classes."""
    if len(facts.outputs) != 1 or len(facts.inputs) != 1:
        return None
    output = facts.outputs[0]
    count = classes_of(output.shape)
    if count is None or not _has_batch(output.shape, facts):
        return None
    found = {"classes": count, "outputs": {"scores": output.name}}
    if output.made_by in SOFTMAXES:
        return {**found, "scores": "probabilities"}
    if facts.picture is None:
        return {**found, "scores": "logits"} if count == facts.labels else None
    if output.made_by in SIGMOIDS:
        return {**found, "scores": "independent"} if count == facts.labels else None
    digits = count == 10 and facts.picture.channels == 1 and (facts.picture.height, facts.picture.width) in _DIGITS
    told = facts.properties.get("task") == "classify" or count == facts.labels
    return {**found, "scores": "softmax"} if count in IMAGENET or digits or told else None


def classes_of(shape: Optional[object]) -> Optional[int]:
    """The number of classes if an output of this shape is one vector a batch item, else None."""
    if not isinstance(shape, tuple) or len(shape) not in (2, 3, 4):
        return None
    inner = [size for size in shape[1:] if size != 1]
    return inner[0] if len(inner) == 1 and isinstance(inner[0], int) and inner[0] >= 2 else None


def _has_batch(shape: Optional[object], facts: Facts) -> bool:
    """Whether the output's first size is that of the input's batch."""
    given = facts.inputs[0].shape
    first = shape[0] if isinstance(shape, tuple) else None
    return first is None or given is None or not given or not isinstance(given[0], int) or given[0] == first


DECODER = Decoder("classes", decode, recognise, classes=True)
