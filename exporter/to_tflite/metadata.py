"""Writes what a pair's model.json says about pictures and labels as TFLite's metadata, which apps read.

The metadata is a FlatBuffer with a schema of its own ("M001"); labels are in a zip archive after the model. Source:
TFLite Support, metadata_schema.fbs; the numbers below are its slots. ``exporter.tflite.metadata`` reads both.
"""

from __future__ import annotations

import io
import zipfile
from typing import Any, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.imports import needed_for

NAME = "TFLITE_METADATA"
_IDENTIFIER, _LABELS = b"M001", "labels.txt"
_NORMALIZATION, _IMAGE = 1, 2  # in the unions ProcessUnitOptions and ContentProperties
_COLORS = {"RGB": 1, "GRAY": 2}
_AXIS_LABELS = 2  # AssociatedFileType
Slots = Sequence[Tuple[int, str, Any]]


def metadata_of(name: str, rule: Mapping[str, Any], inputs: int, outputs: int, labels: bool) -> bytes:
    """The metadata of a net whose first input is a picture, prepared by ``rule``; without a rule it says less.

    labels: whether the archive has labels, which are those of the first output.
    """
    with needed_for("TFLite's metadata"):
        import flatbuffers
    builder = _Builder(flatbuffers.Builder(1024))
    tensors = [builder.table(*builder.picture(rule))] + [builder.table() for _ in range(inputs - 1)] if inputs else []
    found = [builder.table(*builder.labelled(labels and index == 0)) for index in range(outputs)]
    graph = builder.table((2, "offset", builder.offsets(tensors)), (3, "offset", builder.offsets(found)))
    slots = [(0, "offset", builder.text(name)), (3, "offset", builder.offsets([graph]))]
    return builder.finished(builder.table(*slots))


def with_labels(content: bytes, labels: Optional[Sequence[str]]) -> bytes:
    """The file, followed by an archive of its labels if it has any."""
    if not labels:
        return content
    whole = io.BytesIO(content)
    with zipfile.ZipFile(whole, "a") as archive:
        archive.writestr(zipfile.ZipInfo(_LABELS), "".join(f"{label}\n" for label in labels))
    return whole.getvalue()


class _Builder:
    """Tables by their slots; children are written before their parents."""

    def __init__(self, builder: Any):
        self._builder = builder

    def table(self, *slots: Tuple[int, str, Any]) -> int:
        """A table with these fields: slot, kind and value."""
        builder = self._builder
        builder.StartObject(max((slot for slot, _, _ in slots), default=-1) + 1)
        for slot, kind, value in slots:
            if kind == "offset":
                builder.PrependUOffsetTRelativeSlot(slot, value, 0)
            else:
                builder.PrependInt8Slot(slot, value, 0)
        offset: int = builder.EndObject()
        return offset

    def offsets(self, offsets: Sequence[int]) -> int:
        self._builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            self._builder.PrependUOffsetTRelative(offset)
        vector: int = self._builder.EndVector()
        return vector

    def text(self, text: str) -> int:
        offset: int = self._builder.CreateString(text)
        return offset

    def finished(self, root: int) -> bytes:
        self._builder.Finish(root, file_identifier=_IDENTIFIER)
        return bytes(self._builder.Output())

    def picture(self, rule: Mapping[str, Any]) -> Slots:
        """The fields of an input: colours, mean and deviation of pixels from 0 to 255."""
        slots: List[Tuple[int, str, Any]] = []
        color = _COLORS.get(str(rule.get("channels", "")))
        if color is not None:
            image = self.table((0, "byte", color))
            slots.append((3, "offset", self.table((0, "byte", _IMAGE), (1, "offset", image))))
        if {"mean", "std", "scale"} & set(rule):
            scale = float(rule.get("scale", 1.0))
            numbers = [
                np.atleast_1d(np.float64(rule.get(key, start))) / scale for key, start in (("mean", 0), ("std", 1))
            ]
            mean, deviation = (self._builder.CreateNumpyVector(one.astype(np.float32)) for one in numbers)
            options = self.table((0, "offset", mean), (1, "offset", deviation))
            unit = self.table((0, "byte", _NORMALIZATION), (1, "offset", options))
            slots.append((4, "offset", self.offsets([unit])))
        return slots

    def labelled(self, has_labels: bool) -> Slots:
        """The fields of an output."""
        if not has_labels:
            return []
        file = self.table((0, "offset", self.text(_LABELS)), (2, "byte", _AXIS_LABELS))
        return [(6, "offset", self.offsets([file]))]
