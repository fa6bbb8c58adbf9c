"""The operators of an init_net: fills that carry weights."""

from __future__ import annotations

import numpy as np

from runtime_arm.errors import ExportError
from runtime_arm.netdef import Argument, Array, OperatorDef, frozen

_FILLS = {
    "float32": "GivenTensorFill",
    "float64": "GivenTensorDoubleFill",
    "bool": "GivenTensorBoolFill",
    "int16": "GivenTensorInt16Fill",
    "int32": "GivenTensorIntFill",
    "int64": "GivenTensorInt64Fill",
}


def fill(name: str, value: Array, unpacked: bool = False) -> OperatorDef:
    """The operator of an init_net that makes a constant: of a tensor, or ``unpacked`` of a list as Caffe2 has it."""
    type = _FILLS.get(value.dtype.name)
    if not unpacked:
        return OperatorDef.of(type or "GivenTensorFill", [], [name], values=value)
    if type is None:
        raise ExportError(f"constant {name!r}: Caffe2 has no fill for {value.dtype.name}")
    flat = value.reshape(-1)
    if flat.dtype.kind == "f":
        content = Argument("values", floats=frozen(flat.astype(np.float32)))
    else:
        content = Argument("values", ints=frozen(flat.astype(np.int64)))
    return OperatorDef(type, (), (name,), (Argument.of("shape", list(value.shape)), content))
