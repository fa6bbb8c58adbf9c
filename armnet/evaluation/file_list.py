"""A list of files, a line each, with what is to be heard or seen in them."""

from __future__ import annotations

import csv
import io
import os
from typing import TYPE_CHECKING, Any, Callable, List, Tuple

from armnet.evaluation.classification import ClassMeasure
from armnet.evaluation.example import Data, Example, stamp
from armnet.evaluation.text_measures import LabelMeasure, TextMeasure
from armnet.evaluation.truths import as_classifier, class_numbers, model_count, model_labels
from runtime_arm.errors import FeedError, UsageError

if TYPE_CHECKING:
    from runtime_arm.app.model import Model

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_LONGEST = 1 << 28  # bytes of a list


def fits(path: str) -> bool:
    """Whether the file is a list by its name."""
    return path.lower().endswith((*_SEPARATORS, ".txt", ".lst"))


def read(path: str, model: Model, notice: Callable[[str], None]) -> Data:
    """The examples. A line is a file, relative to the list, then a comma (.csv), a tab (.tsv) or a blank, then the true
    word or line of text.
    """
    rows = _rows(path)
    as_classifier(model, notice)
    kind = model.decoder.kind
    words = [word for _, word in rows]
    truths: List[Any] = words
    if kind == "sound events":
        measure: Any = LabelMeasure(model_labels(model), words, path)
    elif kind == "text":
        measure = TextMeasure()
    elif kind == "classes":
        alone = next((file for file, word in rows if not word), None)
        if alone is not None:
            raise FeedError(f"{path}: {alone!r} is alone on its line; a file must be followed by its class")
        numbers = class_numbers(sorted(set(words)), model_labels(model), model_count(model), path)
        truths, measure = [numbers[word] for word in words], ClassMeasure(model.labels)
    else:
        raise UsageError(f"{path}: a list holds classes, sounds or lines of text, but the model gives {kind}")
    folder = os.path.dirname(path)
    files = [os.path.join(folder, file) for file, _ in rows]
    examples = [Example(row[0], file, truth) for row, file, truth in zip(rows, files, truths)]
    marks = "\n".join([stamp(path), *(stamp(file) for file in files if os.path.exists(file))])
    return Data(examples, measure, marks, f"{len(examples)} files")


def _rows(path: str) -> List[Tuple[str, str]]:
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            text = file.read(_LONGEST)
    except (OSError, UnicodeDecodeError) as error:
        raise FeedError(f"{path}: cannot be read as a list: {error}") from None
    separator = _SEPARATORS.get(os.path.splitext(path)[1].lower())
    if separator:
        lines = list(csv.reader(io.StringIO(text), delimiter=separator))
    else:
        lines = [line.split("\t", 1) if "\t" in line else line.split(None, 1) for line in text.splitlines()]
    rows = [[cell.strip() for cell in line] for line in lines if any(cell.strip() for cell in line)]
    there = [os.path.exists(os.path.join(os.path.dirname(path), row[0])) for row in rows[:2]]
    if there == [False, True]:
        rows = rows[1:]  # behind the names of the columns
    for row in rows:
        if len(row) not in (1, 2):
            raise FeedError(
                f"{path}: a line must be a file and its true class, sound or text, got {' | '.join(row)[:80]!r}"
            )
    return [(row[0], row[1] if len(row) == 2 else "") for row in rows]
