"""ONNX's conversions between reals and quantised integers: QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, List, Optional, Sequence

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.netdef.dtypes import dtype_of
from runtime_arm.operators.common.formulas import level
from runtime_arm.operators.quantised.parameters import (
    EIGHT_BITS,
    SIXTEEN_BITS,
    Parameters,
    all_known,
    check_scale,
    dequantized,
    parameters,
    quantized,
    require_dtype,
)
from runtime_arm.registry.blocks import block_size, cut
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import axis_of, operator, require
from runtime_arm.registry.specs import Shape, TensorSpec

if TYPE_CHECKING:
    from runtime_arm.operators.common.number_formats import Format

FLOATS = (np.dtype(np.float32), np.dtype(np.float16))
INTEGERS = (*EIGHT_BITS, *SIXTEEN_BITS)
DOMAINS = ("onnx", "com.microsoft")


def _data_type(op: OperatorDef, name: str, default: Any, allowed: Sequence[Any]) -> np.dtype[Any]:
    """The dtype whose number an argument holds. 0 or no argument means the default."""
    number = op.get_int(name, 0)
    dtype = np.dtype(default) if number == 0 else dtype_of(number)
    if dtype not in allowed:
        names = ", ".join(np.dtype(d).name for d in allowed)
        raise ArgumentError(op, f"{name} must name one of {names}, got type {number}")
    return np.dtype(dtype)


def _quantized_type(op: OperatorDef, zero_point: Any) -> np.dtype[Any]:
    if op.has("format"):
        return _stated_format(op).carrier
    return _data_type(op, "output_dtype", np.uint8 if zero_point is None else zero_point.dtype, INTEGERS)


def _check_granularity(op: OperatorDef, x: TensorSpec, scale: TensorSpec, zero_point: Optional[TensorSpec]) -> None:
    """ShapeError unless a scale is one element, a vector along ``axis``, or one per block of ``block_size`` there."""
    require(
        op,
        zero_point is None or zero_point.shape == scale.shape or (zero_point.size == scale.size == 1),
        "the zero point must have the shape of the scale",
        scale,
        zero_point,
    )
    block = op.get_int("block_size", 0)
    if block < 0:
        raise ArgumentError(op, f"block_size must be positive, got {block}")
    if block == 0 and scale.ndim <= 1 and scale.size == 1:
        return
    axis = axis_of(op, op.get_int("axis", 1), x.ndim)
    if block:
        wanted: Shape = (*x.shape[:axis], -(-x.shape[axis] // block), *x.shape[axis + 1 :])
        rule = f"with blocks of {block} along axis {axis}, the scale must have shape {list(wanted)}"
    else:
        wanted, rule = (x.shape[axis],), f"the scale must hold one element or one along axis {axis}"
    require(op, scale.shape == wanted, rule, x, scale)


def _aligned(op: OperatorDef, parameter: Array, shape: Shape) -> Array:
    """A scale or zero point in a shape that broadcasts to the blob."""
    block = op.get_int("block_size", 0)
    if block == 0 and parameter.size == 1:
        return parameter.reshape(())
    axis = op.get_int("axis", 1) % len(shape)
    if block:
        return np.repeat(parameter, block, axis).take(range(shape[axis]), axis)
    return parameter.reshape(-1, *[1] * (len(shape) - axis - 1))


def _quantize_shape(
    op: OperatorDef, x: TensorSpec, scale: TensorSpec, zero_point: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """Y = saturate(round(X / scale) + zero_point), ties to even.

    X: float32, float16 or int32; Y: the zero point's type, or the one in ``output_dtype``, or uint8. Scale and zero
    point: one element; a vector along ``axis`` (1); with ``block_size``, one per block along ``axis``. The division has
    the precision in ``precision``, else the scale's. With ``format`` (armnet's own), Y holds numbers of that format,
    see ``operators/common/number_formats.py``; ``saturate`` (1) concerns its floats. Source: onnx/defs/quantization.
    """
    require_dtype(op, "the input", x, (*FLOATS, np.int32))
    require_dtype(op, "the scale", scale, FLOATS)
    if zero_point is not None:
        require_dtype(op, "the zero point", zero_point, (*INTEGERS, np.float32) if op.has("format") else INTEGERS)
    dtype = _quantized_type(op, zero_point)
    require(
        op,
        zero_point is None or zero_point.dtype == dtype,
        f"output_dtype is {dtype.name}, but the zero point has another type",
        zero_point,
    )
    _data_type(op, "precision", scale.dtype, FLOATS)
    _check_granularity(op, x, scale, zero_point)
    if scale.value is not None:
        check_scale(op, "the output", scale.value)
    return [TensorSpec(x.shape, dtype)]


def _quantize_reference(op: OperatorDef, x: Array, scale: Array, zero_point: Optional[Array] = None) -> List[Any]:
    check_scale(op, "the output", scale)
    dtype = _quantized_type(op, zero_point)
    precision = _data_type(op, "precision", scale.dtype, FLOATS)
    ratio = x.astype(precision) / _aligned(op, scale, x.shape).astype(precision)
    if op.has("format"):
        return [_in_format(op, ratio, None if zero_point is None else _aligned(op, zero_point, x.shape))]
    zero = np.zeros((), np.int32) if zero_point is None else _aligned(op, zero_point, x.shape).astype(np.int32)
    return [quantized(ratio, Parameters(np.ones((), np.float32), zero), dtype)]


def _stated_format(op: OperatorDef) -> Format:
    from runtime_arm.operators.quantised.narrow import stated_format  # few nets need it when they start

    return stated_format(op)


def _in_format(op: OperatorDef, ratio: Array, zero_point: Optional[Array]) -> Array:
    from runtime_arm.operators.common.number_formats import rounded

    form = _stated_format(op)
    steps = ratio.astype(np.float32) if not form.is_integer else np.rint(ratio.astype(np.float32))
    shifted = steps if zero_point is None else steps + zero_point.astype(np.float32)
    if not form.is_integer:
        return rounded(shifted, op.get_str("format"), op.get_bool("saturate", True))
    limited: Array = np.fmin(np.fmax(shifted, form.low), form.high).astype(form.carrier)
    return limited


def _dequantize_shape(
    op: OperatorDef, x: TensorSpec, scale: TensorSpec, zero_point: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """Y = (X - zero_point) * scale.

    X: int8, uint8, int16, uint16, int32 with zero point 0, or with ``format`` (armnet's own) float32, which holds
    numbers of that format; Y: the type in ``output_dtype``, else the scale's. Scale and zero point as in
    QuantizeLinear. Source: onnx/defs/quantization.
    """
    require_dtype(op, "the input", x, (*INTEGERS, np.int32, *([np.float32] if op.has("format") else [])))
    require_dtype(op, "the scale", scale, FLOATS)
    if zero_point is not None:
        require(op, zero_point.dtype == x.dtype, "the zero point must have the input's type", x, zero_point)
        zero = zero_point.value is not None and not zero_point.value.any()
        require(op, zero or x.dtype != np.int32, "the zero point of int32 must be a constant 0", x)
    _check_granularity(op, x, scale, zero_point)
    if scale.value is not None:
        check_scale(op, "the input", scale.value)
    return [TensorSpec(x.shape, _data_type(op, "output_dtype", scale.dtype, FLOATS))]


def _dequantize_reference(op: OperatorDef, x: Array, scale: Array, zero_point: Optional[Array] = None) -> List[Any]:
    check_scale(op, "the input", scale)
    if x.dtype.kind == "f":
        low = 0 if zero_point is None else _aligned(op, zero_point, x.shape)
        return [((x - low) * _aligned(op, scale, x.shape)).astype(_data_type(op, "output_dtype", scale.dtype, FLOATS))]
    zero = np.zeros((), np.int32) if zero_point is None else _aligned(op, zero_point, x.shape).astype(np.int32)
    reals = dequantized(x, Parameters(_aligned(op, scale, x.shape).astype(np.float32), zero))
    return [reals.astype(_data_type(op, "output_dtype", scale.dtype, FLOATS), copy=False)]


def quantizer(x: Array, y: Array, work: Array) -> Callable[[Any, Any], None]:
    """A function of one scale and one zero point that quantises ``x`` into ``y``, block by block."""
    limits = np.iinfo(y.dtype)
    low, high = float(limits.min), float(limits.max)
    parts = [(source, target, work[: source.size].reshape(source.shape)) for source, target in cut([x], y)]

    def run(scale: Any, zero_point: Any) -> None:
        zero = np.float32(zero_point)
        for source, target, steps in parts:
            np.divide(source, scale, out=steps)
            np.rint(steps, out=steps)
            np.add(steps, zero, out=steps)
            np.fmax(steps, level(low, steps), out=steps)  # NaN becomes the lowest integer
            np.fmin(steps, level(high, steps), out=steps)
            np.copyto(target, steps, casting="unsafe")

    return run


def _work(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> List[TensorSpec]:
    return [TensorSpec((block_size(outputs[0].shape),), np.float32)]


def _refuse_but_one_float32_scale(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    x, scale = inputs[0], inputs[1]
    assert x is not None
    assert scale is not None
    real = outputs[0] if op.type == "DequantizeLinear" else x
    if op.has("format"):
        return "only for integers of 8 and 16 bits"
    if not (real.dtype == scale.dtype == np.float32) or op.get_int("precision", 0) or op.get_int("block_size", 0):
        return "only for float32"
    if scale.size != 1:
        return "only for one scale for the whole blob"
    return None if all_known(inputs[1:]) else "scale and zero point must be constants"


def _refuse_but_scales_of_an_axis(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    """What DequantizeLinear takes for weights: a scale for each index of an axis."""
    scale = inputs[1]
    assert scale is not None
    short = scale.dtype in (np.float32, np.float16)
    if outputs[0].dtype != np.float32 or not short or op.has("format") or op.get_int("block_size", 0):
        return "only for float32, without blocks"
    if scale.size == 1:
        return "one scale needs no axis"
    return None if all_known(inputs[1:]) else "scale and zero point must be constants"


def _dequantize_axis(call: Call) -> Run:
    """Scales and zero points broadcast along the other dimensions."""
    x, y, scale = call.inputs[0], call.outputs[0], call.inputs[1]
    zero = call.inputs[2] if len(call.inputs) > 2 else None
    check_scale(call.op, "the input", scale)
    scales = call.packed("scales", lambda: _aligned(call.op, scale, x.shape).astype(np.float32))
    shift = None if zero is None or not zero.any() else _aligned(call.op, zero, x.shape).astype(np.float32)

    def run() -> None:
        np.copyto(y, x, casting="same_kind")
        if shift is not None:
            np.subtract(y, shift, out=y)
        np.multiply(y, scales, out=y)

    return run


def _quantize_numpy(call: Call) -> Run:
    scale, zero_point = parameters(call.op, "the output", *call.inputs[1:])
    run = quantizer(call.inputs[0], call.outputs[0], call.scratch[0])
    return lambda: run(scale, zero_point)


def _dequantize_numpy(call: Call) -> Run:
    scale, zero_point = parameters(call.op, "the input", *call.inputs[1:])
    zero = zero_point.astype(np.float32)
    parts = cut([call.inputs[0]], call.outputs[0])

    def run() -> None:
        for source, target in parts:
            np.copyto(target, source, casting="same_kind")
            if zero:
                np.subtract(target, zero, out=target)
            np.multiply(target, scale, out=target)

    return run


for _domain in DOMAINS:
    _quantize = operator("QuantizeLinear", inputs=(2, 3), domain=_domain)(_quantize_shape)
    _quantize.reference(_quantize_reference)
    _quantize.kernel("NUMPY", supports=_refuse_but_one_float32_scale, scratch=_work)(_quantize_numpy)
    _dequantize = operator("DequantizeLinear", inputs=(2, 3), domain=_domain, unpacks=True)(_dequantize_shape)
    _dequantize.reference(_dequantize_reference)
    _dequantize.kernel("NUMPY", supports=_refuse_but_one_float32_scale)(_dequantize_numpy)
    _dequantize.kernel("NUMPY_AXIS", supports=_refuse_but_scales_of_an_axis)(_dequantize_axis)


@operator("DynamicQuantizeLinear", outputs=3, domain="onnx")
def dynamic_quantize_linear(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = saturate(round(X / scale) + zero_point) in uint8, with scale and zero point computed from X.

    scale = (max(X, 0) - min(X, 0)) / 255,  zero_point = round(-min / scale).  X: float32. Outputs: Y, the scale
    (float32) and the zero point (uint8), both of shape (). If X is all 0, or empty, the scale is 1, as in onnxruntime.
    Source: onnx/defs/quantization.
    """
    require_dtype(op, "the input", x, (np.float32,))
    return [TensorSpec(x.shape, np.uint8), TensorSpec((), np.float32), TensorSpec((), np.uint8)]


def dynamic_parameters(x: Array) -> Parameters:
    """Scale and zero point for which uint8 covers the range from the minimum to the maximum, including 0."""
    zero = np.float32(0)
    low, high = np.fmin(x.min(initial=zero), zero), np.fmax(x.max(initial=zero), zero)
    scale = (high - low) / np.float32(255) if high > low else np.float32(1)
    zero_point = np.rint(np.fmin(np.fmax(-low / scale, zero), np.float32(255)))
    return Parameters(np.asarray(scale, np.float32), np.asarray(zero_point, np.int32))


@dynamic_quantize_linear.reference
def dynamic_quantize_linear_reference(op: OperatorDef, x: Array) -> List[Any]:
    found = dynamic_parameters(x)
    return [quantized(x, found, np.uint8), found.scale, found.zero_point.astype(np.uint8)]


@dynamic_quantize_linear.kernel("NUMPY", scratch=_work)
def dynamic_quantize_linear_numpy(call: Call) -> Run:
    x = call.inputs[0]
    y, scale, zero_point = call.outputs
    quantize = quantizer(x, y, call.scratch[0])

    def run() -> None:
        found = dynamic_parameters(x)
        scale[...], zero_point[...] = found.scale, found.zero_point
        quantize(found.scale, found.zero_point)

    return run
