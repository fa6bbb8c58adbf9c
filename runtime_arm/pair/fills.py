"""The operators of an init_net: fills, which carry the weights."""

from __future__ import annotations

from typing import Optional, Tuple

import numpy as np

from runtime_arm.errors import ExportError
from runtime_arm.netdef import Argument, Array, OperatorDef, frozen
from runtime_arm.netdef.dtypes import DTYPE_OF_FILL, dtype_of

CONSTANT_FILL, ANY_DTYPE = "ConstantFill", "GivenTensorFill"  # in armnet, the latter's tensor may have any dtype
_FILL_OF_DTYPE = {dtype: type for type, dtype in DTYPE_OF_FILL.items()}


def fill(name: str, value: Array, unpacked: bool = False) -> OperatorDef:
    """The operator of an init_net that makes a constant.

    unpacked: with the values as a list, as Caffe2 writes them, instead of as a tensor. ExportError for a dtype that
    Caffe2 has no fill for.
    """
    type = _FILL_OF_DTYPE.get(value.dtype.name)
    if not unpacked:
        return OperatorDef.of(type or ANY_DTYPE, [], [name], values=value)
    if type is None:
        raise ExportError(f"constant {name!r}: Caffe2 has no fill for {value.dtype.name}")
    flat = value.reshape(-1)
    if flat.dtype.kind == "f":
        content = Argument("values", floats=frozen(flat.astype(np.float32)))
    else:
        content = Argument("values", ints=frozen(flat.astype(np.int64)))
    return OperatorDef(type, (), (name,), (Argument.of("shape", list(value.shape)), content))


def filled_shape(fill: OperatorDef) -> Optional[Tuple[int, ...]]:
    """The shape that the arguments of a fill state; None if they do not."""
    values = fill.argument("values")
    if values is not None and values.t is not None:
        return tuple(values.t.shape)
    shape = fill.argument("shape")
    return None if shape is None else tuple(int(size) for size in shape.ints)


def filled_dtype(fill: OperatorDef) -> Optional[str]:
    """The name of the dtype that a fill makes; None if it is not a fill of numbers, or its dtype is not stated."""
    if not _is_known(fill):
        return None
    values, stated = fill.argument("values"), fill.argument("dtype")
    if values is not None and values.t is not None:
        return str(values.t.dtype.name)
    if stated is not None and fill.type in (CONSTANT_FILL, ANY_DTYPE):
        dtype = None if stated.i is None else dtype_of(stated.i)
        return None if dtype is None else str(dtype.name)
    return DTYPE_OF_FILL.get(fill.type, "float32")


def is_zeros(fill: OperatorDef) -> bool:
    """Whether a fill of numbers makes nothing but zeros."""
    if not _is_known(fill):
        return False
    values = fill.argument("value" if fill.type == CONSTANT_FILL else "values")
    if values is None:
        return True
    if values.t is not None:
        return not values.t.any()
    return not (values.floats.any() or values.ints.any() or values.f or values.i)


def _is_known(fill: OperatorDef) -> bool:
    return fill.type == CONSTANT_FILL or fill.type in DTYPE_OF_FILL
