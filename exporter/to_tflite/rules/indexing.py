"""Picking elements by index."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np

from exporter.to_tflite.rules import Call, Results, rule
from runtime_arm.errors import ExportError
from runtime_arm.registry.schema import axis_of


@rule("Gather", "BatchGather", "onnx.Gather")
def gather(call: Call) -> Results:
    """Along one dimension, which the dimensions of the indices replace. TFLite's indices are not negative."""
    if call.op.get_bool("match_outer"):
        raise ExportError("indices for each batch are not translated")
    axis = axis_of(call.op, 1 if call.op.type == "BatchGather" else call.op.get_int("axis", 0), call.spec().ndim)
    indices = call.value(1)
    if indices is not None:
        size = call.spec().shape[axis]
        places = call.graph.constant(np.where(indices < 0, indices + size, indices).astype(np.int32))
    else:
        places = call.take(1)
    order, more = call.order(), call.spec(1).ndim - 1
    result: List[int] = []
    for one in order:
        result += range(axis, axis + more + 1) if one == axis else [one + more if one > axis else one]
    shape = call.shape_in(tuple(result))
    y = call.emit("GATHER", [call.as_held(), places], shape, Axis=order.index(axis))
    return call.result(y, tuple(result))


@rule("onnx.GatherND")
def gather_nd(call: Call) -> Results:
    if call.op.get_int("batch_dims", 0):
        raise ExportError("indices for each batch are not translated")
    return call.result(call.emit("GATHER_ND", [call.take(), call.take(1)], call.outputs[0].shape))


@rule("TopK", "onnx.TopK")
def top_k(call: Call) -> Results:
    """TFLite's is over the last dimension, and its indices are int32."""
    call.refuse_outputs_from(2)
    ndim = call.spec().ndim
    axis = axis_of(call.op, call.op.get_int("axis", -1), ndim)
    shape = call.outputs[0].shape
    if not call.op.get_bool("largest", True) or axis != ndim - 1 or shape[-1] > call.spec().shape[-1]:
        raise ExportError("TFLite finds the largest elements of the last dimension, and not more than there are")
    values, places = call.emit_many(
        "TOPK_V2", [call.take(), call.graph.constant(np.int32(shape[-1]))], [shape] * 2, [call.spec().dtype, np.int32]
    )
    if call.wants(1) and call.outputs[1].dtype != np.int32:
        places = call.same_shape("CAST", places, dtype=call.outputs[1].dtype)
    return [call.result(values), call.result(places, None, 1)]


@rule("onnx.CumSum")
def cumulative_sum(call: Call) -> Results:
    axis = axis_of(call.op, int(call.constant_value(1, "the axis").reshape(())), call.spec().ndim)
    flags: Dict[str, Any] = {"Exclusive": call.op.get_bool("exclusive"), "Reverse": call.op.get_bool("reverse")}
    axis_tensor = call.graph.constant(np.int32(axis))
    return call.result(call.emit("CUMSUM", [call.take(), axis_tensor], call.outputs[0].shape, **flags))
