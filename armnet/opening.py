"""Opens any model for answers: a pair, a bundle, or the files of a source format, which are exported and optimised."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Union

from armnet.model_files import completed, is_saved_model, is_source, models_in
from armnet.source_pairs import source_pair
from runtime_arm.app.model import Model, together
from runtime_arm.errors import UsageError
from runtime_arm.files import checked_path, is_zip
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

    model: a Pair, a pair's folder or zip file, a bundle, an .onnx or .tflite file, a .prototxt and its .caffemodel, or
    an init_net.pb and a predict_net.pb; source files are exported and optimised. The files of several models, or
    their folder, are the stages of an MTCNN, which answer as one. The other arguments are those of
    ``runtime_arm.open``. ExportError, FormatError or UsageError, naming the file, if it cannot be opened.

    Examples:
        >>> import armnet
        >>> rule = {"scale": 1 / 255}
        >>> with armnet.open("demo/digits.onnx", labels="demo/labels.txt", preprocessing=rule) as model:
        ...     answer = model.predict("demo/pictures/digit_7.png")
        >>> answer.kind, answer[0].label
        ('classes', '7')
    """
    several = [model] if isinstance(model, Pair) else models_in(_paths(model))
    options: Dict[str, Any] = {"threads": threads, "device": device, "half": half, "shapes": shapes}
    options.update({"changes": changes, "notice": notice})
    return together([Model(pair_of(one, notice=notice), labels, task, preprocessing, **options) for one in several])


def pair_of(
    model: Union[AnyPath, Pair, Sequence[AnyPath], bytes, bytearray, memoryview],
    *,
    plain: bool = False,
    signature: Optional[str] = None,
    notice: Optional[Callable[[str], None]] = None,
    progress: Optional[Callable[[str, int, int], None]] = None,
) -> Pair:
    """The pair of any model, as ``open`` takes it, or of the content of an .onnx or .tflite file.

    A model of a source format is exported and optimised once: the cache keeps the result. One of the files of a model
    is enough, or their folder. plain: do not optimise. signature: that of a TFLite model. notice: called with what the
    user should know. progress: as for ``armnet.export``.
    """
    if isinstance(model, Pair):
        return model
    in_memory = isinstance(model, (bytes, bytearray, memoryview))
    sources: List[Any] = [model] if in_memory else _entered(completed(_paths(model)))
    in_memory = in_memory or isinstance(sources[0], bytes)
    if not in_memory and len(sources) == 1 and not is_source(sources[0]):
        return Pair.load(sources[0])
    if plain:
        from exporter import export

        return export(*sources, signature=signature, progress=progress)
    return source_pair(sources, signature=signature, notice=notice, progress=progress)


def _entered(sources: List[Any]) -> List[Any]:
    """The sources; a path into an archive, or the folder of a SavedModel, is replaced by the model there."""
    path = Path(sources[0])
    if len(sources) != 1 or (path.exists() and not is_saved_model(path)):
        return sources
    from exporter.containers import extracted

    return list(extracted(sources))


@contextmanager
def pair_folder(model: Union[AnyPath, Sequence[AnyPath]]) -> Iterator[Path]:
    """The folder of a pair, or a bundle, for callers that need files: the model itself if it is one, else a copy that
    lasts as long as the block. A pair in a zip file becomes a folder, too, so that a target need not inflate it.
    """
    paths = completed(_paths(model))
    if len(paths) == 1 and not is_source(paths[0]) and not is_zip(paths[0]):
        yield Path(paths[0])
        return
    import tempfile  # what is a folder already does without

    pair = pair_of(paths)
    with tempfile.TemporaryDirectory(prefix="armnet-pair-") as folder:
        pair.save(Path(folder, "pair"))
        yield Path(folder, "pair")


def name_of(model: Sequence[AnyPath]) -> str:
    """The name of a model: its folder, or its first file."""
    return Path(model[0]).resolve().name


def _paths(model: Any) -> List[AnyPath]:
    paths = list(model) if isinstance(model, (list, tuple)) else [model]
    if not paths:
        raise UsageError(_EXPECTED)
    return [checked_path(path, _EXPECTED) for path in paths]
