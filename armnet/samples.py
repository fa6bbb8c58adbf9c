"""Samples of a network's inputs, read from a folder or an archive when they are needed, one at a time."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Dict, List, Mapping, Sequence

import numpy as np

from runtime_arm.app.inputs import read_npz, read_runs
from runtime_arm.app.pictures import is_picture
from runtime_arm.errors import FeedError, UsageError
from runtime_arm.netdef import Array
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair

FILES = "a folder of pictures, .npy or .npz files, or one .npz with an array of samples for each input"
_IMAGES = "images"  # the key of data sets with ``images`` and ``labels``


def samples_of(path: str, pair: Pair, most: int) -> Sequence[Mapping[str, Array]]:
    """At most this number of samples, spread evenly over those present. UsageError if there are none."""
    if most < 1:
        raise UsageError(f"at least one sample is needed, got {most}")
    found: Sequence[Mapping[str, Array]] = _Folder(path, pair) if os.path.isdir(path) else _Archive(path, pair)
    if not len(found):
        raise UsageError(f"{path}: holds no samples; expected {FILES}")
    places = np.unique(np.linspace(0, len(found) - 1, min(most, len(found))).astype(int))
    return _Chosen(found, [int(place) for place in places])


class _Chosen(Sequence[Mapping[str, Array]]):
    def __init__(self, samples: Sequence[Mapping[str, Array]], places: List[int]):
        self._samples, self._places = samples, places

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: Any) -> Any:
        return self._samples[self._places[index]]


class _Folder(Sequence[Mapping[str, Array]]):
    """Each picture, .npy and .npz file below a folder is a sample."""

    def __init__(self, path: str, pair: Pair):
        self._pair = pair
        files = sorted(file for file in Path(path).rglob("*") if file.is_file())
        self._files = [str(file) for file in files if is_picture(file) or file.suffix.lower() in (".npy", ".npz")]

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: Any) -> Any:
        rule = self._pair.meta.get("preprocessing") or {}
        return next(iter(read_runs([self._files[index]], self._pair.inputs, rule)))[1]


class _Archive(Sequence[Mapping[str, Array]]):
    """An .npz: for each input an array whose first axis counts samples, or batches of them."""

    def __init__(self, path: str, pair: Pair):
        names = [info.name for info in pair.inputs]
        if len(names) == 1 and _holds_images(path):
            with np.load(path, allow_pickle=False) as archive:
                self._arrays: Dict[str, Array] = {names[0]: archive[_IMAGES]}
            wanted, got = pair.inputs[0].dtype, self._arrays[names[0]].dtype.name
            if wanted not in (None, got):
                raise FeedError(f"{path}: {_IMAGES} are {got}, the net takes {wanted}; store them as it takes them")
        else:
            self._arrays = read_npz(path, names)
        self._batches = {
            info.name: _batch(info, self._arrays[info.name], path) for info in pair.inputs if info.name in self._arrays
        }
        self._counts = {name: len(array) // self._batches[name] for name, array in self._arrays.items()}
        if len(set(self._counts.values())) > 1:
            raise FeedError(f"{path}: the inputs have different numbers of samples: {self._counts}")

    def __len__(self) -> int:
        return min(self._counts.values(), default=0)

    def __getitem__(self, index: Any) -> Any:
        return {
            name: array[index * self._batches[name] : (index + 1) * self._batches[name]]
            for name, array in self._arrays.items()
        }


def _holds_images(path: str) -> bool:
    try:
        with np.load(path, allow_pickle=False) as archive:
            return _IMAGES in archive.files
    except (OSError, ValueError, AttributeError):
        return False


def _batch(info: TensorInfo, array: Array, path: str) -> int:
    """How many rows of the array make one sample: the batch that the net declares, or 1."""
    if not array.ndim:
        raise FeedError(f"{path}: input {info.name!r} is one number; its first axis must count samples")
    first = info.shape[0] if info.shape else 1
    return first if isinstance(first, int) and first > 0 else 1
