"""A folder with a folder of pictures for each class; pictures are prepared as the network's preprocessing says."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import List, Optional, Sequence

import numpy as np

from runtime_arm.app.model import Model
from runtime_arm.app.pictures import open_picture
from runtime_arm.app.teaching.augment import varied
from runtime_arm.app.teaching.samples import samples_in
from runtime_arm.errors import FeedError, UsageError
from runtime_arm.netdef import Array
from training.data.memory_cache import MemoryCache
from training.data.samples import Feeds, Samples


class PictureSamples(Samples):
    """Pictures in folders. ways: how each is varied, see ``runtime_arm.app.teaching.augment``.

    UsageError if the folders are not the classes of a model that knows the names of its classes.
    """

    def __init__(self, folder: Path, model: Model, ways: Sequence[str] = ()):
        found = samples_in(folder)
        self._paths, self._model, self._ways = found.paths, model, tuple(ways)
        self.labels = _ordered(found.labels, model, folder)
        places = np.array([self.labels.index(name) for name in found.labels], np.int32)
        self.truths = places[found.classes]
        self._kept: MemoryCache[Array] = MemoryCache(lambda pixels: pixels.nbytes)
        marks = [f"{path.relative_to(folder)} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in self._paths]
        self.stamp = hashlib.sha256("\n".join([*self.labels, *self._ways, *marks]).encode()).hexdigest()

    def feeds(self, rows: Array, random: Optional[np.random.RandomState] = None) -> Feeds:
        prepared: List[Feeds] = []
        for row in rows:
            pixels = self._pixels(int(row))
            if random is not None:
                pixels = varied(pixels, self._ways, random)
            prepared.append(self._model.prepared(np.ascontiguousarray(pixels)).feeds)
        shapes = {array.shape for feeds in prepared for array in feeds.values()}
        if len(shapes) > 1:
            raise FeedError(f"pictures become inputs of different sizes, {shapes.pop()} and {shapes.pop()}: say resize")
        return {name: np.concatenate([feeds[name] for feeds in prepared]) for name in prepared[0]}

    def _pixels(self, row: int) -> Array:
        return self._kept.get(row, lambda: np.asarray(open_picture(str(self._paths[row]))))


def _ordered(found: Sequence[str], model: Model, folder: Path) -> List[str]:
    """The names of the classes in the order in which the network has them."""
    known = list(model.labels or [])
    if not known:
        return list(found)
    strange = [name for name in found if name not in known]
    if strange:
        raise UsageError(f"{folder}: the network has no class {strange[0]!r}; armnet teach gives a network new classes")
    return known
