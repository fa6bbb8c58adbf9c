"""Numbers of a TensorProto in fewer bytes than their type has: the DataFormats that netdef.proto describes.

Only nets with the argument ``narrow_tensors``, which ``armnet quantize`` makes, are written that way. The module is
imported when a tensor has such a format; most nets have none.
"""

from __future__ import annotations

from typing import Optional

import numpy as np

from runtime_arm.netdef import dtypes
from runtime_arm.netdef.values import Array
from runtime_arm.netdef.wire import WireError

BFLOAT16, NARROW = 1, 2
LEAST_NARROWED, MOST_NARROWED = 8, 4096  # bytes of a tensor that may be stored in fewer; larger ones are mapped


def widened(raw: memoryview, number: int, format: int, count: int) -> Optional[Array]:
    """The ``count`` numbers of a data type that ``raw`` holds in this format.

    None if the data type has no such format. WireError if ``raw`` does not hold such numbers.
    """
    if number == dtypes.FLOAT and format in (BFLOAT16, NARROW):
        if len(raw) % 2:
            raise WireError(f"raw_data of {len(raw)} bytes is no multiple of 2")
        if format == NARROW:
            return np.frombuffer(raw, "<f2").astype(np.float32)
        wide = np.frombuffer(raw, "<u2").astype(np.uint32)
        wide <<= np.uint32(16)
        return wide.view(np.float32)
    return _from_low_bytes(raw, count) if number == dtypes.INT32 and format == NARROW else None


def _from_low_bytes(raw: memoryview, count: int) -> Array:
    """int32 of the lower one to three bytes of each."""
    width = len(raw) // max(count, 1)
    if not 0 < width < 4 or width * count != len(raw):
        raise WireError(f"raw_data of {len(raw)} bytes holds no {count} integers of one to three bytes")
    whole = np.zeros((count, 4), np.uint8)
    whole[:, 4 - width :] = np.frombuffer(raw, np.uint8).reshape(count, width)
    values: Array = whole.reshape(-1).view("<i4").astype(np.int32) >> np.int32(8 * (4 - width))
    return values


def narrowed(array: Array) -> Optional[tuple[int, bytes]]:
    """The format and the bytes of numbers that fit into fewer; None if they do not fit, or are too many or too few."""
    if array.dtype not in (np.float32, np.int32) or not LEAST_NARROWED <= array.nbytes <= MOST_NARROWED:
        return None
    bits = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(-1).view("<u4")
    if array.dtype == np.int32:
        size = max(int(array.max()), -1 - int(array.min())).bit_length() // 8 + 1
        return (NARROW, bits.view(np.uint8).reshape(-1, 4)[:, :size].tobytes()) if size < 4 else None
    with np.errstate(over="ignore"):
        halves = array.reshape(-1).astype("<f2")
    if np.array_equal(halves.astype("<f4").view("<u4"), bits):
        return NARROW, halves.tobytes()
    if (bits & np.uint32(0xFFFF)).any():
        return None
    return BFLOAT16, (bits >> np.uint32(16)).astype("<u2").tobytes()


def stored_nbytes(array: Array) -> int:
    """The bytes that a file holds for the numbers of an array."""
    narrow = narrowed(array)
    return array.nbytes if narrow is None else len(narrow[1])
