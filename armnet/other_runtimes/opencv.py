"""OpenCV's dnn module as another runtime to compare with."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, List, Mapping

from armnet.other_runtimes.original import Original
from armnet.other_runtimes.runtime import OtherRuntime, by_name
from runtime_arm.errors import ExportError, first_line
from runtime_arm.imports import needed_for
from runtime_arm.netdef import Array


def ready(original: Original, feeds: Mapping[str, Array], threads: int) -> OtherRuntime:
    """OpenCV's own kernels. The number of threads is that of all of OpenCV in this process."""
    with needed_for("timing OpenCV"):
        import cv2
    cv2.setNumThreads(threads)
    try:
        with tempfile.TemporaryDirectory() as folder:
            where, path, signature = original.onnx_file(Path(folder))
            net = cv2.dnn.readNetFromONNX(str(path))
        given = by_name([value.name for value in signature.inputs], feeds)
        outputs = [value.name for value in signature.outputs]

        def infer() -> List[Any]:
            for name, value in given.items():
                net.setInput(value, name)
            return list(net.forward(outputs))

        infer()
    except cv2.error as error:
        raise ExportError(f"OpenCV refuses {where}: {first_line(error)}") from error
    return OtherRuntime(f"OpenCV {cv2.__version__}", where, infer)
