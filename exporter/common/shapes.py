"""Shapes that the caller gives for inputs whose sizes are open."""

from __future__ import annotations

from typing import Mapping, Sequence

from runtime_arm.errors import ExportError
from runtime_arm.pair.metadata import TensorInfo

Shapes = Mapping[str, Sequence[int]]


def check_names(shapes: Shapes, inputs: Sequence[TensorInfo]) -> None:
    """ExportError if a shape belongs to no input."""
    names = [info.name for info in inputs]
    unknown = shapes.keys() - set(names)
    if unknown:
        raise ExportError(f"no input {min(unknown)!r}; the net takes {', '.join(names) or 'none'}")
