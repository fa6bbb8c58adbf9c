"""Finds the kind of samples at a path."""

from __future__ import annotations

from pathlib import Path
from typing import Optional, Sequence

from runtime_arm.app.model import Model
from runtime_arm.errors import UsageError
from runtime_arm.files import AnyPath
from training.data.samples import Samples

EXPECTED = "a folder with a folder of pictures for each class, or an .npz with an array for each input and labels"


def samples_at(path: AnyPath, model: Model, ways: Sequence[str] = (), labels: Optional[str] = None) -> Samples:
    """The samples at a path for a model. ways: how pictures are varied; labels: the key of an .npz.

    UsageError or FeedError, naming the file, if there are none, or if they do not fit.
    """
    place = Path(path)
    if place.is_dir():
        from training.data.folders import PictureSamples

        return PictureSamples(place, model, ways)
    if not place.exists():
        raise UsageError(f"{place}: there is no such file or folder; expected {EXPECTED}")
    if place.suffix.lower() != ".npz":
        raise UsageError(f"{place}: is no data that armnet train knows; expected {EXPECTED}")
    if ways:
        raise UsageError(f"{place}: arrays are learned as they are; only pictures in folders are augmented")
    from training.data.archive import archive_samples

    return archive_samples(place, model, labels)
