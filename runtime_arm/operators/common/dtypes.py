"""Groups of dtypes that operators accept."""

from __future__ import annotations

from typing import Optional, Tuple

from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.schema import require
from runtime_arm.registry.specs import TensorSpec

Dtypes = Tuple[str, ...]

BOOL: Dtypes = ("bool",)
FLOAT32: Dtypes = ("float32",)
FLOAT32_64: Dtypes = ("float32", "float64")
FLOATS: Dtypes = ("float16", "float32", "float64")
SIGNED: Dtypes = ("int8", "int16", "int32", "int64")
UNSIGNED: Dtypes = ("uint8", "uint16", "uint32", "uint64")
INTEGERS: Dtypes = SIGNED + UNSIGNED
NUMBERS: Dtypes = INTEGERS + FLOATS
CAFFE2_NUMBERS: Dtypes = ("int32", "int64", "float32", "float64")


def require_same_dtype(op: OperatorDef, *specs: Optional[TensorSpec]) -> None:
    """ShapeError unless all inputs that are given have one dtype."""
    require(op, len({spec.dtype for spec in specs if spec is not None}) <= 1, "inputs must be of one dtype", *specs)
