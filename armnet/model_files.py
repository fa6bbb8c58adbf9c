"""Which files make up a model: those that a user names, and the files beside them that belong to them."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, List, Optional, Sequence, Tuple

from runtime_arm.errors import UsageError
from runtime_arm.files import AnyPath, one_line_errors
from runtime_arm.pair.metadata import FILES, MODEL
from runtime_arm.pair.places import is_pair

if TYPE_CHECKING:
    from runtime_arm.pair.pair import Pair

PARTS = (".prototxt", ".caffemodel", ".pb", ".pbtxt")  # of models that are two files
_WHOLE = (".onnx", ".tflite", ".pyz")
_NETS = (".pb", ".pbtxt")
_OTHERS = {  # what writes files that are no pairs
    ".onnx": "armnet export MODEL --to onnx",
    ".tflite": "armnet export MODEL --to tflite",
    ".pyz": "armnet pack PAIR",
}


def models_in(paths: Sequence[AnyPath]) -> List[List[AnyPath]]:
    """The files of each model. A .prototxt and a .caffemodel belong together if they have the same name, else if one
    follows the other; two nets of Caffe2 that follow each other belong together. A folder of a few networks of Caffe
    stands for their files: they may be the stages of an MTCNN."""
    models: List[List[AnyPath]] = []
    for path in [file for given in paths for file in _stages(given) or [given]]:
        homes = [model for model in models if _lacks(model, path)]
        named = [model for model in homes if _stem(model[0]) == _stem(path)]
        home = named or [model for model in homes if model is models[-1]]
        if home:
            home[0].append(path)
        else:
            models.append([path])
    return models


def _stages(path: AnyPath) -> List[AnyPath]:
    """The files of a folder that holds two or three networks of Caffe, each with its weights, and no other model."""
    folder = Path(path)
    if not folder.is_dir() or _files(folder, (*_NETS, *_WHOLE)):
        return []
    files = _files(folder, (".prototxt", ".caffemodel"))
    counts = Counter(_stem(file) for file in files)
    return [*files] if len(counts) in (2, 3) and set(counts.values()) == {2} else []


def _lacks(model: Sequence[AnyPath], path: AnyPath) -> bool:
    """Whether a file can be the other half of a model."""
    if len(model) != 1:
        return False
    halves = {_suffix(model[0]), _suffix(path)}
    return halves == {".prototxt", ".caffemodel"} or halves <= set(_NETS)


def _stem(path: AnyPath) -> str:
    return os.path.splitext(os.fspath(path))[0]


def split(words: Sequence[str]) -> Tuple[List[str], List[str]]:
    """The files of the model that the first word begins, and the words that follow them."""
    count = 1
    while count < len(words) and _suffix(words[0]) in PARTS and _suffix(words[count]) in PARTS:
        count += 1
    return list(words[:count]), list(words[count:])


def completed(paths: Sequence[AnyPath]) -> List[AnyPath]:
    """All files of a model, given one of them or their folder. The other file is the one beside it with the same name,
    or else the only one there.
    """
    if len(paths) != 1:
        return list(paths)
    path = Path(paths[0])
    if path.is_dir():
        return _of_folder(path)
    suffix, beside = _suffix(path), path.parent
    if suffix in (".prototxt", ".caffemodel") and path.is_file():
        other = ".caffemodel" if suffix == ".prototxt" else ".prototxt"
        return [path, *_partner(path, other)]
    if suffix in _NETS and path.is_file():
        others = [file for file in _files(beside, _NETS) if file.name != path.name]
        return [path, *(others if len(others) == 1 else ())]
    return list(paths)


def files_nbytes(paths: Sequence[AnyPath]) -> Optional[int]:
    """The size of a model's files, given one of them or their folder. None for a model inside an archive."""
    files = [file for path in completed(paths) for file in _within(Path(path))]
    return sum(file.stat().st_size for file in files) if all(file.is_file() for file in files) else None


def zip_nbytes(pair: Pair) -> int:
    """The size of a pair as a zip file."""
    from runtime_arm.pair.zipped import zipped

    return sum(map(len, zipped(pair.files())))


def folder_nbytes(pair: Pair) -> int:
    """The size of a pair's files in a folder."""
    return sum(len(chunk) for _, chunks in pair.files() for chunk in chunks)


def _within(path: Path) -> List[Path]:
    """The files of a folder that are a model's, or the file itself."""
    if is_saved_model(path):
        return [file for file in path.rglob("*") if file.is_file()]
    if path.is_dir():
        return [*_files(path, _NETS), *filter(Path.is_file, [path / MODEL])]
    return [path]


def check_pair_output(path: AnyPath) -> None:
    """UsageError, with what to do, if a pair written here would replace files that do not belong to a pair of armnet's,
    if the path cannot be a folder, or the zip file that its name says, or if its name is that of another format's file.
    Call it before the work begins, so that neither the work nor existing files are lost.
    """
    from runtime_arm.pair.writing import is_zip_name

    folder, zipped = Path(path), is_zip_name(path)
    other = _OTHERS.get(_suffix(path))
    if other is not None and not folder.is_dir():
        raise UsageError(f"{path}: a pair is a folder or a .zip; for a file of that kind: {other} -o {path}")
    if zipped and folder.is_dir():
        raise UsageError(f"{path}: is a folder; name a file")
    if zipped and folder.exists() and not is_pair(folder):
        raise UsageError(f"{path}: is not a pair of armnet's; name a new file")
    with one_line_errors(path):
        file = next((place for place in (*([] if zipped else [folder]), *folder.parents) if place.is_file()), None)
        there = {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
    if file is not None:
        raise UsageError(f"{file}: is a file, not a folder")
    replaced = there & {*FILES, MODEL}
    if replaced and replaced != {*FILES, MODEL}:
        raise UsageError(
            f"{path}: holds {' and '.join(sorted(replaced))}, but not a pair of armnet's; name a new folder, "
            f"for instance {folder / 'pair'}"
        )


def is_saved_model(path: AnyPath) -> bool:
    """Whether a folder is a SavedModel of TensorFlow."""
    return (Path(path) / "saved_model.pb").is_file()


def is_source(path: AnyPath) -> bool:
    """Whether a path is, or would be, a file of another format than our own."""
    file = Path(path)
    if is_saved_model(file):
        return True
    if file.is_file():
        return _suffix(file) != ".pyz" and not is_pair(file)
    return _suffix(file) in (".onnx", ".tflite", *PARTS)


def _suffix(path: AnyPath) -> str:
    return os.path.splitext(os.fspath(path))[1].lower()


def _partner(path: Path, other: str) -> List[Path]:
    """The file of the same name with the other suffix, else the only one, if there is one of each."""
    named = path.with_suffix(other)
    if named.is_file():
        return [named]
    there, own = _files(path.parent, (other,)), _files(path.parent, (path.suffix,))
    return there if len(there) == 1 and len(own) == 1 else []


def _files(folder: Path, suffixes: Sequence[str]) -> List[Path]:
    return sorted(file for file in folder.iterdir() if _suffix(file) in suffixes and file.is_file())


def _of_folder(folder: Path) -> List[AnyPath]:
    """The folder itself if it holds a pair, else the files of the only model in it. UsageError if it holds several."""
    if is_pair(folder) or is_saved_model(folder):
        return [folder]
    nets = _files(folder, _NETS)
    whole, prototxts = _files(folder, _WHOLE), _files(folder, (".prototxt",))
    models: List[List[Path]] = [[file] for file in whole]
    models += [[file, *_partner(file, ".caffemodel")] for file in prototxts]
    models += [nets] if nets else []
    if len(models) > 1:
        names = ", ".join(model[0].name for model in models)
        raise UsageError(f"{folder}: holds several models, {names}: name the file of one")
    return list(models[0]) if models else [folder]
