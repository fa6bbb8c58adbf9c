"""Translates trained networks into pairs of protobufs that ``runtime_arm`` runs.

from exporter import export
pair = export("squeezenet.onnx")                     # or export("deploy.prototxt", "net.caffemodel")
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, Sequence, Union

from runtime_arm.app.pictures import check_rule
from runtime_arm.errors import MissingDependency, UsageError
from runtime_arm.pair.pair import Pair

if TYPE_CHECKING:
    from onnx import ModelProto

__all__ = ["export"]


def export(
    *paths: Union[str, os.PathLike[str], ModelProto],
    caffe2_compatible: bool = False,
    preprocessing: Optional[Mapping[str, Any]] = None,
    labels: Optional[Sequence[str]] = None,
    progress: Optional[Callable[[str, int, int], None]] = None,
    keep_losses: bool = False,
    signature: Optional[str] = None,
) -> Pair:
    """The pair of an .onnx or .tflite file, a Caffe .prototxt and .caffemodel, or an init_net.pb and predict_net.pb.

    Two files come in any order; a Caffe net without trained layers needs no .caffemodel.

    caffe2_compatible: use Caffe2's operators and its encoding of weights alone, an ExportError names what has none.
    keep_losses: keep the losses of a Caffe net that need the labels of its data layers. signature: which of a TFLite
    model's signatures to translate; its first graph by default. preprocessing, labels: stored in the pair. progress:
    called with a stage, how much of it is done, and how much there is. ExportError, FormatError or ResourceError,
    naming the file, if it cannot be translated; UsageError for preprocessing that prepares nothing.
    """
    check_rule(preprocessing or {})
    meta = {"preprocessing": preprocessing, "labels": labels and list(labels)}
    meta = {key: value for key, value in meta.items() if value}
    suffixes = [Path(path).suffix.lower() if isinstance(path, (str, os.PathLike)) else ".onnx" for path in paths]
    if suffixes == [".onnx"]:
        try:
            from exporter.onnx.export import from_onnx
        except ImportError as error:
            raise MissingDependency(f"exporting ONNX needs {error.name}: pip install 'armnet[export]'") from error
        return from_onnx(paths[0], caffe2_compatible=caffe2_compatible, meta=meta, progress=progress)
    if len(paths) == 2 and set(suffixes) <= {".pb", ".pbtxt"}:
        from exporter.caffe2.export import from_caffe2

        return from_caffe2(paths[0], paths[1], caffe2_compatible=caffe2_compatible, meta=meta)
    if len(paths) <= 2 and sorted(suffixes) in ([".prototxt"], [".caffemodel", ".prototxt"]):
        from exporter.caffe.export import from_caffe

        files = [path for _, path in sorted(zip(suffixes, paths), reverse=True)]
        return from_caffe(*files, keep_losses=keep_losses, caffe2_compatible=caffe2_compatible, meta=meta)
    if suffixes == [".tflite"]:
        try:
            from exporter.tflite.export import from_tflite
        except ImportError as error:
            raise MissingDependency(f"exporting TFLite needs {error.name}: pip install 'armnet[export]'") from error
        return from_tflite(
            paths[0], signature=signature, caffe2_compatible=caffe2_compatible, meta=meta, progress=progress
        )
    names = " ".join(str(path) for path in paths) or "nothing"
    raise UsageError(
        f"cannot export {names}: give one .onnx or .tflite file, .prototxt and .caffemodel, or "
        "init_net.pb and predict_net.pb"
    )
