"""Conversion between dtypes, with the same results on every CPU. Shared by every operator that casts.

Floats become integers by rounding towards zero. C leaves open what happens to a float that does not fit, and ARM and
x86 differ. Here uint64, int64 and int32 saturate, and NaN becomes their smallest number. Narrower integers are the low
bits of the int32 (uint32: of the int64), as compiled C gives them on x86: 300.5 becomes 44 in uint8, -1.5 becomes 255.
Between integers the low bits are kept. Every number but 0 is true. TFLite's rule for floats is another one: see
``tflite.Cast``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef, dtypes

STRING = np.dtype(object)
LARGEST_HALF = np.float32(65504)  # what float16 can hold


def saturating(dtype: Any) -> np.dtype[Any]:
    """The integers that saturate on the way from floats to ``dtype``."""
    return np.dtype({"int64": np.int64, "uint32": np.int64, "uint64": np.uint64}.get(np.dtype(dtype).name, np.int32))


def to_integers(x: Any, dtype: Any) -> Array:
    """Floats as integers of ``dtype``, by the rule at the top of this file."""
    wide = saturating(dtype)
    if wide != np.uint64 and np.size(x) and float(np.abs(x).max()) < 2.0**31:
        return np.asarray(x).astype(wide).astype(dtype)
    limits = np.iinfo(wide)
    values = np.fmax(np.asarray(x, np.float64), float(limits.min))  # fmax passes NaN over
    fits = values < float(limits.max)  # 2**63 for int64, which is the first float that does not fit
    whole = np.where(fits, values, 0.0).astype(wide)
    return np.where(fits, whole, limits.max).astype(wide).astype(dtype)


def cast(x: Array, dtype: Any) -> Array:
    """A fresh array: the numbers or booleans ``x`` in ``dtype``, by the rule at the top of this file."""
    if x.dtype.kind == "f" and np.dtype(dtype).kind in "iu":
        return to_integers(x, dtype)
    return x.astype(dtype)


CAFFE2_TYPES = {
    "FLOAT": dtypes.FLOAT,
    "INT32": dtypes.INT32,
    "STRING": dtypes.STRING,
    "BOOL": dtypes.BOOL,
    "UINT8": dtypes.UINT8,
    "INT8": dtypes.INT8,
    "UINT16": dtypes.UINT16,
    "INT16": dtypes.INT16,
    "INT64": dtypes.INT64,
    "DOUBLE": dtypes.DOUBLE,
}


def caffe2_dtype(op: OperatorDef, name: str) -> np.dtype[Any]:
    """The dtype that a Caffe2 argument gives by number or by name (in any case); float32 where it is absent."""
    argument = op.argument(name)
    if argument is not None and argument.s is not None:
        number = CAFFE2_TYPES.get(op.get_str(name).upper(), 0)
    else:
        number = op.get_int(name, dtypes.FLOAT)
    dtype = dtypes.dtype_of(number) if number in CAFFE2_TYPES.values() else None
    if dtype is None:
        raise ArgumentError(op, f"{name} must be one of {', '.join(CAFFE2_TYPES)} or its number")
    return dtype
