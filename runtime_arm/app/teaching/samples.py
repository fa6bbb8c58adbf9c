"""Samples to learn classes from: a folder with a folder for each class."""

from __future__ import annotations

from pathlib import Path
from typing import Callable, Dict, List, NamedTuple, Tuple

import numpy as np

from runtime_arm.app.pictures import is_picture
from runtime_arm.app.sounds import is_sound
from runtime_arm.errors import UsageError
from runtime_arm.files import AnyPath
from runtime_arm.netdef import Array


class Samples(NamedTuple):
    """Files by class: paths, and the number of each one's class."""

    labels: List[str]
    paths: List[Path]
    classes: Array


def is_seen(path: Path) -> bool:
    """Whether a file is a picture, or an array as the network takes it."""
    return is_picture(path) or path.suffix.lower() == ".npy"


def samples_in(folder: AnyPath, fits: Callable[[Path], bool] = is_picture) -> Samples:
    """The files in a folder for each class, in the order of names. UsageError if a class has none, or names clash.

    fits: which files are meant: ``is_picture``, ``is_seen`` or ``is_sound``.
    """
    what = "sounds" if fits is is_sound else "pictures"
    root = Path(folder)
    if not root.is_dir():
        raise UsageError(f"{root}: is no folder; give one with a folder of {what} for each class")
    found = {
        place.name: sorted(file for file in place.rglob("*") if file.is_file() and fits(file))
        for place in sorted(entry for entry in root.iterdir() if entry.is_dir())
    }
    empty = [name for name, files in found.items() if not files]
    if empty:
        raise UsageError(f"{root / empty[0]}: holds no {what}")
    if not found:
        raise UsageError(f"{root}: holds no folders of {what}; give one for each class")
    plain: Dict[str, str] = {}
    for name in found:
        other = plain.setdefault(" ".join(name.casefold().split()), name)
        if other != name:
            raise UsageError(f"{root}: the classes {other!r} and {name!r} differ in letter case or spaces alone")
    paths = [path for files in found.values() for path in files]
    numbers = [number for number, files in enumerate(found.values()) for _ in files]
    return Samples(list(found), paths, np.array(numbers, np.int32))


def split(classes: Array, share: float, seed: int) -> Tuple[Array, Array]:
    """Rows to learn from, and rows that are held out: of each class this share, at least one and not all."""
    random, learned, held = np.random.RandomState(seed), [], []
    for number in np.unique(classes):
        rows = random.permutation(np.flatnonzero(classes == number))
        count = min(max(1, round(share * len(rows))), len(rows) - 1)
        held.append(rows[:count])
        learned.append(rows[count:])
    return np.sort(np.concatenate(learned)), np.sort(np.concatenate(held))
