"""onnxruntime's quantised averages and softmax.

QLinearAveragePool, QLinearGlobalAveragePool, QLinearReduceMean, QLinearSoftmax. X and Y are uint8 or int8, each with a
scale and a zero point (0 if left out) of one element. Formulas are evaluated in float32 in onnxruntime's order, so that
ties, which are common among averages, round alike. Source: onnxruntime's ContribOperators.md.
"""

from __future__ import annotations

import math
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.windows import Window, onnx_window
from runtime_arm.operators.quantised.parameters import (
    EIGHT_BITS,
    Parameters,
    all_known,
    dequantized,
    parameters,
    quantized,
    require_dtype,
    require_parameters,
    saturated,
)
from runtime_arm.operators.quantised.rounding import Requantizer, requantize
from runtime_arm.registry.blocks import BLOCK
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import axis_of, operator, require
from runtime_arm.registry.specs import Shape, TensorSpec

Spec = Optional[TensorSpec]
DOMAIN = "com.microsoft"


def _check(
    op: OperatorDef, x: TensorSpec, x_scale: Spec, x_zero_point: Spec, y_scale: Spec, y_zero_point: Spec
) -> None:
    require_dtype(op, "X", x, EIGHT_BITS)
    require_parameters(op, "X", x.dtype, x_scale, x_zero_point)
    require_parameters(op, "Y", x.dtype, y_scale, y_zero_point)


def _parameters(op: OperatorDef, inputs: Sequence[Any]) -> Tuple[Parameters, Parameters]:
    """The parameters of X and of Y. ``inputs``: the operator's."""
    _, x_scale, x_zero_point, y_scale, y_zero_point = (*inputs, None)[:5]
    return parameters(op, "X", x_scale, x_zero_point), parameters(op, "Y", y_scale, y_zero_point)


def _only_x_varies(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    x = inputs[0]
    assert x is not None
    if op.get_bool("channels_last"):
        return "only for channels_last 0"
    if math.prod(x.shape[2:]) >= 1 << 23:
        return "sums of this many pixels may exceed 32 bits"
    return None if all_known(inputs[1:]) else "scales and zero points must be constants"


def _image(op: OperatorDef, shape: Shape) -> Shape:
    return shape[1:-1] if op.get_bool("channels_last") else shape[2:]


def _pooled(op: OperatorDef, x: TensorSpec, output: Shape) -> List[TensorSpec]:
    last = op.get_bool("channels_last")
    shape = (x.shape[0], *output, x.shape[-1]) if last else (*x.shape[:2], *output)
    return [TensorSpec(shape, x.dtype)]


@operator("QLinearAveragePool", inputs=(4, 5), domain=DOMAIN)
def qlinear_average_pool(
    op: OperatorDef, x: TensorSpec, x_scale: Spec, x_zero_point: Spec, y_scale: Spec, y_zero_point: Spec = None
) -> List[TensorSpec]:
    """Y = saturate(round(mean of x_scale * (X - x_zero) under the kernel / y_scale + y_zero)).

    X (N, C, *image), or with ``channels_last`` (N, *image, C). Attributes: those of ONNX's AveragePool except
    dilations. The mean is over the pixels inside the image; with ``count_include_pad``, the sum is divided by the
    kernel's size.
    """
    _check(op, x, x_scale, x_zero_point, y_scale, y_zero_point)
    require(op, 3 <= x.ndim <= 5, "X must have one to three spatial dimensions", x)
    if op.has("dilations"):
        raise ArgumentError(op, "dilations must be 1")
    return _pooled(op, x, onnx_window(op, _image(op, x.shape)).output)


def _covers_image(window: Window) -> bool:
    """Whether the kernel covers the image exactly. onnxruntime then rounds as for the global pool."""
    return window.kernel == window.image and not any(window.head + window.tail)


def _counts(op: OperatorDef, window: Window) -> Array:
    """The divisor of each sum, float32 of the output's shape."""
    counts = np.zeros(window.output, np.float32)
    for tap in window.taps():
        counts[tap.out] += 1
    return np.full_like(counts, math.prod(window.kernel)) if op.get_bool("count_include_pad") else counts


@qlinear_average_pool.reference
def qlinear_average_pool_reference(op: OperatorDef, x: Array, *rest: Any) -> Sequence[Any]:
    window, last = onnx_window(op, _image(op, x.shape)), op.get_bool("channels_last")
    if _covers_image(window):
        return qlinear_global_average_pool_reference(op, x, *rest)
    px, py = _parameters(op, (x, *rest))
    reals = dequantized(np.moveaxis(x, -1, 1) if last else x, px)
    sums = np.zeros((*reals.shape[:2], *window.output), np.float32)
    for tap in window.taps():
        sums[tap.out] += reals[tap.image]
    y = saturated(np.rint(sums / _counts(op, window) / py.scale + np.float32(py.zero_point)), x.dtype)
    return [np.moveaxis(y, 1, -1) if last else y]


def _planes(op: OperatorDef, inputs: Specs) -> int:
    """The number of planes (one channel of one image) in a block."""
    x = inputs[0]
    assert x is not None
    size = max(math.prod(x.shape[2:]), 1)
    return max(min(math.prod(x.shape[:2]), BLOCK // size), 1)


def _pool_scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> List[TensorSpec]:
    x, planes = inputs[0], _planes(op, inputs)
    assert x is not None
    if _covers_image(onnx_window(op, x.shape[2:])):
        return _global_scratch(op, inputs, outputs)
    return [TensorSpec((planes, *x.shape[2:]), np.float32), TensorSpec((planes, *outputs[0].shape[2:]), np.float32)]


@qlinear_average_pool.kernel("NUMPY", supports=_only_x_varies, scratch=_pool_scratch)
def qlinear_average_pool_numpy(call: Call) -> Run:
    op, x, y = call.op, call.inputs[0], call.outputs[0]
    window, step = onnx_window(op, x.shape[2:]), _planes(call.op, call.in_specs)
    if _covers_image(window):
        return qlinear_global_average_pool_numpy(call)
    px, py = _parameters(op, call.inputs)
    zero_x, zero_y, counts = np.float32(px.zero_point), np.float32(py.zero_point), _counts(op, window)
    limits = np.iinfo(y.dtype)
    low, high = np.float32(limits.min), np.float32(limits.max)
    sources, targets = x.reshape(-1, *window.image), y.reshape(-1, *window.output)
    parts = []
    for first in range(0, len(sources), step):
        source, target = sources[first : first + step], targets[first : first + step]
        reals, sums = (buffer[: len(source)] for buffer in call.scratch)
        parts.append((source, reals, [(sums[tap.out], reals[tap.image]) for tap in window.taps()], sums, target))

    def run() -> None:
        for source, reals, taps, sums, target in parts:
            np.copyto(reals, source)
            np.subtract(reals, zero_x, out=reals)
            np.multiply(reals, px.scale, out=reals)
            sums.fill(0)
            for out, pixels in taps:
                np.add(out, pixels, out=out)
            np.divide(sums, counts, out=sums)
            np.divide(sums, py.scale, out=sums)
            np.add(sums, zero_y, out=sums)
            np.rint(sums, out=sums)
            np.clip(sums, low, high, out=sums)
            np.copyto(target, sums, casting="unsafe")

    return run


@operator("QLinearGlobalAveragePool", inputs=5, domain=DOMAIN)
def qlinear_global_average_pool(
    op: OperatorDef, x: TensorSpec, x_scale: Spec, x_zero_point: Spec, y_scale: Spec, y_zero_point: Spec
) -> List[TensorSpec]:
    """Y = saturate(round((sum of X - x_zero over the image) * (x_scale / (y_scale * pixels))) + y_zero).

    X (N, C, *image), or with ``channels_last`` (N, *image, C).
    """
    _check(op, x, x_scale, x_zero_point, y_scale, y_zero_point)
    require(op, x.ndim >= 3 and math.prod(_image(op, x.shape)) > 0, "X must have pixels in one dimension or more", x)
    return _pooled(op, x, (1,) * (x.ndim - 2))


@qlinear_global_average_pool.reference
def qlinear_global_average_pool_reference(op: OperatorDef, x: Array, *rest: Any) -> Sequence[Any]:
    px, py = _parameters(op, (x, *rest))
    last, image = op.get_bool("channels_last"), _image(op, x.shape)
    axes = tuple(range(1, x.ndim - 1) if last else range(2, x.ndim))
    sums = (x.astype(np.int64) - px.zero_point).sum(axes, keepdims=True)
    return [requantize(sums, px.scale / (py.scale * np.float32(math.prod(image))), int(py.zero_point), x.dtype)]


def _global_scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> List[TensorSpec]:
    return [TensorSpec((outputs[0].size,), np.int32), TensorSpec((outputs[0].size,), np.float32)]


@qlinear_global_average_pool.kernel("NUMPY", supports=_only_x_varies, scratch=_global_scratch)
def qlinear_global_average_pool_numpy(call: Call) -> Run:
    x, y, (sums, work) = call.inputs[0], call.outputs[0].reshape(-1), call.scratch
    px, py = _parameters(call.op, call.inputs)
    pixels, limits = math.prod(x.shape[2:]), np.iinfo(y.dtype)
    multiplier, excess = px.scale / (py.scale * np.float32(pixels)), pixels * int(px.zero_point)
    finish = Requantizer("onnx_even", multiplier, int(py.zero_point), int(limits.min), int(limits.max))
    planes = x.reshape(-1, pixels)

    def run() -> None:
        np.add.reduce(planes, axis=1, dtype=np.int32, out=sums)
        np.subtract(sums, excess, out=sums)
        finish(sums, y, (work,))

    return run


@operator("QLinearReduceMean", inputs=(4, 5), domain=DOMAIN)
def qlinear_reduce_mean(
    op: OperatorDef, x: TensorSpec, x_scale: Spec, x_zero_point: Spec, y_scale: Spec, y_zero_point: Spec = None
) -> List[TensorSpec]:
    """Y = quantised(mean of x_scale * (X - x_zero) over ``axes``, by default all); ``keepdims`` 1."""
    _check(op, x, x_scale, x_zero_point, y_scale, y_zero_point)
    axes = _axes(op, x.ndim)
    require(
        op,
        math.prod(x.shape[axis] for axis in axes) > 0,
        "X must not be empty: the mean of no elements is not defined",
        x,
    )
    keep = op.get_bool("keepdims", True)
    shape = [1 if axis in axes else n for axis, n in enumerate(x.shape) if keep or axis not in axes]
    return [TensorSpec(shape, x.dtype)]


def _axes(op: OperatorDef, ndim: int) -> Tuple[int, ...]:
    return tuple(axis_of(op, axis, ndim, "axes") for axis in op.get_ints("axes")) or tuple(range(ndim))


@qlinear_reduce_mean.reference
def qlinear_reduce_mean_reference(op: OperatorDef, x: Array, *rest: Any) -> List[Any]:
    px, py = _parameters(op, (x, *rest))
    means = dequantized(x, px).mean(_axes(op, x.ndim), np.float64, keepdims=op.get_bool("keepdims", True))
    return [quantized(np.asarray(means), py, x.dtype)]


@operator("QLinearSoftmax", inputs=5, domain=DOMAIN)
def qlinear_softmax(
    op: OperatorDef, x: TensorSpec, x_scale: Spec, x_zero_point: Spec, y_scale: Spec, y_zero_point: Spec
) -> List[TensorSpec]:
    """Y = saturate(round(softmax(x_scale * X) * floor(1 / y_scale)) + y_zero).

    Along ``axis`` (-1); if ``opset`` is less than 13, over all dimensions from ``axis`` (1) on.
    """
    _check(op, x, x_scale, x_zero_point, y_scale, y_zero_point)
    op.get_int("opset")
    _softmax_axis(op, x.ndim)
    return [TensorSpec(x.shape, x.dtype)]


def _softmax_axis(op: OperatorDef, ndim: int) -> int:
    return axis_of(op, op.get_int("axis", 1 if op.get_int("opset") < 13 else -1), ndim)


@qlinear_softmax.reference
def qlinear_softmax_reference(op: OperatorDef, x: Array, *rest: Any) -> List[Any]:
    px, py = _parameters(op, (x, *rest))
    axis = _softmax_axis(op, x.ndim)
    if op.get_int("opset") >= 13:
        moved = np.moveaxis(x, axis, -1)
        return [np.moveaxis(_softmax(moved, px, py), -1, axis)]
    rows = x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))
    return [_softmax(rows, px, py).reshape(x.shape)]


def _softmax(x: Array, px: Parameters, py: Parameters) -> Array:
    """Softmax over the last dimension."""
    exponents = np.exp((x.astype(np.float64) - x.max(-1, keepdims=True, initial=np.iinfo(x.dtype).min)) * px.scale)
    shares = exponents / exponents.sum(-1, keepdims=True)
    return saturated(np.rint(shares * np.floor(np.float32(1) / py.scale)) + py.zero_point, x.dtype)


def _softmax_lines(op: OperatorDef, shape: Shape) -> Tuple[int, int, int]:
    """(outer, terms, inner): the shares of a softmax lie along the middle."""
    axis = _softmax_axis(op, len(shape))
    end = axis + 1 if op.get_int("opset") >= 13 else len(shape)
    return math.prod(shape[:axis]), math.prod(shape[axis:end]), math.prod(shape[end:])


def _refuse_but_constants(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    return None if all_known(inputs[1:]) else "scales and zero points must be constants"


def _softmax_scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> List[TensorSpec]:
    """Of some lines: their largest integers, twice, distances from these, exponents and their sums."""
    outer, terms, inner = _softmax_lines(op, outputs[0].shape)
    lines = min(outer, max(1, BLOCK // max(1, 16 * terms * inner)))
    some, ends = (lines, terms, inner), (lines, 1, inner)
    return [
        TensorSpec(ends, outputs[0].dtype),
        TensorSpec(ends, np.intp),
        TensorSpec(some, np.intp),
        TensorSpec(some, np.float64),
        TensorSpec(ends, np.float64),
    ]


@qlinear_softmax.kernel("NUMPY", supports=_refuse_but_constants, scratch=_softmax_scratch)
def qlinear_softmax_numpy(call: Call) -> Run:
    """Exponents by a table: integers are at most 255 below the largest."""
    px, py = _parameters(call.op, call.inputs)
    shape = _softmax_lines(call.op, call.inputs[0].shape)
    x, y, limits = call.inputs[0].reshape(shape), call.outputs[0].reshape(shape), np.iinfo(call.outputs[0].dtype)
    table = np.exp(-np.arange(256, dtype=np.float64) * px.scale)
    factor, zero = float(np.floor(np.float32(1) / py.scale)), float(py.zero_point)
    step = max(1, len(call.scratch[0]))
    parts = [
        (
            x[first : first + step],
            y[first : first + step],
            *(one[: len(x[first : first + step])] for one in call.scratch),
        )
        for first in range(0, len(x), step)
    ]

    def run() -> None:
        for source, target, largest, top, below, shares, sums in parts:
            np.maximum.reduce(source, axis=1, out=largest, keepdims=True)
            np.copyto(top, largest)
            np.copyto(below, source)
            np.subtract(top, below, out=below)
            np.take(table, below, out=shares, mode="clip")
            np.add.reduce(shares, axis=1, out=sums, keepdims=True)
            np.divide(shares, sums, out=shares)
            np.multiply(shares, factor, out=shares)
            np.rint(shares, out=shares)
            np.add(shares, zero, out=shares)
            np.clip(shares, limits.min, limits.max, out=shares)
            np.copyto(target, shares, casting="unsafe")

    return run if call.inputs[0].size else lambda: None
