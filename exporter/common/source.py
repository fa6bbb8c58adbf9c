"""The source of a pair, a file or bytes in memory: its content, and its name in errors and in model.json."""

from __future__ import annotations

import hashlib
import os
from contextlib import contextmanager
from typing import Any, Dict, Iterator, Tuple, Union

from runtime_arm.errors import ArmnetError, ExportError
from runtime_arm.files import AnyPath, map_file


class NamedBytes(bytes):
    """The content and the name of a file that is inside another one."""

    name: str

    def __new__(cls, content: bytes, name: str) -> NamedBytes:
        made = super().__new__(cls, content)
        made.name = name
        return made


InMemory = (bytes, bytearray, memoryview)
FileOrBytes = Union[AnyPath, bytes, bytearray, memoryview]


def content_of(source: Any) -> Tuple[str, memoryview]:
    """The name and the content of a file, or of bytes in memory. ResourceError if the file cannot be read."""
    if isinstance(source, InMemory):
        return getattr(source, "name", "model"), memoryview(source).cast("B")
    return os.fspath(source), map_file(source)


@contextmanager
def naming(source: AnyPath) -> Iterator[None]:
    """Turns every ArmnetError inside the block into an ExportError that names the file."""
    try:
        yield
    except ArmnetError as error:
        raise ExportError(f"{os.fspath(source)}: {error}") from error


def origin(source: AnyPath, data: Union[bytes, memoryview]) -> Dict[str, str]:
    """The entry "source" of model.json."""
    return {"name": os.path.basename(source), "sha256": hashlib.sha256(data).hexdigest()}
