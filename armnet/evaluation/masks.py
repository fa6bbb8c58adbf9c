"""A folder of pictures and a folder of masks, whose pixels are the numbers of classes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Callable, Dict, List, Optional, Tuple

import numpy as np

from armnet.evaluation.example import Data, Example, stamp
from armnet.evaluation.segmentation import IGNORED, MaskMeasure, read_mask
from armnet.evaluation.truths import model_labels
from runtime_arm.app.pictures import is_picture
from runtime_arm.errors import UsageError

if TYPE_CHECKING:
    from runtime_arm.app.model import Model

_PICTURES = ("images", "JPEGImages", "image", "img")
_MASKS = ("masks", "SegmentationClass", "mask", "annotations", "labels")
_LOOKED_AT = 20  # masks, to find out whether they know two classes only


def fits(path: str) -> bool:
    """Whether a folder holds a folder of pictures and one of masks."""
    return _folders(path) is not None


def _folders(path: str) -> Optional[Tuple[Path, Path]]:
    pictures = next((Path(path, name) for name in _PICTURES if Path(path, name).is_dir()), None)
    masks = next((Path(path, name) for name in _MASKS if Path(path, name).is_dir()), None)
    return None if pictures is None or masks is None else (pictures, masks)


def read(path: str, model: Model, notice: Callable[[str], None]) -> Data:
    """The examples: each picture that has a mask of the same name."""
    folders = _folders(path)
    assert folders is not None
    pictures, masks = (_by_stem(folder) for folder in folders)
    both = sorted(set(pictures) & set(masks))
    if not both:
        raise UsageError(f"{path}: no picture in {folders[0].name}/ has a mask of its name in {folders[1].name}/")
    if len(both) < len(pictures):
        notice(f"{path}: {len(pictures) - len(both)} pictures are left out, because they have no mask")
    two = all(set(np.unique(read_mask(masks[stem]))) <= {0, IGNORED} for stem in both[:_LOOKED_AT])
    if two:
        notice(f"{path}: the masks hold only 0 and 255; 255 is taken for class 1")
    examples = [Example(f"{pictures[stem].name}", os.fspath(pictures[stem]), os.fspath(masks[stem])) for stem in both]
    measure = MaskMeasure(model_labels(model), two)
    marks = "\n".join(f"{stamp(example.value)}\n{stamp(example.truth)}" for example in examples)
    return Data(examples, measure, marks, f"{len(examples)} pictures with masks")


def _by_stem(folder: Path) -> Dict[str, Path]:
    files: List[Path] = sorted(file for file in folder.rglob("*") if file.is_file() and is_picture(file))
    return {file.relative_to(folder).with_suffix("").as_posix(): file for file in files}
