"""Caffe nets run by OpenCV 4, which imports them. OpenCV 5 cannot."""

from __future__ import annotations

import os
from typing import Any, Mapping, Optional

import numpy as np

from exporter.caffe.export import from_caffe
from exporter.common.original_run import OriginalBlob, OriginalRun
from runtime_arm.errors import ExportError, MissingDependency, first_line
from runtime_arm.files import AnyPath
from runtime_arm.netdef import Array

_INSTALL = "pip install 'armnet[caffe]'"


def run_caffe(prototxt: AnyPath, caffemodel: Optional[AnyPath] = None, *, feeds: Mapping[str, Array]) -> OriginalRun:
    """The first top of every layer that OpenCV computes."""
    cv2 = _opencv()
    net = from_caffe(prototxt, caffemodel).predict_net
    tops = {op.name: op.output[0] for op in net.op if op.name and op.output}
    logging = cv2.utils.logging
    level = logging.setLogLevel(logging.LOG_LEVEL_SILENT)  # what goes wrong is told by the exception
    try:
        model = cv2.dnn.readNetFromCaffe(os.fspath(prototxt), "" if caffemodel is None else os.fspath(caffemodel))
        model.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
        model.enableFusion(False)
        for name, value in feeds.items():
            model.setInput(np.ascontiguousarray(value), name)
        layers = list(model.getLayerNames())
        values = dict(zip(layers, model.forward(layers)))
    except cv2.error as error:
        raise ExportError(f"{os.fspath(prototxt)}: OpenCV {cv2.__version__} refuses it: {first_line(error)}") from error
    finally:
        logging.setLogLevel(level)
    blobs = [OriginalBlob(layer, tops[layer], values[layer]) for layer in layers if layer in tops]
    return OriginalRun(f"OpenCV {cv2.__version__}", blobs)


def _opencv() -> Any:
    try:
        import cv2
    except ImportError as error:
        raise MissingDependency(f"comparing Caffe nets needs OpenCV 4: {_INSTALL}") from error
    if not hasattr(cv2.dnn, "readNetFromCaffe"):
        raise MissingDependency(
            f"comparing Caffe nets needs OpenCV 4; the installed {cv2.__version__} cannot read them: {_INSTALL}"
        )
    return cv2
