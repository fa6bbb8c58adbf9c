"""Opens any model for answers: a pair, a bundle, or the files of a source format, which are exported and optimised."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

from armnet.source_pairs import source_pair
from runtime_arm.app.model import Model, together
from runtime_arm.errors import UsageError
from runtime_arm.files import checked_path
from runtime_arm.pair.pair import Pair

if TYPE_CHECKING:
    from runtime_arm.app.rules import Rule
    from runtime_arm.files import AnyPath

_EXPECTED = "open takes a Pair, or the path of a pair's folder, a bundle or a model file, or the paths of its files"


def open(
    model: Union[AnyPath, Pair, Sequence[AnyPath]],
    labels: Union[AnyPath, Sequence[str], None] = None,
    task: Optional[str] = None,
    preprocessing: Union[AnyPath, Rule, None] = None,
    *,
    threads: Optional[int] = None,
    device: Optional[str] = None,
    half: bool = False,
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    changes: Optional[Rule] = None,
    notice: Optional[Callable[[str], None]] = None,
) -> Model:
    """A Model, whose ``predict`` answers in typed results what is in a picture or a sound.

    model: a Pair, the folder of a pair, a bundle, an .onnx or .tflite file, a .prototxt and its .caffemodel, or an
    init_net.pb and a predict_net.pb; source files are exported and optimised. The files of several models are the
    stages of an MTCNN, which answer as one. The other arguments are those of
    ``runtime_arm.open``. ExportError, FormatError or UsageError, naming the file, if it cannot be opened.
    """
    several = [model] if isinstance(model, Pair) else _models_in(_paths(model))
    options: Dict[str, Any] = {"threads": threads, "device": device, "half": half, "shapes": shapes}
    options.update({"changes": changes, "notice": notice})
    return together([Model(pair_of(one, notice=notice), labels, task, preprocessing, **options) for one in several])


def pair_of(
    model: Union[AnyPath, Pair, Sequence[AnyPath], bytes, bytearray, memoryview],
    *,
    signature: Optional[str] = None,
    notice: Optional[Callable[[str], None]] = None,
    progress: Optional[Callable[[str, int, int], None]] = None,
) -> Pair:
    """The pair of any model, as ``open`` takes it, or of the content of an .onnx or .tflite file.

    One of a source format is exported and optimised, which is done once: the cache keeps the result. signature: that of
    a TFLite model. notice: called with what the user should know. progress: as for ``armnet.export``.
    """
    if isinstance(model, Pair):
        return model
    in_memory = isinstance(model, (bytes, bytearray, memoryview))
    sources: List[Any] = [model] if in_memory else _with_weights(_paths(model))
    if not in_memory and len(sources) == 1 and _is_pair(sources[0]):
        return Pair.load(sources[0])
    return source_pair(sources, signature=signature, notice=notice, progress=progress)


def _is_pair(path: AnyPath) -> bool:
    """Whether it is the folder of a pair or a bundle, and not a file of another format."""
    return os.path.isdir(path) or os.fspath(path).lower().endswith(".pyz")


def _paths(model: Any) -> List[AnyPath]:
    paths = list(model) if isinstance(model, (list, tuple)) else [model]
    if not paths:
        raise UsageError(_EXPECTED)
    return [checked_path(path, _EXPECTED) for path in paths]


def _models_in(paths: List[AnyPath]) -> List[List[AnyPath]]:
    """The files of each model: a .caffemodel belongs to the .prototxt of its name, else to the one before it; two nets
    of Caffe2 belong together."""
    models: List[List[AnyPath]] = [[path] for path in paths if not _is_part(path)]
    for path in filter(_is_part, paths):
        stem = os.path.splitext(os.fspath(path))[0]
        named = [model for model in models if os.path.splitext(os.fspath(model[0]))[0] == stem]
        home = named or models[-1:]
        if home:
            home[0].append(path)
        else:
            models.append([path])
    return models


def _is_part(path: AnyPath) -> bool:
    """Whether a file is but a part of a model."""
    return os.fspath(path).lower().endswith((".caffemodel", ".pb", ".pbtxt"))


def _with_weights(paths: List[AnyPath]) -> List[AnyPath]:
    """The files of a model: of a Caffe net that is named alone, also the .caffemodel of the same name beside it."""
    if len(paths) == 1 and os.fspath(paths[0]).lower().endswith(".prototxt"):
        weights = Path(paths[0]).with_suffix(".caffemodel")
        if weights.is_file():
            return [paths[0], weights]
    return paths
