"""The decoders: one family of networks a file, each with its ``DECODER``."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Dict, List

from runtime_arm.errors import UsageError
from runtime_arm.results.decoder import Decoder

# By name; in the order in which recognisers are asked, the most particular first.
DECODERS: Dict[str, str] = {
    "detection_postprocess": "postprocessed",
    "detection_output": "detection_output",
    "yunet": "yunet",
    "ultraface": "ultraface",
    "retinaface": "retinaface",
    "blazeface": "mediapipe.blazeface",
    "palms": "mediapipe.palms",
    "landmarks": "mediapipe.landmarks",
    "mtcnn": "mtcnn",
    "ssd": "ssd",
    "fastestdet": "fastestdet",
    "yolov5": "yolov5",
    "yolov8": "yolov8",
    "yolox": "yolox",
    "nanodet": "nanodet",
    "movenet": "movenet",
    "heatmaps": "heatmaps",
    "text_boxes": "text_boxes",
    "ctc": "ctc",
    "silero_vad": "silero_vad",
    "keywords": "keywords",
    "image": "image",
    "depth": "depth",
    "mask": "mask",
    "embedding": "embedding",
    "classes": "classes",
    "tensors": "tensors",
}


def decoder_of(name: str) -> Decoder:
    """The decoder of that name. UsageError if there is none, or if this bundle was packed without it."""
    if name not in DECODERS:
        raise UsageError(f"there is no decoder {name!r}; there are {', '.join(DECODERS)}")
    try:
        decoder: Decoder = import_module(_module(name)).DECODER
    except ModuleNotFoundError as error:
        if _is_here(name):
            raise
        there = ", ".join(decoders_here())
        raise UsageError(f"this bundle has no decoder {name!r}, only {there}; pack the pair with its task") from error
    return decoder


def decoders_here() -> List[str]:
    """The names of the decoders that can be used: all, or those that a bundle was packed with."""
    return [name for name in DECODERS if _is_here(name)]


def _is_here(name: str) -> bool:
    try:
        return find_spec(_module(name)) is not None
    except ModuleNotFoundError:
        return False  # nor is the package that it stands in


def _module(name: str) -> str:
    return f"{__name__}.{DECODERS[name]}"
