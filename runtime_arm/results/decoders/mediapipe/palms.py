"""MediaPipe's detector of palms in pictures of 192 pixels: a BlazeFace whose pixels go from 0 to 1.

Source: MediaPipe, palm_detection_cpu.pbtxt.
"""

from __future__ import annotations

from typing import Optional

from runtime_arm.results.decoder import Decoder, Parameters
from runtime_arm.results.decoders.mediapipe.blazeface import DECODER as BLAZEFACE
from runtime_arm.results.decoders.mediapipe.blazeface import PALMS, decode, recognised
from runtime_arm.results.facts import Facts


def recognise(facts: Facts) -> Optional[Parameters]:
    """Two outputs of as many rows, and an input size, that MediaPipe publishes."""
    return recognised(facts, PALMS)


DECODER = Decoder("boxes", decode, recognise, {**(BLAZEFACE.preprocessing or {}), "mean": 0.0, "std": 255.0})
