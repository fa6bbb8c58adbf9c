"""Reads a TFLite file's metadata about pictures and labels, in the form of a pair's model.json.

The metadata is a FlatBuffer with a schema of its own ("M001"); labels are in a zip archive after the model. Both are
optional: damaged or unknown parts are ignored. Source: TFLite Support, metadata_schema.fbs.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from typing import Any, Dict, List, Optional

from exporter.tflite import metadata_tables
from exporter.tflite.flatbuffer import Table, open_flatbuffer
from exporter.tflite.reader import Graph, TfliteFile
from runtime_arm.errors import FormatError

NAME, IDENTIFIER = "TFLITE_METADATA", b"M001"
_LARGEST_LABELS = 1 << 20  # bytes
_NORMALIZATION, _IMAGE = 1, 2  # in the unions ProcessUnitOptions and ContentProperties
_COLORS = {1: "RGB", 2: "GRAY"}

metadata_tables.declare_all()


def picture_meta(file: TfliteFile, graph: Graph) -> Dict[str, Any]:
    """``preprocessing`` of the first input, if it is a picture, and ``labels``, as far as the file has them."""
    found: Dict[str, Any] = {}
    first = graph.tensors[graph.inputs[0]] if graph.inputs else None
    if first is not None and len(first.dims) == 4 and first.dims[3] in (1, 3):
        found["preprocessing"] = {"layout": "NHWC", **_told(file, first.type == "FLOAT32")}
    labels = _labels(file.data) if NAME in file.metadata else []
    return {**found, **({"labels": labels} if labels else {})}


def _told(file: TfliteFile, floats: bool) -> Dict[str, Any]:
    """The channel order, and for float pictures mean and deviation, from the metadata."""
    try:
        tensor = _first_input(file)
        if tensor is None:
            return {}
        content = tensor.table("content", "Content")
        found: Dict[str, Any] = {}
        if content is not None and content.integer("content_properties_type") == _IMAGE:
            image = content.table("content_properties", "ImageProperties")
            color = 0 if image is None else image.integer("color_space")
            found.update({"channels": _COLORS[color]} if color in _COLORS else {})
        for unit in tensor.tables("process_units", "ProcessUnit") if floats else ():
            if unit.integer("options_type") == _NORMALIZATION:
                found.update(_normalization(unit.table("options", "NormalizationOptions")))
        return found
    except FormatError:
        return {}


def _first_input(file: TfliteFile) -> Optional[Table]:
    if NAME not in file.metadata:
        return None
    graphs = open_flatbuffer(file.metadata[NAME], IDENTIFIER, "ModelMetadata").tables(
        "subgraph_metadata", "SubGraphMetadata"
    )
    tensors = graphs[0].tables("input_tensor_metadata", "TensorMetadata") if graphs else []
    return tensors[0] if tensors else None


def _normalization(options: Optional[Table]) -> Dict[str, List[float]]:
    if options is None:
        return {}
    values = {name: [float(number) for number in options.vector(name, "f4")[:3]] for name in ("mean", "std")}
    return values if all(values.values()) and min(map(abs, values["std"])) > 0 else {}


def _labels(data: memoryview) -> List[str]:
    """The lines of the archive's label file, if it has exactly one."""
    try:
        with zipfile.ZipFile(View(data)) as archive:
            names = [name for name in archive.namelist() if name.endswith(".txt") and "label" in name]
            if len(names) != 1 or archive.getinfo(names[0]).file_size > _LARGEST_LABELS:
                return []
            with archive.open(names[0]) as file:
                return file.read(_LARGEST_LABELS).decode("utf-8", "replace").splitlines()
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, OSError, ValueError):
        return []


class View(io.RawIOBase):
    """A mapped file in the form that zipfile needs, without a copy."""

    def __init__(self, data: memoryview):
        super().__init__()
        self._data, self._at = data, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: len(self._data)}[whence]
        self._at = max(start + offset, 0)
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: Optional[int] = -1) -> bytes:
        end = len(self._data) if size is None or size < 0 else self._at + size
        part = bytes(self._data[self._at : end])
        self._at += len(part)
        return part
