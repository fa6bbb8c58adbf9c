"""Recognises the kind of a data set from the files at its path."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Callable, List, Tuple

from armnet.evaluation.example import Data
from runtime_arm.errors import UsageError
from runtime_arm.files import AnyPath, one_line_errors

if TYPE_CHECKING:
    from runtime_arm.app.model import Model

EXPECTED = (
    "a folder with a folder of pictures or sounds a class, an .npz with images and labels, COCO's annotations (.json), "
    "a folder with images/ and masks/, or a list of files and what they hold (.csv, .tsv, .txt)"
)


def data_of(path: AnyPath, model: Model, notice: Callable[[str], None] = lambda text: None) -> Data:
    """The examples at a path, with the classes of a ``runtime_arm.app.model.Model``. notice: is given what was assumed.

    UsageError or FeedError, naming the file, if it is no data set, is empty, or does not fit the model.
    """
    path = os.fspath(path)
    if not os.path.exists(path):
        raise UsageError(f"{path}: there is no such file or folder; expected {EXPECTED}")
    for fits, read in _readers():
        if fits(path):
            with one_line_errors(path):
                data = read(path, model, notice)
            if not len(data.examples):
                raise UsageError(f"{path}: holds no examples; expected {EXPECTED}")
            return data
    raise UsageError(f"{path}: is not a data set that armnet knows; expected {EXPECTED}")


def _readers() -> List[Tuple[Callable[[str], bool], Callable[..., Data]]]:
    from armnet.evaluation import archive, coco, file_list, masks, sorted_folders

    return [
        (archive.fits, archive.read),
        (coco.fits, coco.read),
        (file_list.fits, file_list.read),
        (masks.fits, masks.read),
        (sorted_folders.fits, sorted_folders.read),
    ]
