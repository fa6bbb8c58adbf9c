"""The files of a pair, written into a folder or into a zip file; see ``runtime_arm.pair.pair`` for what they are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Iterable, Iterator, Tuple

from runtime_arm.files import AnyPath, Chunk, replaced_folder, write_file


def is_zip_name(path: AnyPath) -> bool:
    """Whether a pair written to this path becomes a zip file."""
    return os.fspath(path).lower().endswith(".zip")


def hashed(chunks: Iterable[Chunk], digest: Any) -> Iterator[Chunk]:
    """The same pieces, each of which a digest has taken."""
    for chunk in chunks:
        digest.update(chunk)
        yield chunk


def write_files(path: AnyPath, files: Iterable[Tuple[str, Iterable[Chunk]]]) -> None:
    """Write files, each a name and its content in pieces, into a folder, or into a file whose name ends with .zip."""
    if is_zip_name(path):
        from runtime_arm.pair.zipped import write_zip

        write_zip(path, files)
        return
    with replaced_folder(path) as temporary:
        for name, chunks in files:
            write_file(temporary / name, chunks, Path(path, name))
