"""Whether a path holds a pair."""

from __future__ import annotations

from pathlib import Path

from runtime_arm.files import AnyPath, is_zip
from runtime_arm.pair.metadata import MODEL, PREDICT_NET


def is_pair(path: AnyPath) -> bool:
    """Whether a folder or a zip file holds a pair, which may be two nets of Caffe2 alone."""
    if is_zip(path):
        from runtime_arm.pair.zipped import holds_pair

        return holds_pair(path)
    folder = Path(path)
    return folder.is_dir() and ((folder / MODEL).exists() or any(folder.glob(f"*{PREDICT_NET}")))
