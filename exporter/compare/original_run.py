"""Runs a source model in its own runtime and shows every blob, for ``armnet compare``.

.onnx                      onnxruntime, without its optimisations
.tflite                    LiteRT, or else TensorFlow Lite, with its reference kernels
.prototxt .caffemodel      OpenCV 4, which imports Caffe nets
init_net.pb predict_net.pb, or a pair
                           armnet's reference kernels: no Caffe2 can be installed any more
"""

from __future__ import annotations

from typing import Container, Mapping, Optional, Sequence

from exporter.common.original_run import OriginalRun
from exporter.common.reference_run import run_reference
from exporter.containers import as_file, extracted
from exporter.formats import format_of
from runtime_arm.files import AnyPath
from runtime_arm.netdef import Array
from runtime_arm.pair.pair import Pair
from runtime_arm.pair.places import is_pair


def run_original(
    paths: Sequence[AnyPath], feeds: Mapping[str, Array], blobs: Optional[Container[str]] = None
) -> OriginalRun:
    """Runs the model in these files, or a pair, on inputs by the pair's names.

    blobs: the wanted ones; a runtime for which others cost memory may leave these out. MissingDependency, saying what
    to install, if the runtime is missing; ExportError if it refuses the model.
    """
    if len(paths) == 1 and is_pair(paths[0]):
        return run_reference(Pair.load(paths[0]), feeds)
    inside = extracted(paths)
    if len(inside) == 1:
        original: OriginalRun = as_file(
            inside[0], lambda files: format_of(files, "compare").run_original(files, feeds, blobs)
        )
        return original
    return format_of(paths, "compare").run_original(paths, feeds, blobs)
