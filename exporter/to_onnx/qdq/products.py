"""Convolutions, fully connected layers and products of matrices. Weights and biases stay integers."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import numpy as np

from exporter.to_onnx.call import Call
from exporter.to_onnx.operand import Results
from exporter.to_onnx.qdq import operand, reals, result, rule
from exporter.to_onnx.rules.tflite import RANK, window
from runtime_arm.errors import ExportError
from runtime_arm.netdef import Array
from runtime_arm.operators.common.windows import onnx_window
from runtime_arm.operators.quantised.tflite.parameters import affine

LARGEST = 2**31 - 1


def _filters(call: Call, axis: int, change: Any) -> Tuple[str, Array]:
    """The weights as floats, changed by ``change(array)``, with their scales along ``axis`` after it."""
    value = call.value(1)
    if value is None:
        raise ExportError(f"the weights {call.op.input[1]!r} must be constant")
    scales = np.array(call.op.get_floats("W_scales"), np.float32)
    if bool((scales <= 0).any()):
        raise ExportError("a scale of the weights is not positive, which ONNX does not allow")
    shape = scales.shape if len(scales) > 1 else ()
    w = call.constant(np.ascontiguousarray(change(value)))
    zero = call.constant(np.full(shape, call.op.get_int("W_zero_point", 0)), value.dtype)
    made = call.node("DequantizeLinear", w, call.constant(scales.reshape(shape)), zero, axis=axis if shape else None)
    return made, scales


def _bias(call: Call, index: int, scales: Array) -> List[str]:
    """The bias, whose scales are the products of those of X and the weights; as floats if it needs over 32 bits."""
    if not call.has(index):
        return []
    value = call.value(index)
    if value is None:
        raise ExportError(f"the bias {call.op.input[index]!r} must be constant")
    unit = affine(call.op, "X", call.dtype()).scale * scales
    if value.dtype != np.int32 and int(np.abs(value).max(initial=0)) > LARGEST:
        return [call.constant((value * unit.astype(np.float64)).astype(np.float32))]
    name, shape = call.constant(value, np.int32), unit.shape if len(unit) > 1 else ()
    zero = call.constant(np.zeros(shape), np.int32)
    axis = 0 if shape else None
    return [call.node("DequantizeLinear", name, call.constant(unit.reshape(shape), np.float32), zero, axis=axis)]


@rule("tflite.QuantizedConv")
def conv(call: Call) -> Results:
    """Pictures (N, H, W, C), filters (M, kernel, C / group)."""
    dtype, kernel = call.dtype(), call.shape(1)[1:-1]
    x = reals(call, call.channels_first(call.x, RANK), affine(call.op, "X", dtype), dtype)
    w, scales = _filters(call, 0, lambda filters: np.moveaxis(filters, -1, 1))
    dilations = list(call.op.get_ints("dilations")) or None
    options = {**window(call, kernel), "dilations": dilations, "group": call.op.get_int("group", 1)}
    return call.channels_last(result(call, call.node("Conv", x, w, *_bias(call, 2, scales), **options)), RANK)


@rule("tflite.QuantizedConvTranspose")
def conv_transpose(call: Call) -> Results:
    """Pictures (N, H, W, C), filters (M, kernel, C)."""
    dtype, size = call.dtype(), call.value(2)
    if size is None:
        raise ExportError("the size of the result must be known")
    x = reals(call, call.channels_first(call.x, RANK), affine(call.op, "X", dtype), dtype)
    w, scales = _filters(call, 1, lambda filters: np.moveaxis(filters, -1, 0))
    image, kernel, stride, _, heads, _, output = onnx_window(call.op, size.tolist(), call.shape(1)[1:-1])
    cut = [(n - 1) * s + k - head - y for n, s, k, head, y in zip(output, stride, kernel, heads, image)]
    extra = [max(-one, 0) for one in cut]
    options: Dict[str, Any] = {"strides": list(stride), "pads": [*heads, *(max(one, 0) for one in cut)]}
    y = call.node(
        "ConvTranspose", x, w, *_bias(call, 3, scales), **options, output_padding=extra if any(extra) else None
    )
    return call.channels_last(result(call, y), RANK)


@rule("tflite.QuantizedFullyConnected")
def fully_connected(call: Call) -> Results:
    """A product of matrices, for which runtimes have an operator on integers; the integers are reshaped."""
    filters, depth = call.shape(1)
    dtype, keep = call.dtype(), call.op.get_bool("keep_num_dims") and call.rank() != 2
    rows = (
        call.x if call.rank() == 2 and (call.known_dims() or (0, 0))[1] == depth else call.reshaped(call.x, -1, depth)
    )
    w, scales = _filters(call, 0, lambda matrix: matrix)
    x = reals(call, rows, affine(call.op, "X", dtype), dtype)
    y = result(call, call.node("Gemm", x, w, *_bias(call, 2, scales), transB=1))
    if not keep:
        return y
    batch = call.node("Slice", call.node("Shape", call.x), call.ints(0), call.ints(-1))
    return call.node("Reshape", y, call.node("Concat", batch, call.ints(filters), axis=0))


@rule("tflite.QuantizedMatMul")
def mat_mul(call: Call) -> Results:
    return result(call, call.node("MatMul", operand(call, 0, "A"), operand(call, 1, "B")))
