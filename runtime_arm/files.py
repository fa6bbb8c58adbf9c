"""Files: maps them for reading, replaces them as a whole, and reports every failure in one line."""

from __future__ import annotations

import math
import mmap
import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Iterable, Iterator, Optional, Sequence, Union

import numpy as np

from runtime_arm.errors import ResourceError, UsageError

AnyPath = Union[str, "os.PathLike[str]"]
Chunk = Union[bytes, memoryview]
_ZIP = b"PK\3\4"
OWN_PAGES = 1 << 14  # bytes; for smaller arrays, pages of their own do not pay for the call


def checked_path(path: Any, expected: str) -> AnyPath:
    """The path itself. If it is not a path, UsageError, which says what is expected."""
    if isinstance(path, (str, os.PathLike)):
        return path
    raise UsageError(f"{expected}; got {path!r}"[:300])


@contextmanager
def one_line_errors(path: AnyPath) -> Iterator[None]:
    """Turn an OSError inside the block into a ResourceError that names ``path``."""
    try:
        yield
    except OSError as error:
        raise ResourceError(f"{os.fspath(path)}: {error.strerror or error}") from error


def is_zip(path: AnyPath) -> bool:
    """Whether the content of a file begins like a zip file. A bundle does not."""
    if not os.path.isfile(path):
        return False
    with one_line_errors(path), open(path, "rb") as file:
        return file.read(len(_ZIP)) == _ZIP


def map_file(path: AnyPath) -> memoryview:
    """The content of a file, mapped into memory if the system can; valid as long as it or a view of it exists.

    Pages are read when they are first used. If the file is replaced meanwhile, the content does not change.
    """
    with one_line_errors(path), open(path, "rb") as file:
        try:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except (ValueError, OSError):  # an empty file, or a system without maps
            return memoryview(file.read())


def drop_pages(content: Any) -> None:
    """Let the system take back the memory that holds a mapped file's content; it is read again when used.

    content: an array. Nothing happens if it is not part of a mapped file, or if the system cannot do this.
    """
    mapped = mapping_of(content)
    if mapped is None or not memoryview(mapped).readonly or not hasattr(mmap, "MADV_DONTNEED"):
        return
    start = _address(content) - _address(np.frombuffer(mapped, np.uint8))
    first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
    length = start + content.nbytes - first
    if length > 0 and content.flags.c_contiguous:
        give_back(mapped, first, length)


def give_back(mapped: mmap.mmap, *part: int) -> None:
    """Let the system take back the memory of a mapping, or of a part of it: an offset at which a page begins, and a
    length. Memory that the program has locked (mlockall) stays."""
    with suppress(OSError):
        mapped.madvise(mmap.MADV_DONTNEED, *part)


def mapping_of(content: Any) -> Optional[mmap.mmap]:
    """The mapping that holds an array; None for other memory."""
    base = content
    while isinstance(base, np.ndarray):
        base = base.base
    mapped = base.obj if isinstance(base, memoryview) else base
    return mapped if isinstance(mapped, mmap.mmap) else None


def own_pages(shape: Sequence[int], dtype: np.dtype[Any]) -> Any:
    """A new array in pages of its own, which the system can take back while the array exists.

    Small arrays get ordinary memory, and so do all on systems that cannot do this.
    """
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes < OWN_PAGES or not hasattr(mmap, "MADV_DONTNEED"):
        return np.empty(shape, dtype)
    try:
        pages = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError:  # the number of mappings is limited
        return np.empty(shape, dtype)
    return np.frombuffer(pages, dtype).reshape(shape)


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def write_file(path: AnyPath, chunks: Iterable[Chunk], called: Optional[AnyPath] = None) -> None:
    """Write a file that appears whole or not at all: written under another name beside it, then renamed.

    called: the name of the file in error messages, if the user knows it by another one.
    """
    target, called = Path(path), path if called is None else called
    if target.is_dir():
        raise ResourceError(f"{os.fspath(called)}: is a folder; name a file")
    if not os.path.isdir(target.parent):
        raise ResourceError(f"{os.fspath(called)}: there is no folder {os.fspath(target.parent)}")
    if target.exists() and not target.is_file():  # a device or a pipe: /dev/stdout
        with one_line_errors(called):
            _write(target, chunks)
        return
    temporary = target.with_name(_temporary_name(target))
    try:
        with one_line_errors(called):
            _write(temporary, chunks)
            os.replace(temporary, target)
    finally:
        with suppress(OSError):
            temporary.unlink()


@contextmanager
def replaced_folder(path: AnyPath) -> Iterator[Path]:
    """A temporary folder to write files into; they appear under ``path`` when the block ends without an error.

    A new folder appears as a whole. In an existing folder, files of the same names are replaced, each as a whole, in
    the order of their names; other files stay.
    """
    target = Path(path)
    if target.exists() and not target.is_dir():
        raise ResourceError(f"{os.fspath(path)}: is a file, not a folder")
    replace = target.exists()
    with one_line_errors(path):
        target.absolute().parent.mkdir(parents=True, exist_ok=True)
        temporary = target / _temporary_name(target) if replace else target.with_name(_temporary_name(target))
        temporary.mkdir()
    try:
        yield temporary
        with one_line_errors(path):
            if replace:
                for file in sorted(temporary.iterdir()):
                    os.replace(file, target / file.name)
            else:
                os.rename(temporary, target)
    finally:
        from shutil import rmtree  # imports bz2 and lzma, which a start does not need

        rmtree(temporary, ignore_errors=True)


def _write(path: Path, chunks: Iterable[Chunk]) -> None:
    with open(path, "wb") as file:
        for chunk in chunks:
            file.write(chunk)


def _temporary_name(target: Path) -> str:
    return f".{target.name}.{os.urandom(6).hex()}"
