"""ONNX tensors as NumPy arrays: views of the model file, or of an external data file, wherever the bytes allow it."""

from __future__ import annotations

import math
import os
import sys
from typing import Any, Dict, Union

import numpy as np

from exporter.onnx.protos import SparseTensorProto, TensorProto
from exporter.onnx.reader import OnnxFile
from exporter.onnx.schema import DATA_TYPES, EXTERNAL
from runtime_arm.errors import ExportError
from runtime_arm.files import map_file
from runtime_arm.machine.memory import require_memory
from runtime_arm.netdef import Array
from runtime_arm.operators.common.number_formats import FORMATS, unpacked

DTYPES: Dict[int, np.dtype[Any]] = {
    DATA_TYPES.index(name): np.dtype(dtype)
    for name, dtype in (
        ("FLOAT", "float32"),
        ("DOUBLE", "float64"),
        ("FLOAT16", "float16"),
        ("INT8", "int8"),
        ("INT16", "int16"),
        ("INT32", "int32"),
        ("INT64", "int64"),
        ("UINT8", "uint8"),
        ("UINT16", "uint16"),
        ("UINT32", "uint32"),
        ("UINT64", "uint64"),
        ("BOOL", "bool"),
        ("STRING", "object"),
    )
}
# Types that NumPy lacks, by the names of their formats (runtime_arm/operators/common/number_formats.py).
NARROW: Dict[int, str] = {DATA_TYPES.index(name.upper()): name for name in FORMATS}
# The dtypes of blobs; those of narrow types hold all their numbers.
BLOB_DTYPES = {**DTYPES, **{number: FORMATS[name].carrier for number, name in NARROW.items()}}
_MOST_DIMS = 32
_MOST_ELEMENTS = sys.maxsize >> 4  # NumPy counts bytes of empty arrays, too, as if no dimension were 0
# Everything else of up to 32 bits is in int32_data.
_FIELD_OF = {
    "float32": ("float_data", "f4"),
    "float64": ("double_data", "f8"),
    "int64": ("int64_data", "i8"),
    "uint32": ("uint64_data", "u8"),
    "uint64": ("uint64_data", "u8"),
}


def dtype_name(number: int) -> str:
    """ONNX's name of a data type number, for messages."""
    return DATA_TYPES[number] if 0 <= number < len(DATA_TYPES) else str(number)


class Weights:
    """Reads the tensors of one model."""

    def __init__(self, file: OnnxFile):
        self._folder = file.folder
        self._mapped: Dict[str, memoryview] = {}

    def array(self, tensor: TensorProto, what: str) -> Array:
        """The tensor's content. ExportError, starting with ``what``, if shape, type, length or place are wrong."""
        if tensor.data_type in NARROW:
            shape = _shape(tensor.dims, what)
            return unpacked(self.codes(tensor, what), NARROW[tensor.data_type], math.prod(shape)).reshape(shape)
        dtype = DTYPES.get(tensor.data_type)
        if dtype is None:
            raise ExportError(f"{what}: the data type {dtype_name(tensor.data_type)} is not supported")
        shape = _shape(tensor.dims, what)
        return self._values(tensor, dtype, math.prod(shape), what).reshape(shape)

    def codes(self, tensor: TensorProto, what: str) -> Array:
        """The codes of a tensor of a narrow type, flat: uint8, or uint16 for bfloat16."""
        form = FORMATS[NARROW[tensor.data_type]]
        count = math.prod(_shape(tensor.dims, what))
        dtype, length = (np.uint16, count) if form.bits == 16 else (np.uint8, -(-count // form.per_byte))
        return self._values(tensor, np.dtype(dtype), length, what)

    def _values(self, tensor: TensorProto, dtype: np.dtype[Any], count: int, what: str) -> Array:
        if dtype.kind == "O":
            values = _strings(tensor, what)
        elif tensor.data_location == EXTERNAL:
            values = self._external(tensor, dtype, count, what)
        elif tensor.raw_data is not None:
            values = _from_bytes(tensor.raw_data, dtype, what)
        else:
            values = _from_fields(tensor, dtype, what)
        if values.size != count:
            raise ExportError(f"{what}: dims {list(tensor.dims)} need {count} elements, the data has {values.size}")
        return values

    def sparse(self, tensor: SparseTensorProto, what: str) -> Array:
        """The dense content of a sparse tensor: ``indices`` are flat positions or one row of coordinates a value."""
        shape = _shape(tensor.dims, what)
        values = self.array(tensor.values, what)
        indices = self.array(tensor.indices, f"{what}: indices")
        require_memory(math.prod(shape) * values.itemsize, what)
        dense = np.zeros(shape, values.dtype)
        if indices.shape not in ((values.size,), (values.size, len(shape))):
            held = f"{values.size} values in dims {list(shape)}"
            raise ExportError(f"{what}: {held} have indices of shape {list(indices.shape)}")
        limits = np.array(shape) if indices.ndim == 2 else dense.size
        if ((indices < 0) | (indices >= limits)).any():
            raise ExportError(f"{what}: an index lies outside dims {list(shape)}")
        if indices.ndim == 2:
            dense[tuple(indices.T)] = values.reshape(-1)
        else:
            dense.reshape(-1)[indices] = values.reshape(-1)
        return dense

    def _external(self, tensor: TensorProto, dtype: np.dtype[Any], count: int, what: str) -> Array:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location")
        if not location:
            raise ExportError(f"{what}: external data without a location")
        content = self._map(location, what)
        needed = count * dtype.itemsize
        offset, length = _number(entries, "offset", 0, what), _number(entries, "length", needed, what)
        if length != needed:
            dims = f"dims {list(tensor.dims)} of {dtype.name}"
            raise ExportError(f"{what}: {dims} need {needed} bytes, the data has {length}")
        if offset + length > len(content):
            raise ExportError(f"{what}: the data ends at byte {offset + length}, {location} has {len(content)}")
        return _from_bytes(content[offset : offset + length], dtype, what)

    def _map(self, location: str, what: str) -> memoryview:
        """The content of an external data file, which must lie in the model's folder."""
        if location not in self._mapped:
            self._mapped[location] = map_file(self._inside_folder(location, what))
        return self._mapped[location]

    def _inside_folder(self, location: str, what: str) -> str:
        if self._folder is None:
            raise ExportError(f"{what}: external data {location!r}, but the model does not come from a folder")
        if "\0" in location:
            raise ExportError(f"{what}: external data {location!r}: no such file")
        folder = os.path.realpath(self._folder)
        parts = location.replace("\\", "/").split("/")
        path = os.path.realpath(os.path.join(folder, *parts))
        outside = os.path.isabs(location) or ".." in parts
        if outside or os.path.commonpath([folder, path]) != folder:
            raise ExportError(f"{what}: external data {location!r} is outside the model's folder")
        if not os.path.isfile(path):
            raise ExportError(f"{what}: external data {path}: no such file")
        return path


def _shape(dims: Any, what: str) -> tuple[int, ...]:
    shape = tuple(int(dim) for dim in dims)
    elements = math.prod(dim or 1 for dim in shape)
    if len(shape) > _MOST_DIMS or any(dim < 0 for dim in shape) or elements > _MOST_ELEMENTS:
        raise ExportError(f"{what}: dims {list(shape[:_MOST_DIMS])} are not possible")
    return shape


def _number(entries: Dict[str, str], key: str, default: int, what: str) -> int:
    text = entries.get(key, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise ExportError(f"{what}: external data with the {key} {text[:40]!r}")
    return int(text)


def _from_bytes(raw: Union[bytes, memoryview], dtype: np.dtype[Any], what: str) -> Array:
    if len(raw) % dtype.itemsize:
        raise ExportError(f"{what}: {len(raw)} bytes are not a multiple of {dtype.itemsize}")
    if not len(raw):
        return np.zeros(0, dtype)
    if dtype == np.bool_:
        flags: Array = np.frombuffer(raw, np.uint8) != 0
        return flags
    return np.frombuffer(raw, dtype.newbyteorder("<")).astype(dtype, copy=False)


def _strings(tensor: TensorProto, what: str) -> Array:
    if tensor.raw_data is not None or tensor.data_location == EXTERNAL:
        raise ExportError(f"{what}: strings must be in string_data")
    values = np.empty(len(tensor.string_data), object)
    values[:] = list(tensor.string_data)
    return values


def _from_fields(tensor: TensorProto, dtype: np.dtype[Any], what: str) -> Array:
    """The content from the typed fields."""
    field, wide = _FIELD_OF.get(dtype.name, ("int32_data", "i4"))
    values: Array = getattr(tensor, field).astype(wide, copy=False)
    if not values.size or values.dtype == dtype:
        return values.astype(dtype, copy=False)
    limits = np.iinfo(np.uint16 if dtype == np.float16 else np.uint8 if dtype == np.bool_ else dtype)
    if values.min() < limits.min or values.max() > limits.max:
        raise ExportError(f"{what}: the data holds a value that does not fit into {dtype.name}")
    if dtype == np.float16:
        return values.astype(np.uint16).view(np.float16)
    return values.astype(dtype)
