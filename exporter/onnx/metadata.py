"""Reads what an ONNX model says about itself in its metadata, in the form of a pair's model.json.

Ultralytics writes the task, the names of the classes and the shape of the points; RapidOCR writes the characters that a
text recogniser knows. The metadata is not trusted: entries that do not have the expected form are ignored.
"""

from __future__ import annotations

from ast import literal_eval
from typing import Any, Dict, List

_PROPERTIES = ("task", "kpt_shape", "stride", "end2end", "description")
_LONGEST, _LONGEST_LABELS = 200, 1 << 20  # characters


def told(model: Any) -> Dict[str, Any]:
    """``properties`` of the source, and ``labels``, as far as the ModelProto has them."""
    entries = {entry.key: entry.value for entry in model.metadata_props}
    properties = {key: entries[key] for key in _PROPERTIES if 0 < len(entries.get(key, "")) <= _LONGEST}
    if model.producer_name:
        properties["producer"] = model.producer_name[:_LONGEST]
    labels = _names(entries.get("names", "")) or _lines(entries.get("character", ""))
    return {"properties": properties, **({"labels": labels} if labels else {})}


def _names(text: str) -> List[str]:
    """The values of "{0: 'person', 1: 'bicycle'}" if its keys count from 0."""
    if not text.startswith("{") or len(text) > _LONGEST_LABELS:
        return []
    try:
        names = literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return []
    if not isinstance(names, dict) or sorted(map(str, names)) != sorted(map(str, range(len(names)))):
        return []
    return [str(names[key]) for key in sorted(names, key=lambda key: int(str(key)))]


def _lines(text: str) -> List[str]:
    return text.split("\n") if len(text) <= _LONGEST_LABELS and text.strip() else []
