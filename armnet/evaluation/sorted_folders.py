"""A folder with a folder for each class, which holds pictures, sounds or arrays."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, List

from armnet.evaluation.classification import ClassMeasure
from armnet.evaluation.example import Data, Example, stamp
from armnet.evaluation.text_measures import LabelMeasure
from armnet.evaluation.truths import as_classifier, class_numbers, model_count, model_labels
from runtime_arm.app.pictures import is_picture
from runtime_arm.app.sounds import is_sound
from runtime_arm.errors import UsageError

if TYPE_CHECKING:
    from runtime_arm.app.model import Model


def fits(path: str) -> bool:
    """Whether the path is a folder."""
    return os.path.isdir(path)


def read(path: str, model: Model, notice: Callable[[str], None]) -> Data:
    """The examples, class by class in the order of their names."""
    files: Dict[str, List[Path]] = {}
    for folder in sorted(entry for entry in Path(path).iterdir() if entry.is_dir()):
        found = sorted(file for file in folder.rglob("*") if _is_example(file))
        if found:
            files[folder.name] = found
    if not files:
        raise UsageError(f"{path}: holds no folder with pictures, sounds or arrays; expected a folder for each class")
    as_classifier(model, notice)
    if model.decoder.kind == "sound events":
        examples = [Example(_named(file, path), os.fspath(file), name) for name in files for file in files[name]]
        measure: Any = LabelMeasure(model_labels(model), list(files), path)
    else:
        labels = model_labels(model)
        numbers = class_numbers(list(files), labels, model_count(model), path)
        if labels is None and not all(name.isdecimal() for name in files):
            notice(f"{path}: the model has no labels; its classes are taken to be the folders, in the order of names")
        examples = [
            Example(_named(file, path), os.fspath(file), numbers[name]) for name in files for file in files[name]
        ]
        measure = ClassMeasure(labels if labels is not None else _named_by(numbers))
    marks = "\n".join(stamp(example.value) for example in examples)
    return Data(examples, measure, marks, f"{len(examples)} files of {len(files)} classes")


def _is_example(file: Path) -> bool:
    return file.is_file() and (is_picture(file) or is_sound(file) or file.suffix.lower() in (".npy", ".npz"))


def _named(file: Path, path: str) -> str:
    return file.relative_to(path).as_posix()


def _named_by(numbers: Dict[str, int]) -> List[str]:
    """Labels made of the folders' names."""
    labels = [str(number) for number in range(max(numbers.values()) + 1)]
    for name, number in numbers.items():
        labels[number] = name
    return labels
