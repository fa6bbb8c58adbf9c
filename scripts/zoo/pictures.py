"""Pictures that are smaller than those a network is made for, where a check with its own takes too long."""

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
    """What a row of the network says about the picture; "" if it is the network's own."""
    if name not in SMALLER:
        return ""
    side, own = SMALLER[name]
    return f"on a picture of {side} x {side}, it is made for {own} x {own}"
