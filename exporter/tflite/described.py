"""Everything that a TFLite file's metadata says, as nested dictionaries, and the files that are packed with the model.

What has its default value is left out, as in FlatBuffers' text form.
"""

from __future__ import annotations

import zipfile
import zlib
from typing import Any, Dict, List, Optional

from exporter.tflite.flatbuffer import Table, open_flatbuffer
from exporter.tflite.metadata import IDENTIFIER, NAME, View
from exporter.tflite.metadata_tables import FLOATS, NUMBER, TABLES, TEXT, TEXTS, Kind, Many, Named, One, OneOf
from exporter.tflite.reader import TfliteFile

LARGEST_FILE = 1 << 26  # bytes, of a packed file


def described(file: TfliteFile) -> Optional[Dict[str, Any]]:
    """What the metadata says; None if the file has none. FormatError if it is damaged."""
    if NAME not in file.metadata:
        return None
    return _of_table(open_flatbuffer(file.metadata[NAME], IDENTIFIER, "ModelMetadata"), "ModelMetadata")


def packed_files(file: TfliteFile) -> Dict[str, bytes]:
    """The files that follow the model, such as its labels, by name; those that are damaged or too large are left
    out.
    """
    found: Dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(View(file.data)) as archive:
            for info in archive.infolist():
                if info.file_size <= LARGEST_FILE:
                    with archive.open(info) as packed:
                        found[info.filename] = packed.read(LARGEST_FILE)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, OSError, ValueError):
        pass
    return found


def _of_table(table: Table, kind: str) -> Dict[str, Any]:
    found: Dict[str, Any] = {}
    for name, field in TABLES[kind].items():
        value = _of_field(table, name, field)
        if isinstance(field, OneOf) and value is not None:
            found[f"{name}_type"] = value[0]
            value = value[1]
        if value is not None and value != "" and value != []:
            found[name] = value
    return {name: value for name, value in found.items() if not (name.endswith("_type") and isinstance(value, int))}


def _of_field(table: Table, name: str, field: Kind) -> Any:
    if isinstance(field, One):
        inner = table.table(name, field.kind)
        return None if inner is None else _of_table(inner, field.kind)
    if isinstance(field, Many):
        return [_of_table(one, field.kind) for one in table.tables(name, field.kind)]
    if isinstance(field, OneOf):
        number = table.integer(f"{name}_type")
        if not 0 < number < len(field.kinds):
            return None
        inner = table.table(name, field.kinds[number])
        return None if inner is None else (field.kinds[number], _of_table(inner, field.kinds[number]))
    if isinstance(field, Named):
        number = table.integer(name)
        return field.names[number] if 0 < number < len(field.names) else None
    return _of_plain(table, name, field)


def _of_plain(table: Table, name: str, field: str) -> Any:
    if field == TEXT:
        return table.text(name)
    if field == TEXTS:
        return table.texts(name)
    if field == NUMBER:
        return table.number(name) or None
    numbers: List[Any] = table.vector(name, "f4" if field == FLOATS else "u4").tolist()
    return numbers
