"""Files: mapped for reading, replaced as a whole when written, every failure one line."""

from __future__ import annotations

import mmap
import os
import shutil
import uuid
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Iterable, Iterator, Optional, Union

from runtime_arm.errors import ResourceError, UsageError

AnyPath = Union[str, "os.PathLike[str]"]
Chunk = Union[bytes, memoryview]


def checked_path(path: Any, due: str) -> AnyPath:
    """The path itself; UsageError, saying what is due, if it is none."""
    if isinstance(path, (str, os.PathLike)):
        return path
    raise UsageError(f"{due}; got {path!r}"[:300])


@contextmanager
def one_line_errors(path: AnyPath) -> Iterator[None]:
    """Turn the system's refusals inside the block into a ResourceError that names ``path``."""
    try:
        yield
    except OSError as error:
        raise ResourceError(f"{os.fspath(path)}: {error.strerror or error}") from error


def map_file(path: AnyPath) -> memoryview:
    """The content of a file, mapped into memory where the system can; valid for as long as it or a view of it lives.

    Pages are read when they are touched, and a file that is replaced meanwhile does not change under the reader.
    """
    with one_line_errors(path), open(path, "rb") as file:
        try:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except (ValueError, OSError):  # an empty file, or a system without maps
            return memoryview(file.read())


def write_file(path: AnyPath, chunks: Iterable[Chunk], called: Optional[AnyPath] = None) -> None:
    """Write a file that appears whole or not at all: written under another name beside it, then renamed.

    called: what a refusal calls the file, where it is known to the user by another name.
    """
    target, called = Path(path), path if called is None else called
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

    A new folder appears whole. In a folder that exists files of the same names are replaced, each as a whole, in the
    order of their names; others stay.
    """
    target = Path(path)
    if target.exists() and not target.is_dir():
        raise ResourceError(f"{os.fspath(path)}: is a file, a folder is due")
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
        shutil.rmtree(temporary, ignore_errors=True)


def _write(path: Path, chunks: Iterable[Chunk]) -> None:
    with open(path, "wb") as file:
        for chunk in chunks:
            file.write(chunk)


def _temporary_name(target: Path) -> str:
    return f".{target.name}.{uuid.uuid4().hex[:12]}"
