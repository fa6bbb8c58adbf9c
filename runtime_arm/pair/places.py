"""What lies at a path: the folder of a pair, a zip file, or a bundle."""

from __future__ import annotations

import os
from pathlib import Path

from runtime_arm.files import AnyPath, one_line_errors
from runtime_arm.pair.metadata import MODEL, PREDICT_NET

_ZIP = b"PK\3\4"


def is_pair(path: AnyPath) -> bool:
    """Whether a folder or a zip file holds a pair, which may be two nets of Caffe2 alone."""
    if is_zip(path):
        from runtime_arm.pair.zipped import holds_pair

        return holds_pair(path)
    folder = Path(path)
    return folder.is_dir() and ((folder / MODEL).exists() or any(folder.glob(f"*{PREDICT_NET}")))


def is_zip(path: AnyPath) -> bool:
    """Whether the content of a file begins like that of a zip file. A bundle begins otherwise."""
    if not os.path.isfile(path):
        return False
    with one_line_errors(path), open(path, "rb") as file:
        return file.read(len(_ZIP)) == _ZIP


def is_zip_name(path: AnyPath) -> bool:
    """Whether a pair that is written to this path becomes a zip file."""
    return os.fspath(path).lower().endswith(".zip")


def is_bundle(path: AnyPath) -> bool:
    """Whether a path is that of a bundle, if it is that of a file of armnet's."""
    return os.path.isfile(path) and not is_zip(path)
