"""Caffe2's TensorProto.DataType numbers, and the NumPy dtypes that they stand for."""

from __future__ import annotations

from typing import Any

import numpy as np

FLOAT, INT32, BYTE, STRING, BOOL, UINT8, INT8, UINT16, INT16, INT64 = range(1, 11)
FLOAT16, DOUBLE = 12, 13
# Not in Caffe2: ONNX has these two, and a cast to them must survive in a pair.
UINT32, UINT64 = 101, 102

_NUMBER_OF_NAME = {
    "float32": FLOAT,
    "int32": INT32,
    "object": STRING,
    "bool": BOOL,
    "uint8": UINT8,
    "int8": INT8,
    "uint16": UINT16,
    "int16": INT16,
    "int64": INT64,
    "float16": FLOAT16,
    "float64": DOUBLE,
    "uint32": UINT32,
    "uint64": UINT64,
}
NAMES = frozenset(_NUMBER_OF_NAME)  # of the NumPy dtypes that a blob can have
_DTYPE_OF_NUMBER = {number: np.dtype(name) for name, number in _NUMBER_OF_NAME.items()}
_DTYPE_OF_NUMBER[BYTE] = np.dtype("uint8")

# The Caffe2 operators that fill a blob with a list of numbers, and the dtype of that blob.
DTYPE_OF_FILL = {
    "GivenTensorFill": "float32",  # unless its argument ``dtype`` names another
    "GivenTensorDoubleFill": "float64",
    "GivenTensorBoolFill": "bool",
    "GivenTensorInt16Fill": "int16",
    "GivenTensorIntFill": "int32",
    "GivenTensorInt64Fill": "int64",
}


def dtype_of(number: int) -> np.dtype[Any] | None:
    """The NumPy dtype of a Caffe2 data type number, ``object`` for strings; None if there is none."""
    return _DTYPE_OF_NUMBER.get(number)


def number_of(dtype: np.dtype[Any]) -> int | None:
    """The Caffe2 data type number of a NumPy dtype; None if there is none (complex, structured)."""
    return _NUMBER_OF_NAME.get(np.dtype(dtype).name)
