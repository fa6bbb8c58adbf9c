"""The default preprocessing of nets that do not state theirs. It is a guess, and reported as one."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Tuple

from runtime_arm.app.rules import PRESETS, channels_for, layout_for, size_for
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair

_CAFFE_SIZE = (227, 227)  # of the pictures of Caffe's AlexNet and SqueezeNet, and of no other framework's


def default_rule(pair: Pair, info: TensorInfo, entry: Mapping[str, Any]) -> Tuple[Dict[str, Any], str]:
    """A rule and its name: by the source's format, and whether its classes are ImageNet's."""
    source = str((pair.meta.get("source") or {}).get("name", "")).lower()
    grey = channels_for({}, info.shape, layout_for({}, info.shape)) == "GRAY"
    if entry.get("decoder") == "image" or "selfie" in pair.predict_net.name.lower():  # MediaPipe's takes 0..1
        name = "0..1"
    elif source.endswith(".tflite"):
        name = "-1..1"
    elif source.endswith(".onnx"):
        imagenet = entry.get("decoder") == "classes" and entry.get("classes") == 1000
        caffe = imagenet and size_for(info.shape, layout_for({}, info.shape)) == _CAFFE_SIZE
        name = "0..255" if _is_cntk(pair) else "caffe" if caffe else "imagenet" if imagenet and not grey else "0..1"
    else:
        name = "0..1" if grey else "caffe"
    return dict(PRESETS[name]), f"{name!r}, as is usual for such models"


def _is_cntk(pair: Pair) -> bool:
    """Whether CNTK made the model; its nets take raw pixels."""
    return pair.predict_net.name.startswith("CNTK")
