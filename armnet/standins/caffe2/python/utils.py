"""``caffe2.python.utils``: tensors and arguments as messages."""

from __future__ import annotations

from typing import Any

import numpy as np

from armnet.standins.caffe2.python.nets import operator_message
from armnet.standins.failures import raised_as
from runtime_arm.errors import ArmnetError
from runtime_arm.netdef import Argument, Array, NetDef, OperatorDef


def Caffe2TensorToNumpyArray(tensor: Any) -> Array:
    """The array that a TensorProto holds."""
    from armnet.standins.caffe2.proto import caffe2_pb2

    holder = caffe2_pb2.NetDef()
    argument = holder.op.add().arg.add()
    argument.t.CopyFrom(tensor)
    with raised_as(RuntimeError):
        found = NetDef.from_bytes(holder.SerializeToString()).op[0].arg[0].t
    assert found is not None
    return np.array(found)


def NumpyArrayToCaffe2Tensor(arr: Any, name: str = "") -> Any:
    """The TensorProto of an array."""
    tensor = operator_message(OperatorDef.of("", [], [], t=np.asarray(arr))).arg[0].t
    tensor.name = name
    return tensor


def MakeArgument(key: str, value: Any) -> Any:
    """The Argument of a number, a text, a message, or a list or an array of them. ValueError for anything else."""
    try:
        return operator_message(OperatorDef(arg=(argument_of(key, value),))).arg[0]
    except (TypeError, ArmnetError) as error:
        raise ValueError(f"{key!r} cannot be an argument: {error}") from error


def argument_of(key: str, value: Any) -> Argument:
    """The argument, for armnet."""
    if hasattr(value, "SerializeToString"):
        is_net = type(value).__name__ == "NetDef"
        value = NetDef.from_bytes(value.SerializeToString()) if is_net else value.SerializeToString()
    elif isinstance(value, np.ndarray):
        value = value.ravel().tolist()
    elif isinstance(value, (tuple, set)):
        value = list(value)
    return Argument.of(key, value)
