"""Silero VAD: the probability of speech in each window of a sound, with a state from window to window.

The net takes 512 samples at 16 kHz, preceded by the last 64 samples. Inputs: input, sr, and the state (state, or h and
c); outputs: the probability and the new state. ``runtime_arm.app.sounds`` feeds it.
"""

from __future__ import annotations

from typing import List, Optional

import numpy as np

from runtime_arm.results.decoder import Decoder, Outputs, Parameters, Setting
from runtime_arm.results.facts import Facts
from runtime_arm.results.result import Result
from runtime_arm.results.sounds import SoundEvent, SoundEvents, runs_of

_STATES = ({"stateN": "state"}, {"hn": "h", "cn": "c"})
WINDOW, CONTEXT, RATE = 512, 64, 16000
_QUIET = 0.15  # speech ends where the probability falls this far below the threshold
_SHORTEST, _GAP = 0.09, 0.1  # seconds: shorter speech is none, shorter pauses belong to it


def decode(outputs: Outputs, setting: Setting) -> Result:
    """Where there is speech. outputs: one probability a window, (1, windows)."""
    scores = setting.output(outputs, "speech").reshape(-1, 1).astype(np.float64)
    step = setting.number("step", WINDOW / RATE)
    least = setting.least(0.5)
    active = np.zeros(len(scores), bool)
    speaking = False
    for place, score in enumerate(scores[:, 0]):  # a number a window
        speaking = score >= (least - _QUIET if speaking else least)
        active[place] = speaking
    return SoundEvents(_events(active, scores, step), scores, step)


def _events(active: np.ndarray, scores: np.ndarray, step: float) -> List[SoundEvent]:
    spans: List[range] = []
    for run in runs_of(active):
        if spans and (run.start - spans[-1].stop) * step < _GAP:
            run = range(spans.pop().start, run.stop)
        spans.append(run)
    return [
        SoundEvent("speech", 0, run.start * step, run.stop * step, float(scores[run.start : run.stop].max()))
        for run in spans
        if len(run) * step >= _SHORTEST
    ]


def recognise(facts: Facts) -> Optional[Parameters]:
    """The names of Silero's inputs and outputs."""
    names, outputs = {info.name for info in facts.inputs}, [output.name for output in facts.outputs]
    for states in _STATES:
        if names == {"input", "sr", *states.values()} and set(outputs) == {"output", *states}:
            context = CONTEXT if "stateN" in states else 0
            fed = {"input": "input", "state": states, "window": WINDOW, "context": context}
            return {"outputs": {"speech": "output"}, "sound": {**fed, "rate": RATE, "rate_input": "sr"}}
    return None


DECODER = Decoder("sound events", decode, recognise)
