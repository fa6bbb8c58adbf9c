"""The calibration so far, in files, so that a run that was killed continues where it stopped.

A file belongs to a net, to samples and to a way of looking at them: its name is their hash. It is written as a whole or
not at all; one that cannot be read counts as none. On a disk that is full nothing is kept.
"""

from __future__ import annotations

import hashlib
import io
import os
import time
import zipfile
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Sequence

import numpy as np

from runtime_arm.errors import ResourceError
from runtime_arm.files import AnyPath, one_line_errors, write_file
from runtime_arm.netdef import Array
from runtime_arm.pair.pair import Pair
from runtime_arm.version import VERSION

SECONDS = 10.0  # between two writings

_UNREADABLE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile)


class CalibrationCache:
    """The files in a folder that belong to a net and its samples. None for a folder keeps nothing."""

    def __init__(self, folder: Optional[AnyPath], pair: Pair, samples: Sequence[Mapping[str, Array]]):
        self._folder = None if folder is None else Path(folder)
        self._of = "" if folder is None else _hash(pair, samples)
        self._written = time.monotonic()

    def read(self, *what: Any) -> Dict[str, Array]:
        """The arrays that were written under these words; none if there are none."""
        if self._folder is None:
            return {}
        try:
            with np.load(self._path(what), allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
        except _UNREADABLE:
            return {}

    def write(self, arrays: Mapping[str, Any], *what: Any, now: bool = True) -> None:
        """Keeps arrays under these words. now: even if others were written a moment ago."""
        if self._folder is None or (not now and time.monotonic() - self._written < SECONDS):
            return
        content = io.BytesIO()
        np.savez_compressed(content, **arrays)
        with one_line_errors(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
        try:
            write_file(self._path(what), [content.getbuffer()])
        except ResourceError:  # a full disk: what room there is belongs to the pair
            remove_calibration(self._folder)
            self._folder = None
        self._written = time.monotonic()

    def _path(self, what: Sequence[Any]) -> Path:
        assert self._folder is not None
        words = hashlib.sha256(repr((self._of, what)).encode()).hexdigest()
        return self._folder / f"{words[:32]}.npz"


def _hash(pair: Pair, samples: Sequence[Mapping[str, Array]]) -> str:
    """Of the net, of how many samples there are, and of the first, the middle and the last one. Parts of samples that
    lack one of four quarters differ in that."""
    found = hashlib.sha256(repr((VERSION, len(samples))).encode())
    for net in (pair.init_net, pair.predict_net):
        found.update(net.to_bytes())
    for sample in (samples[0], samples[len(samples) // 2], samples[len(samples) - 1]):
        for name in sorted(sample):
            array = np.ascontiguousarray(sample[name])
            found.update(repr((name, array.dtype.str, array.shape)).encode())
            found.update(array.reshape(-1).view(np.uint8).data)
    return found.hexdigest()


def remove_calibration(folder: AnyPath) -> None:
    """Remove the files of a folder that ``CalibrationCache`` wrote, and the folder if nothing else is in it."""
    for path in Path(folder).glob("*.npz"):
        path.unlink()
    if Path(folder).is_dir() and not os.listdir(folder):
        Path(folder).rmdir()
