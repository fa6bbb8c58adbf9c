"""Detector: a net that is given windows of pictures."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from armnet.standins.caffe.classifier import PictureNet
from armnet.standins.caffe.io import load_image
from runtime_arm.netdef import Array


class Detector(PictureNet):
    """``Detector("deploy.prototxt", "w.caffemodel", mean=...)``; context_pad is refused by NotImplementedError."""

    def __init__(
        self,
        model_file: Any,
        pretrained_file: Any,
        mean: Any = None,
        input_scale: Optional[float] = None,
        raw_scale: Optional[float] = None,
        channel_swap: Optional[Sequence[int]] = None,
        context_pad: Optional[int] = None,
    ):
        super().__init__(model_file, pretrained_file, mean, input_scale, raw_scale, channel_swap)
        if context_pad:
            raise NotImplementedError("armnet's stand-in for caffe has no context_pad: widen the windows")

    def detect_windows(self, images_windows: Iterable[Tuple[Any, Any]]) -> List[Dict[str, Any]]:
        """For each window (ymin, xmin, ymax, xmax) of each picture's file: ``window``, ``prediction``, ``filename``."""
        found: List[Dict[str, Any]] = []
        crops: List[Array] = []
        for filename, windows in images_windows:
            picture = load_image(filename)
            for window in windows:
                top, left, bottom, right = (int(place) for place in window)
                crops.append(picture[top:bottom, left:right])
                found.append({"window": window, "filename": filename})
        for one, prediction in zip(found, self.outputs_for(crops).reshape(len(crops), -1)):
            one["prediction"] = prediction
        return found

    def detect_selective_search(self, image_fnames: Iterable[Any]) -> List[Dict[str, Any]]:
        """Refused: it needs MATLAB."""
        raise NotImplementedError("armnet's stand-in for caffe has no selective search; give detect_windows windows")
