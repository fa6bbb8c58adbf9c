"""Files that contain a model of a source format: archives, PyTorch's programs, TensorFlow's models.

``extracted`` gives the model inside. It needs a package only if the file needs it. If the package is missing, the file
stays as it is, and ``foreign.py`` says what to do with it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Optional, Sequence, Tuple, Union

from exporter.archives import archived
from exporter.common.source import FileOrBytes, NamedBytes
from exporter.foreign import head_of, is_keras, is_program, is_saved_model
from exporter.torch_program import onnx_of_file
from runtime_arm.errors import ExportError, first_line

if TYPE_CHECKING:
    from onnx import ModelProto

Source = Union[FileOrBytes, "ModelProto"]


def extracted(sources: Sequence[Source]) -> Tuple[Source, ...]:
    """The sources; a single source that contains a model, or a path into an archive, is replaced by that model.

    A model in an archive, or of TensorFlow, is the content of an .onnx or .tflite file. UsageError if an archive holds
    several models; ExportError or FormatError, naming the file, if it cannot be read.
    """
    if len(sources) != 1 or not isinstance(sources[0], (str, os.PathLike)):
        return tuple(sources)
    path = Path(sources[0])
    for extract in (archived, _of_torch, _of_tensorflow):
        found = extract(path)
        if found is not None:
            return (found,)
    return tuple(sources)


def _of_torch(path: Path) -> Optional[ModelProto]:
    """The ONNX model of a .pt2 file; None for other files, and if PyTorch is not installed."""
    return onnx_of_file(path) if path.is_file() and is_program(path) else None


def _of_tensorflow(path: Path) -> Optional[NamedBytes]:
    """The .tflite file that TensorFlow's converter makes of a SavedModel or of a Keras model; None for other files, and
    if TensorFlow is not installed.
    """
    saved = is_saved_model(path)
    if not saved and not (path.is_file() and is_keras(path, head_of(path))):
        return None
    try:
        tf = import_module("tensorflow")
    except ImportError:
        return None
    try:
        with redirect_stdout(sys.stderr):
            converter = _of_saved_model(tf, path) if saved else _of_keras_file(tf, path)
            return NamedBytes(converter.convert(), f"{path}.tflite")
    except Exception as error:  # errors of TensorFlow and of the model can be of any type
        raise ExportError(f"{path}: TensorFlow cannot convert it: {first_line(error)}") from error


def _of_saved_model(tf: Any, path: Path) -> Any:
    return tf.lite.TFLiteConverter.from_saved_model(os.fspath(path))


def _of_keras_file(tf: Any, path: Path) -> Any:
    """Code in the file is not run."""
    model = tf.keras.models.load_model(os.fspath(path), compile=False, safe_mode=True)
    return tf.lite.TFLiteConverter.from_keras_model(model)


def as_file(source: Source, use: Callable[[Sequence[Any]], Any]) -> Any:
    """``use`` called with the path of a file that has this content; with the source itself if it is not bytes."""
    if not isinstance(source, NamedBytes):
        return use([source])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / Path(source.name).name
        path.write_bytes(source)
        return use([path])
