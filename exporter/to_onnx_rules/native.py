"""Operators that are ONNX's or onnxruntime's own."""

from __future__ import annotations

from typing import Any

import numpy as np

from exporter.onnx_node import DTYPE_ATTRIBUTES
from exporter.to_onnx_rules import Call, Results, rule
from runtime_arm.errors import ExportError
from runtime_arm.netdef import Argument
from runtime_arm.netdef.dtypes import dtype_of

OUTSIDE = {"onnx": ""}  # what the domain is called in ONNX


@rule("onnx.*")
def native(call: Call) -> Results:
    """The node of the same name, whose attributes are the arguments."""
    return as_it_is(call)


def as_it_is(call: Call, **changed: Any) -> Results:
    """The operator's own node, some attributes changed; None leaves one out."""
    domain = OUTSIDE.get(call.op.domain, call.op.domain)
    attributes = {arg.name: _attribute(arg) for arg in call.op.arg}
    return call.nodes(call.op.type, call.inputs, len(call.op.output), domain, **{**attributes, **changed})


def _attribute(arg: Argument) -> Any:
    """The argument as an attribute; data types are Caffe2's numbers there and ONNX's here."""
    value: Any = getattr(arg, arg.kind) if arg.kind else []
    if arg.name in DTYPE_ATTRIBUTES and isinstance(value, int):
        dtype = dtype_of(value)
        if dtype is None:
            raise ExportError(f"argument {arg.name!r}: no data type has the number {value}")
        return dtype
    if arg.kind in ("n", "nets"):
        raise ExportError(f"argument {arg.name!r} is a net")
    if arg.kind in ("floats", "ints"):
        return value.tolist()
    return value


@rule("onnx.Split")
def split(call: Call) -> Results:
    """Without lengths the number of parts must be said."""
    return as_it_is(call, num_outputs=None if call.has(1) else len(call.op.output))


@rule("onnx.Cast", "onnx.CastLike")
def cast(call: Call) -> Results:
    if call.dtype() == np.dtype(object):
        raise ExportError("strings are not cast alike")
    return as_it_is(call)
