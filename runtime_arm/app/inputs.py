"""Reads inputs from files: arrays, archives of arrays and pictures."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Mapping, Sequence, Tuple

import numpy as np
from numpy.lib.format import MAGIC_PREFIX

from runtime_arm.app.pictures import SUFFIXES, is_picture, read_picture
from runtime_arm.errors import ArmnetError, FeedError, UsageError, first_line, there_are
from runtime_arm.netdef import Array
from runtime_arm.pair.metadata import TensorInfo

Run = Tuple[str, Dict[str, Array]]  # the name of the run, and its inputs by name


def read_runs(words: Sequence[str], infos: Sequence[TensorInfo], preprocessing: Mapping[str, Any]) -> Iterator[Run]:
    """The runs that the files make, in order: each picture and each .npz is a run, all .npy files together are one.

    A word is a path, or NAME=PATH for the input of that name. FeedError if a file cannot be read or names no input.
    """
    arrays: Dict[str, Array] = {}
    positional = iter(infos)
    for word in words:
        name, path = word.split("=", 1) if "=" in word and not os.path.exists(word) else ("", word)
        if is_picture(path):
            info = named(name, infos)
            yield path, {info.name: read_picture(path, preprocessing, info.shape, info.dtype or np.float32)}
        elif path.lower().endswith(".npz"):
            yield path, read_npz(path, [info.name for info in infos])
        else:
            info = named(name, infos) if name else next(positional, None)  # type: ignore[assignment]
            if info is None:
                raise FeedError(f"{path}: more files than the net's {len(infos)} inputs")
            arrays[info.name] = read_npy(path)
    if arrays:
        yield ", ".join(arrays), arrays


def named(name: str, infos: Sequence[TensorInfo]) -> TensorInfo:
    """The input of that name; the first input for an empty name."""
    for info in infos:
        if info.name == name or not name:
            return info
    raise FeedError(f"no input {name!r}; the net takes {there_are(name, [info.name for info in infos])}")


def read_npy(path: str) -> Array:
    """The array in an .npy file. FeedError if it cannot be read."""
    with _read_errors(path, ".npy array"), open(path, "rb") as file:
        start = file.read(len(MAGIC_PREFIX))
        file.seek(0)
        if start == MAGIC_PREFIX:
            return np.asarray(np.load(file, allow_pickle=False))
    if start.startswith(b"PK"):
        raise FeedError(f"{path}: this is an archive; rename it to .npz")
    raise FeedError(f"{path}: not an .npy array; the names of pictures end in {', '.join(SUFFIXES)}")


def read_npz(path: str, names: List[str]) -> Dict[str, Array]:
    """The arrays of an .npz by input name; a key may carry the prefix ``in_``. FeedError if it cannot be read."""
    import zipfile  # which brings shutil, bz2 and lzma along

    with _read_errors(path, ".npz archive"):
        with zipfile.ZipFile(path):  # for other files NumPy's own reader prints more than an error
            pass
        with np.load(path, allow_pickle=False) as archive:
            keys = {name: key for name in names for key in (name, f"in_{name}") if key in archive.files}
            if not keys:
                raise FeedError(
                    f"{path}: holds {', '.join(archive.files) or 'nothing'}; the net takes {', '.join(names)}"
                )
            return {name: archive[key] for name, key in keys.items()}


@contextmanager
def _read_errors(path: str, what: str) -> Iterator[None]:
    """Turns any exception that NumPy raises for a broken file into a FeedError of one line."""
    try:
        yield
    except ArmnetError:
        raise
    except OSError as error:
        raise FeedError(f"{path}: cannot be read: {error.strerror or error}") from error
    except Exception as error:
        raise FeedError(f"{path}: cannot be read as an {what}: {first_line(error)}") from error


def read_single_run(
    words: Sequence[str], infos: Sequence[TensorInfo], preprocessing: Mapping[str, Any]
) -> Dict[str, Array]:
    """The inputs of the one run that the files make. UsageError if they make several."""
    runs = list(read_runs(words, infos, preprocessing))
    if len(runs) != 1:
        raise UsageError(f"the files make {len(runs)} runs; give the inputs of one run")
    return runs[0][1]
