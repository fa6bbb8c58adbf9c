"""Imports torchvision and timm, even if torchvision's compiled operators are missing or do not fit PyTorch."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

_SIGNATURES = {
    "nms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align": "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio, bool aligned) -> Tensor",
}


def _nms(boxes: Any, scores: Any, threshold: float) -> Any:
    """Non-maximum suppression: the kept boxes, best first."""
    kept = []
    order = scores.argsort(descending=True)
    while order.numel():
        best, rest = order[0], order[1:]
        kept.append(best)
        order = rest[torchvision.ops.box_iou(boxes[best][None], boxes[rest])[0] <= threshold]
    return torch.stack(kept) if kept else torch.zeros(0, dtype=torch.int64)


def _roi_align(x: Any, rois: Any, scale: float, height: int, width: int, ratio: int, aligned: bool) -> Any:
    python = import_module("torchvision.ops.roi_align")._roi_align
    plain = getattr(python, "__wrapped__", python)  # without torch.compile, which cannot be traced
    return plain(x, rois, scale, height, width, ratio, aligned)


def _load_compiled() -> None:
    """Load torchvision's compiled operators if they fit: defining one of them a second time would end the process."""
    spec = find_spec("torchvision")
    for place in (spec and spec.submodule_search_locations) or []:
        for file in Path(place).glob("_C*.so"):
            with suppress(ImportError, OSError):
                torch.ops.load_library(str(file))


def _defined() -> Any:
    """A library of operators: it lives as long as they are to live."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    missing = [name for name in _SIGNATURES if not hasattr(torch.ops.torchvision, name)]
    for name in missing:
        library.define(name + _SIGNATURES[name])
    for name, kernel in (("nms", _nms), ("roi_align", _roi_align)):
        if name in missing:
            library.impl(name, kernel, "CPU")
    return library, bool(missing)


def _has_ops() -> bool:
    return True


_load_compiled()
_LIBRARY, _ARE_OURS = _defined()
torchvision: Any = import_module("torchvision")
timm: Any = import_module("timm")
if _ARE_OURS:
    for _name in ("torchvision.extension", "torchvision.ops.roi_align"):
        vars(import_module(_name))["_has_ops"] = _has_ops
