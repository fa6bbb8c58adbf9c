"""Pictures that are smaller than those a network is made for, if a check with its own size takes too long."""

from __future__ import annotations

SMALLER = {  # by the network's name: pixels a side of the picture, and of the one that it is made for
    "deepseek_vit_412m": (182, 546),
    "fcos_resnet50_fpn": (320, 800),
    "gemma4_vit_167m": (384, 768),
    "keypointrcnn_resnet50_fpn": (320, 800),
    "maskrcnn_resnet50_fpn": (320, 800),
    "qwen3_vit_88m": (384, 768),
    "retinanet_resnet50_fpn": (320, 800),
}


def remark(name: str) -> str:
    """The remark in a network's row about the picture; "" if it has the network's own size."""
    if name not in SMALLER:
        return ""
    side, own = SMALLER[name]
    return f"on a picture of {side} x {side}, it is made for {own} x {own}"
