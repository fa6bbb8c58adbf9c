"""Features of pictures: computed once for each, and kept, so that teaching goes on where it was killed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.app.model import Model
from runtime_arm.app.pictures import is_picture, open_picture
from runtime_arm.errors import ArmnetError, ExportError, UsageError
from runtime_arm.machine.cache import Room
from runtime_arm.netdef import Array
from training.teach.cut import VECTOR, Cut

AUGMENTATIONS = ("none", "mirror")
Notice = Callable[[str], None]
Progress = Callable[[str, int, int], None]


class Samples(NamedTuple):
    """Pictures by class: paths, and the number of each one's class."""

    labels: List[str]
    paths: List[Path]
    classes: Array


def samples_in(folder: Any) -> Samples:
    """The pictures in a folder for each class, in the order of names. UsageError if a class has none."""
    root = Path(folder)
    if not root.is_dir():
        raise UsageError(f"{root}: is no folder; give one with a folder of pictures for each class")
    found = {
        place.name: sorted(file for file in place.rglob("*") if file.is_file() and is_picture(file))
        for place in sorted(entry for entry in root.iterdir() if entry.is_dir())
    }
    empty = [name for name, files in found.items() if not files]
    if empty:
        raise UsageError(f"{root / empty[0]}: holds no pictures")
    if not found:
        raise UsageError(f"{root}: holds no folders of pictures; give one for each class")
    paths = [path for files in found.values() for path in files]
    numbers = [number for number, files in enumerate(found.values()) for _ in files]
    return Samples(list(found), paths, np.array(numbers, np.int32))


class Features(NamedTuple):
    """Features (n, views, size) of the samples at ``kept``; ``skipped``: what could not be read, a line each."""

    values: Array
    kept: Array
    skipped: List[str]


def features_of(
    cut: Cut, model: Model, paths: Sequence[Path], augment: str = "mirror", progress: Optional[Progress] = None
) -> Features:
    """The features of pictures, prepared as ``model`` says, and of the mirrored ones. A damaged picture is skipped."""
    if augment not in AUGMENTATIONS:
        raise UsageError(f"augment must be one of {', '.join(AUGMENTATIONS)}, got {augment!r}")
    room, base = Room("pairs"), _key(cut, model)
    rows: List[Array] = []
    kept: List[int] = []
    skipped: List[str] = []
    with Model(cut.pair, task="tensors", preprocessing=dict(model.rule), notice=lambda text: None) as runner:
        for number, path in enumerate(paths):
            if progress is not None:
                progress(path.name, number, len(paths))
            try:
                rows.append(_of_picture(runner, room, base, path, augment))
                kept.append(number)
            except (ArmnetError, OSError) as error:
                skipped.append(str(error).splitlines()[0])
    values = np.stack(rows) if rows else np.zeros((0, 1, cut.size), np.float32)
    return Features(values, np.array(kept, np.int64), skipped)


def _key(cut: Cut, model: Model) -> hashlib._Hash:
    told = json.dumps([cut.blob, dict(model.rule)], sort_keys=True, default=str)
    content = hashlib.sha256(cut.pair.predict_net.to_bytes())
    content.update(cut.pair.init_net.to_bytes())
    content.update(told.encode())
    return content


def _of_picture(runner: Model, room: Room, base: hashlib._Hash, path: Path, augment: str) -> Array:
    key = base.copy()
    key.update(augment.encode())
    key.update(path.read_bytes())
    name = f"features-{key.hexdigest()}"
    kept = room.get(name, lambda file: np.load(file, allow_pickle=False))
    if kept is not None:
        return np.asarray(kept)
    picture = open_picture(str(path))
    views = [picture] if augment == "none" else [picture, _mirrored(picture)]
    rows = np.stack([_vector(runner, view, str(path)) for view in views])
    room.put(name, lambda file: _write(file, rows))
    return rows


def _mirrored(picture: Any) -> Any:
    from PIL import ImageOps

    return ImageOps.mirror(picture)


def _vector(runner: Model, picture: Any, name: str) -> Array:
    values = runner.run(runner.prepared(picture).feeds)[VECTOR].reshape(-1)
    if not np.isfinite(values).all():
        raise ExportError(f"{name}: its features are not finite")
    return np.asarray(values, np.float32)


def _write(file: Path, rows: Array) -> None:
    with open(file, "wb") as target:
        np.save(target, rows)


def split(classes: Array, share: float, seed: int) -> Tuple[Array, Array]:
    """Rows to learn from, and rows that are held out: of each class this share, at least one and not all."""
    random, learned, held = np.random.RandomState(seed), [], []
    for number in np.unique(classes):
        rows = random.permutation(np.flatnonzero(classes == number))
        count = min(max(1, round(share * len(rows))), len(rows) - 1)
        held.append(rows[:count])
        learned.append(rows[count:])
    return np.sort(np.concatenate(learned)), np.sort(np.concatenate(held))
