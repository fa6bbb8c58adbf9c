"""Operators that ONNX or onnxruntime has itself."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

import numpy as np

from exporter.onnx.node import DTYPE_ATTRIBUTES
from exporter.to_onnx.rules import Call, Results, rule
from exporter.to_onnx.types import Dims
from runtime_arm.errors import ExportError
from runtime_arm.netdef import Argument, OperatorDef
from runtime_arm.netdef.dtypes import dtype_of
from runtime_arm.operators.common.windows import onnx_window

OUTSIDE = {"onnx": ""}  # the domain's name in ONNX


@rule("onnx.*")
def native(call: Call) -> Results:
    """The node of the same name, whose attributes are the arguments."""
    return as_it_is(call)


def as_it_is(call: Call, inputs: Optional[Sequence[str]] = None, **changed: Any) -> Results:
    """The node of the same operator, optionally with other inputs or attributes; None leaves an attribute out."""
    if call.op.has("format"):
        raise ExportError(f"numbers of the format {call.op.get_str('format')} cannot be written yet")
    domain = OUTSIDE.get(call.op.domain, call.op.domain)
    attributes = {**{arg.name: _attribute(arg) for arg in call.op.arg}, **changed}
    return call.nodes(
        call.op.type, call.inputs if inputs is None else inputs, len(call.op.output), domain, **attributes
    )


def _attribute(arg: Argument) -> Any:
    """The argument as an attribute; Caffe2's number of a data type becomes ONNX's."""
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
    """Without lengths ONNX needs the number of parts."""
    return as_it_is(call, num_outputs=None if call.has(1) else len(call.op.output))


@rule("onnx.Conv", "onnx.AveragePool", "onnx.LpPool", "onnx.MaxPool")
def windowed(call: Call) -> Results:
    dims, kernel = call.known_dims(), call.op.get_ints("kernel_shape") or (call.known_dims(1) or ())[2:]
    pads = None if dims is None else explicit_pads(call.op, dims[2:], kernel)
    return as_it_is(call) if pads is None else as_it_is(call, auto_pad=None, pads=pads)


def explicit_pads(op: OperatorDef, image: Dims, kernel: Dims) -> Optional[List[int]]:
    """auto_pad as numbers where onnxruntime refuses it (dilated kernels) or computes something else (strides beyond the
    kernel); None in all other cases, and if the sizes are open."""
    if not op.get_str("auto_pad", "NOTSET").startswith("SAME") or None in image or None in kernel:
        return None
    strides = op.get_ints("strides", (1,) * len(image))
    beyond = any(n is not None and stride > n for stride, n in zip(strides, kernel))
    if set(op.get_ints("dilations")) <= {1} and not beyond:
        return None
    window = onnx_window(op, [n for n in image if n is not None], [n for n in kernel if n is not None])
    return [*window.head, *window.tail]


@rule("onnx.Resize")
def resize(call: Call) -> Results:
    """Scales or sizes for all dimensions: onnxruntime computes wrong results if they are given only for some axes."""
    op, axes = call.op, call.op.get_ints("axes")
    if not axes or call.has(1) or op.get_str("keep_aspect_ratio_policy", "stretch") != "stretch":
        return as_it_is(call)
    inputs, places = [*call.inputs, ""][:4], call.ints(*axes)
    if call.has(2):
        ones = call.constant(np.ones(call.rank(), np.float32))
        inputs[2] = call.node("ScatterElements", ones, places, inputs[2])
    else:
        inputs[3] = call.node("ScatterElements", call.node("Shape", call.x), places, inputs[3])
    return as_it_is(call, inputs, axes=None)


@rule("onnx.DequantizeLinear")
def dequantize(call: Call) -> Results:
    """onnxruntime accepts only scales of the result's type."""
    result = dtype_of(call.op.get_int("output_dtype", 0))
    if result is None or call.dtype(1) == result:
        return as_it_is(call, output_dtype=None)
    scale = call.node("Cast", call.input(1), to=result)
    return as_it_is(call, [call.x, scale, *call.inputs[2:]], output_dtype=None)


@rule("onnx.Unique")
def unique(call: Call) -> Results:
    """onnxruntime has only int64 among the integer types."""
    dtype = call.dtype()
    if dtype.kind not in "iu" or dtype == np.int64:
        return as_it_is(call)
    first, *rest = as_it_is(call, [call.node("Cast", call.x, to=np.dtype(np.int64))])
    return [call.node("Cast", first or "", to=dtype), *rest]


@rule("onnx.Mod")
def modulo(call: Call) -> Results:
    """ONNX's remainder of floats takes the dividend's sign."""
    if call.dtype().kind != "f" or call.op.get_bool("fmod"):
        return as_it_is(call)
    divisor, zero = call.input(1), call.number(0)
    remainder = call.node("Mod", call.x, divisor, fmod=1)
    against = call.node("Less", call.node("Mul", call.node("Sign", remainder), call.node("Sign", divisor)), zero)
    return call.node("Where", against, call.node("Add", remainder, divisor), remainder)


@rule("onnx.Cast", "onnx.CastLike")
def cast(call: Call) -> Results:
    if call.dtype() == np.dtype(object):
        raise ExportError("strings are not cast alike")
    return as_it_is(call)
