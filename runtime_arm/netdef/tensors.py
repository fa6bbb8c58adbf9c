"""Converts between the fields of a TensorProto and NumPy arrays."""

from __future__ import annotations

import math
from typing import Any, Optional

import numpy as np

from runtime_arm.errors import FormatError
from runtime_arm.netdef import dtypes
from runtime_arm.netdef.values import Array, frozen
from runtime_arm.netdef.wire import WireError

_MOST_ELEMENTS, _MOST_DIMS = 1 << 60, 32

_WIDE_FIELD = {dtypes.FLOAT: "float_data", dtypes.DOUBLE: "double_data", dtypes.INT64: "int64_data"}
_IN_INT32_DATA = (dtypes.INT32, dtypes.BOOL, dtypes.UINT8, dtypes.INT8, dtypes.UINT16, dtypes.INT16, dtypes.FLOAT16)
_IN_BYTE_DATA = (dtypes.BYTE, dtypes.UINT8, dtypes.INT8, dtypes.BOOL)


def array_of_fields(**fields: Any) -> Array:
    """The read-only array that the fields of a TensorProto describe. WireError if length and shape contradict."""
    number = fields.get("data_type", dtypes.FLOAT)
    dtype = dtypes.dtype_of(number)
    if dtype is None:
        raise WireError(f"data type {number} is not supported")
    shape = _shape(fields.get("dims", ()))
    values = _values(fields, number, dtype, shape)
    if values.size != math.prod(shape):
        raise WireError(f"dims {list(shape)} need {math.prod(shape)} elements, the data has {values.size}")
    try:
        return frozen(values.reshape(shape))
    except (ValueError, OverflowError):  # empty arrays whose other dims are beyond NumPy
        raise WireError(f"dims {list(shape)} are not possible") from None


def _shape(dims: Any) -> tuple[int, ...]:
    if len(dims) > _MOST_DIMS:
        raise WireError(f"{len(dims)} dims are more than the {_MOST_DIMS} that are possible")
    shape = tuple(int(dim) for dim in dims)
    if any(dim < 0 for dim in shape) or math.prod(shape) > _MOST_ELEMENTS:
        raise WireError(f"dims {list(shape)} are not possible")
    return shape


def _values(fields: dict[str, Any], number: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    if number == dtypes.STRING:
        strings = fields.get("string_data", [])
        values = np.empty(len(strings), object)
        values[:] = strings
        return values
    if "raw_data" in fields:
        wide = None
        if fields.get("data_format"):
            from runtime_arm.netdef.narrow import widened  # few nets need it at the start

            wide = widened(fields["raw_data"], number, fields["data_format"], math.prod(shape))
        return _from_raw(fields["raw_data"], dtype) if wide is None else wide
    if number in _WIDE_FIELD:
        return np.asarray(fields.get(_WIDE_FIELD[number], ()), dtype)
    if number in _IN_BYTE_DATA and "byte_data" in fields:
        return _from_raw(fields["byte_data"], dtype)
    if number in _IN_INT32_DATA:
        return _from_int32_data(np.asarray(fields.get("int32_data", ()), np.int64), dtype)
    return np.zeros(0, dtype)


def _from_raw(raw: memoryview, dtype: np.dtype[Any]) -> Array:
    """The little-endian values of ``raw``; a view if it is aligned."""
    if len(raw) % dtype.itemsize:
        raise WireError(f"raw_data of {len(raw)} bytes is no multiple of {dtype.itemsize}")
    if not len(raw):
        return np.zeros(0, dtype)
    if dtype == np.bool_:
        flags: Array = np.frombuffer(raw, np.uint8) != 0
        return flags
    return np.require(np.frombuffer(raw, dtype.newbyteorder("<")), dtype, ["ALIGNED"])


def _from_int32_data(values: Array, dtype: np.dtype[Any]) -> Array:
    pattern = np.dtype(np.uint16) if dtype == np.float16 else np.dtype(np.uint8) if dtype == np.bool_ else dtype
    limits = np.iinfo(pattern)
    if values.size and not limits.min <= values.min() <= values.max() <= limits.max:
        wrong = values[(values < limits.min) | (values > limits.max)][0]
        raise WireError(f"int32_data holds {wrong}, which is no {dtype.name}")
    narrow = values.astype(pattern)
    return narrow != 0 if dtype == np.bool_ else narrow.view(dtype)


def _narrowed(array: Array) -> Optional[tuple[int, bytes]]:
    from runtime_arm.netdef.narrow import narrowed  # few nets are written that way

    return narrowed(array)


def fields_of_array(array: Array, blanks: int, narrow: bool) -> dict[str, Any]:
    """The fields of a TensorProto with ``array`` as raw_data, after ``blanks`` characters of filler.

    narrow: small arrays whose numbers fit are stored in fewer bytes, without filler, since no reader uses those in
    place.
    """
    number = dtypes.number_of(array.dtype)
    if number is None:
        raise FormatError(f"an array of {array.dtype.name} has no place in a net")
    fields: dict[str, Any] = {"dims": np.array(array.shape, np.int64), "data_type": number}
    if number == dtypes.STRING:
        fields["string_data"] = [_bytes(item) for item in array.ravel()]
    elif narrow and (few := _narrowed(array)) is not None:
        fields["data_format"], fields["raw_data"] = few
    else:
        little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        fields["name"] = " " * blanks
        fields["raw_data"] = little.reshape(-1).view(np.uint8).data
    return fields


def _bytes(item: Any) -> bytes:
    if isinstance(item, (str, bytes)):
        return item.encode() if isinstance(item, str) else item
    raise FormatError(f"an array of objects may hold strings only, not {type(item).__name__}")
