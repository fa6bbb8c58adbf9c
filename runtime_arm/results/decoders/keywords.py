"""Nets that classify each window of a sound: words, instruments, noises.

Output: (1, classes) for a window, or (windows, classes). Parameters: ``scores`` as for classes; ``sound``, how a sound
is cut into windows (``runtime_arm.app.sounds``); ``silence``, labels that are no event.
"""

from __future__ import annotations

from typing import List, Optional

import numpy as np

from runtime_arm.results.cepstra import cepstra
from runtime_arm.results.decoder import Decoder, Outputs, Parameters, Setting, sigmoid, softmax
from runtime_arm.results.decoders.classes import SIGMOIDS, SOFTMAXES, classes_of
from runtime_arm.results.facts import Facts
from runtime_arm.results.result import Result, label_of
from runtime_arm.results.sounds import SoundEvent, SoundEvents, runs_of

RATE = 16000
_SECONDS = (0.4, 12.0)  # of sound that a window holds, at 16 kHz
_FEATURES = (49, 10, 1)  # of a second of sound
_NO_EVENT = ("silence", "_silence_", "unknown", "_unknown_", "background", "_background_noise_", "noise")


def decode(outputs: Outputs, setting: Setting) -> Result:
    """The best class of each window; equal neighbours are one event. outputs: (1, windows, classes)."""
    scores = setting.output(outputs, "scores").astype(np.float64)
    scores = scores.reshape(-1, scores.shape[-1])
    meaning = setting.parameters.get("scores", "probabilities")
    scores = {"softmax": softmax, "sigmoid": sigmoid}.get(meaning, np.asarray)(scores)
    step = setting.number("step", 1.0)
    best, least = scores.argmax(axis=1), setting.least(0.5)
    sure = scores[np.arange(len(best)), best] >= least
    events: List[SoundEvent] = []
    for index in np.unique(best[sure]):
        label = label_of(int(index), setting.labels)
        if label is not None and label.lower() in _NO_EVENT:
            continue
        for run in runs_of(sure & (best == index)):
            score = float(scores[run.start : run.stop, index].max())
            events.append(SoundEvent(label, int(index), run.start * step, run.stop * step, score))
    return SoundEvents(sorted(events, key=lambda event: event.start), scores, step)


def recognise(facts: Facts) -> Optional[Parameters]:
    """An input of as many samples as a second or so of sound has, or of the features of MLPerf Tiny's keyword spotter,
    and one softmax or sigmoid over classes."""
    if len(facts.inputs) != 1 or len(facts.outputs) != 1:
        return None
    if facts.inputs[0].shape is not None and tuple(facts.inputs[0].shape[1:]) == _FEATURES:
        return _of_features(facts)
    found = stated(facts)
    if "sound" not in found or found["scores"] == "softmax":
        return None
    window, name = found["sound"]["window"], facts.inputs[0].name.lower()
    named = any(word in name for word in ("audio", "wav", "sound", "speech", "pcm"))
    if not RATE * _SECONDS[0] <= window <= RATE * _SECONDS[1] or not (named or window % 400 == 0):
        return None
    return found


def stated(facts: Facts) -> Parameters:
    """The parameters of a net of which a user says that it hears: of its first output, and with the sound that it takes
    if its only input is a row of numbers."""
    output, made_by = facts.outputs[0], facts.outputs[0].made_by
    count = classes_of(output.shape)
    found: Parameters = {"outputs": {"scores": output.name}}
    if count is None:
        return found
    known = {**dict.fromkeys(SOFTMAXES, "probabilities"), **dict.fromkeys(SIGMOIDS, "independent")}
    found.update(classes=count, scores=known.get(made_by, "softmax"))
    info = facts.inputs[0]
    samples = [size for size in info.shape or () if isinstance(size, int) and size != 1]
    if len(facts.inputs) == len(samples) == 1 and len(info.shape or ()) <= 3 and info.dtype in ("float32", "int16"):
        (window,) = samples
        found["sound"] = {"input": info.name, "window": window, "hop": max(window // 2, 1), "rate": RATE}
    return found


def _of_features(facts: Facts) -> Optional[Parameters]:
    output = facts.outputs[0]
    count = classes_of(output.shape)
    if output.made_by not in SOFTMAXES or count is None:
        return None
    sound = {"input": facts.inputs[0].name, "window": RATE, "hop": RATE // 4, "rate": RATE, "features": {}}
    return {"outputs": {"scores": output.name}, "classes": count, "scores": "probabilities", "sound": sound}


DECODER = Decoder("sound events", decode, recognise, classes=True, features=cepstra)
