"""Records: pictures (C, H, W) as Caffe stores them, blue first, each with a label."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from exporter.caffe.prototxt import message_class
from runtime_arm.app.pictures import open_picture
from runtime_arm.app.teaching.samples import samples_in
from runtime_arm.errors import FormatError, MissingDependency, UsageError
from runtime_arm.files import map_file
from runtime_arm.netdef import Array

LMDB_FILE = "data.mdb"


class Record(NamedTuple):
    """values: (C, H, W), uint8 or float32."""

    values: Array
    label: float


class Records:
    """Records by number. ``by_class``: they lie in the order of their classes, so that training mixes them."""

    by_class = False

    def __len__(self) -> int:
        raise NotImplementedError

    def record(self, number: int) -> Record:
        """One record. FormatError or FeedError, naming the file, if it is damaged."""
        raise NotImplementedError


class LmdbRecords(Records):
    """Datums in an LMDB, in the order of their keys."""

    def __init__(self, path: Path, colour: bool = False):
        self._path, self._colour = path, colour
        self._database, self._keys = _opened(path.resolve())

    def __len__(self) -> int:
        return len(self._keys)

    def record(self, number: int) -> Record:
        with self._database.begin() as transaction:
            content = transaction.get(self._keys[number]) or b""
        return datum_record(content, f"{self._path}: record {self._keys[number]!r}", self._colour)


@lru_cache(maxsize=8)
def _opened(path: Path) -> Tuple[Any, List[bytes]]:
    """An LMDB and its keys; the system lets a process open it only once."""
    try:
        import lmdb
    except ImportError as error:
        raise MissingDependency(f"{path}: an LMDB needs the package lmdb: pip install 'armnet[caffe-data]'") from error
    try:
        database = lmdb.open(str(path), subdir=path.is_dir(), readonly=True, lock=False, readahead=False)
        with database.begin() as transaction:
            return database, list(transaction.cursor().iternext(values=False))
    except lmdb.Error as error:
        raise FormatError(f"{path}: cannot be read as an LMDB: {error}") from error


def datum_record(content: bytes, name: str, colour: bool = False) -> Record:
    """The record in a serialized Datum. FormatError, naming it, if damaged. colour: encoded ones become colour."""
    from google.protobuf.message import DecodeError

    datum = message_class("Datum")()
    try:
        datum.ParseFromString(content)
    except (DecodeError, RecursionError) as error:
        raise FormatError(f"{name}: is no Datum: {error}") from error
    if datum.encoded:
        return Record(_planes(open_picture(datum.data, name), True if colour else None), datum.label)
    shape = (datum.channels, datum.height, datum.width)
    values: Array = np.frombuffer(datum.data, np.uint8) if datum.data else np.array(datum.float_data, np.float32)
    if min(shape) < 1 or values.size != np.prod(shape, dtype=np.int64):
        raise FormatError(f"{name}: holds {values.size} values, its shape is {shape}")
    return Record(values.reshape(shape), datum.label)


def _planes(picture: Any, colour: Optional[bool]) -> Array:
    """A picture's planes, blue first; colour: make it so, or grey, or (None) leave it as it is."""
    if colour is not None:
        picture = picture.convert("RGB" if colour else "L")
    pixels = np.asarray(picture)
    return pixels[None] if pixels.ndim == 2 else np.ascontiguousarray(pixels[:, :, ::-1].transpose(2, 0, 1))


class PictureRecords(Records):
    """Picture files. size: (height, width) that each is brought to, or None."""

    def __init__(
        self, files: Sequence[Tuple[Path, float]], size: Optional[Tuple[int, int]] = None, colour: bool = True
    ):
        self._files, self._size, self._colour = list(files), size, colour

    def __len__(self) -> int:
        return len(self._files)

    def record(self, number: int) -> Record:
        path, label = self._files[number]
        picture = open_picture(str(path))
        if self._size is not None:
            from PIL import Image

            resampling: Any = getattr(Image, "Resampling", Image)  # as older Pillows have it
            picture = picture.resize((self._size[1], self._size[0]), resampling.BILINEAR)
        return Record(_planes(picture, self._colour), label)


class FolderRecords(PictureRecords):
    """A folder of pictures for each class, numbered in the order of their names."""

    by_class = True

    def __init__(self, path: Path, size: Optional[Tuple[int, int]] = None, colour: bool = True):
        found = samples_in(path)
        super().__init__(list(zip(found.paths, (float(number) for number in found.classes))), size, colour)


class ArrayRecords(Records):
    """Arrays in memory: values (N, C, H, W) or (N, H, W), labels (N,)."""

    def __init__(self, values: Array, labels: Array):
        self._values, self._labels = values, labels

    def __len__(self) -> int:
        return len(self._values)

    def record(self, number: int) -> Record:
        values = self._values[number]
        return Record(values[None] if values.ndim == 2 else values, float(self._labels[number]))


def listed(path: Path, root: str) -> List[Tuple[Path, float]]:
    """The files and labels that a list has, a file and its label a line. FormatError, naming the line."""
    found: List[Tuple[Path, float]] = []
    for number, line in enumerate(str(map_file(path), "utf-8", "replace").splitlines(), 1):
        name, _, label = line.strip().rpartition(" ")
        if not line.strip():
            continue
        try:
            found.append((Path(os.path.join(root, name.strip())), float(label)))
        except ValueError:
            raise FormatError(f"{path}: line {number} is no file and its label: {line[:80]!r}") from None
    if not found:
        raise UsageError(f"{path}: lists no files")
    return found


def is_lmdb(path: Path) -> bool:
    """Whether a path is an LMDB: its folder, or the file in it."""
    return (path / LMDB_FILE).is_file() or path.name == LMDB_FILE or path.suffix == ".mdb"
