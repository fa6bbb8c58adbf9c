"""The decoders: one family of networks a file, each with its ``DECODER``."""

from __future__ import annotations

from importlib import import_module
from typing import Dict

from runtime_arm.errors import UsageError
from runtime_arm.results.decoder import Decoder

# By name; in the order in which recognisers are asked, the most particular first.
DECODERS: Dict[str, str] = {
    "detection_postprocess": "postprocessed",
    "detection_output": "detection_output",
    "yunet": "yunet",
    "ultraface": "ultraface",
    "retinaface": "retinaface",
    "blazeface": "blazeface",
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
    """The decoder of that name. UsageError if there is none."""
    if name not in DECODERS:
        raise UsageError(f"there is no decoder {name!r}; there are {', '.join(DECODERS)}")
    decoder: Decoder = import_module(f"{__name__}.{DECODERS[name]}").DECODER
    return decoder
