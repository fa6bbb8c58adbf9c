"""Models in zip archives, MediaPipe's .task bundles above all. They are recognised by their first bytes.

A path may lead into an archive as if it were a folder: ``hand.task/hand_detector.tflite``. Archives may hold archives.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import Iterator, Optional, Tuple

from exporter.common.source import NamedBytes
from runtime_arm.errors import FormatError, UsageError
from runtime_arm.machine.memory import require_memory

MAGIC = b"PK\x03\x04"
_TFLITE = b"TFL3"  # at offset 4
_HEAD = 8
_ENCRYPTED = 1
_DAMAGES = (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError, EOFError)
_MOST_MEMBERS = 4096
_DEEPEST = 4  # archives in archives


def archived(path: Path) -> Optional[NamedBytes]:
    """The model at a path into an archive, or the only model of an archive; None if the path is neither.

    UsageError, with their names, if the archive holds several; FormatError if it is damaged or lacks the named one.
    """
    file, inner = _split(path)
    if file is None:
        return None
    with open(file, "rb") as stream:
        if stream.read(len(MAGIC)) != MAGIC:
            return None
    try:
        with zipfile.ZipFile(file) as archive:
            return _only(file, archive, inner)
    except (*_DAMAGES, zlib.error) as error:
        raise FormatError(f"{file} is a damaged zip archive; download the file again") from error


def _split(path: Path) -> Tuple[Optional[Path], str]:
    """The file that a path leads to or through, and the way inside it."""
    if path.exists():
        return (path, "") if path.is_file() else (None, "")
    for parent in path.parents:
        if parent.is_file():
            return parent, path.relative_to(parent).as_posix()
        if parent.exists():
            break
    return None, ""


def _only(file: Path, archive: zipfile.ZipFile, inner: str) -> Optional[NamedBytes]:
    found = list(_models(archive, "", 0))
    wanted = [entry for entry in found if not inner or entry[0] == inner]
    if len(wanted) == 1:
        name, holder, info = wanted[0]
        return NamedBytes(_content(holder, info, f"{file}/{name}"), f"{file}/{name}")
    names = ", ".join(name for name, _, _ in found)
    if inner:
        raise FormatError(f"{file} holds no model {inner}; it has {names or 'none'}")
    if not found:
        return None
    raise UsageError(f"{file} holds {len(found)} models, {names}: name one, as in {file}/{found[0][0]}")


Entry = Tuple[str, zipfile.ZipFile, zipfile.ZipInfo]


def _models(archive: zipfile.ZipFile, within: str, depth: int) -> Iterator[Entry]:
    """The models of an archive and of the archives in it: the path to each, and the archive that holds it."""
    members = archive.infolist()
    if len(members) > _MOST_MEMBERS or depth > _DEEPEST:
        return
    for info in members:
        if info.is_dir() or info.flag_bits & _ENCRYPTED:
            continue
        with archive.open(info) as stream:
            head = stream.read(_HEAD)
        name = f"{within}{info.filename}"
        if head[4:8] == _TFLITE or (PurePosixPath(info.filename).suffix.lower() == ".onnx" and head):
            yield name, archive, info
        elif head.startswith(MAGIC):
            inner = io.BytesIO(_content(archive, info, name))
            if zipfile.is_zipfile(inner):
                yield from _models(zipfile.ZipFile(inner), f"{name}/", depth + 1)


def _content(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> bytes:
    """A member's content. ResourceError if its declared size exceeds memory, FormatError if it exceeds that size."""
    require_memory(info.file_size, name)
    with archive.open(info) as stream:
        content = stream.read(info.file_size + 1)
    if len(content) != info.file_size:
        raise FormatError(f"{name} is not as long as its archive says")
    return content
