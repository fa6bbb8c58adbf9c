"""The source file of a pair: its name in errors and in model.json."""

from __future__ import annotations

import hashlib
import os
from contextlib import contextmanager
from typing import Dict, Iterator, Union

from runtime_arm.errors import ArmnetError, ExportError
from runtime_arm.files import AnyPath


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
