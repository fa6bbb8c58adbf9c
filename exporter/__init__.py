"""Translates trained networks into pairs of protobufs that ``runtime_arm`` runs.

from exporter import export
pair = export("squeezenet.onnx")                     # or export("deploy.prototxt", "net.caffemodel")
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, Sequence, Union

from exporter.common.options import ExportOptions
from exporter.containers import extracted
from exporter.formats import format_of
from exporter.torch_program import is_torch, onnx_of_torch
from runtime_arm.app.evidence import with_result
from runtime_arm.app.rules import read_rule
from runtime_arm.machine.memory import memory_for
from runtime_arm.pair.pair import Pair

if TYPE_CHECKING:
    from onnx import ModelProto

__all__ = ["export"]


@memory_for("export")
def export(
    *paths: Union[str, os.PathLike[str], bytes, ModelProto, Any],
    caffe2_compatible: bool = False,
    preprocessing: Union[str, os.PathLike[str], Mapping[str, Any], None] = None,
    labels: Optional[Sequence[str]] = None,
    progress: Optional[Callable[[str, int, int], None]] = None,
    keep_losses: bool = False,
    signature: Optional[str] = None,
    task: Optional[str] = None,
) -> Pair:
    """Translates an .onnx or .tflite file, a Caffe .prototxt and .caffemodel, or an init_net.pb and predict_net.pb.

    The content of an .onnx or .tflite file may be given as bytes. Two files may come in any order, and a Caffe net
    without trained layers needs no .caffemodel. Other models go through a converter of their own:

    - A torch.nn.Module with an example of its inputs, ``export(module, torch.zeros(1, 3, 224, 224))``, a
      torch.export.ExportedProgram or a .pt2 file goes through PyTorch's ONNX exporter. The first dimension of the
      inputs stays open if that is possible.
    - A SavedModel or a Keras file goes through TensorFlow's converter.
    - An archive, such as a .task bundle, gives the model in it. If it holds several, the path names one:
      ``hand.task/hand_detector.tflite``.

    caffe2_compatible: use only Caffe2's operators and its encoding of weights; an ExportError names any operator that
    Caffe2 lacks. keep_losses: keep the losses of a Caffe net that need the labels of its data layers. signature: the
    signature of a TFLite model to translate; its first graph by default. preprocessing (a preset such as "imagenet", a
    JSON file, or a mapping), labels, task (what the outputs mean, if the net does not show it): stored in the pair.
    progress: called with a stage, how much of it is done, and how much there is. ExportError, FormatError or
    ResourceError, naming the file, if the model cannot be translated; UsageError for an invalid preprocessing rule.

    Examples:
        >>> import armnet
        >>> pair = armnet.export("demo/digits.onnx", preprocessing={"scale": 1 / 255})
        >>> pair.inputs[0].name, pair.inputs[0].shape
        ('image', ('batch', 1, 8, 8))
        >>> pair.save("digits")
    """
    stored = {"preprocessing": read_rule(preprocessing), "labels": labels and list(labels)}
    meta = {key: value for key, value in stored.items() if value}
    options = ExportOptions(caffe2_compatible, keep_losses, signature, meta, progress)
    if paths and is_torch(paths[0]):
        paths = (onnx_of_torch(*paths),)
    sources = extracted(paths)
    pair = format_of(sources, "export").export(sources, options)
    return with_result(pair, task)
