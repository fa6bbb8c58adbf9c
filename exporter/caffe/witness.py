"""Caffe nets run by OpenCV 4, whose importer reads them. OpenCV 5 reads none."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping

import numpy as np

from exporter.caffe.export import from_caffe
from exporter.compare.witness import AnyPath, Evidence, Seen, first_line
from runtime_arm.errors import ExportError, MissingDependency
from runtime_arm.netdef import Array

_INSTALL = "pip install 'armnet[caffe]'"


def caffe(prototxt: AnyPath, caffemodel: AnyPath, feeds: Mapping[str, Array]) -> Evidence:
    """The first top of every layer that OpenCV computes."""
    cv2 = _opencv()
    try:
        net = cv2.dnn.readNetFromCaffe(os.fspath(prototxt), os.fspath(caffemodel))
        net.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
        net.enableFusion(False)
        for name, value in feeds.items():
            net.setInput(np.ascontiguousarray(value), name)
        names = list(net.getLayerNames())
        values = dict(zip(names, net.forward(names)))
    except cv2.error as error:
        raise ExportError(f"{os.fspath(prototxt)}: OpenCV {cv2.__version__} refuses it: {first_line(error)}") from error
    return Evidence(f"OpenCV {cv2.__version__}", _seen(_tops(prototxt, caffemodel), names, values))


def _opencv() -> Any:
    try:
        import cv2
    except ImportError as error:
        raise MissingDependency(f"comparing Caffe nets needs OpenCV 4: {_INSTALL}") from error
    if not hasattr(cv2.dnn, "readNetFromCaffe"):
        raise MissingDependency(
            f"comparing Caffe nets needs OpenCV 4, the installed {cv2.__version__} reads none of them: {_INSTALL}"
        )
    return cv2


def _tops(prototxt: AnyPath, caffemodel: AnyPath) -> Dict[str, str]:
    """The blob that each layer of the net writes, under the layer's name."""
    net = from_caffe(prototxt, caffemodel).predict_net
    return {op.name: op.output[0] for op in net.op if op.name and op.output}


def _seen(tops: Mapping[str, str], names: List[str], values: Mapping[str, Array]) -> List[Seen]:
    return [Seen(name, tops[name], values[name]) for name in names if name in tops]
