"""Convolutions and fully connected layers on integers: int8 weights with a scale a filter, int32 biases.

Rounding the weights shifts the mean of each output channel by the errors of its filter times the means of its inputs;
the bias takes that off again (bias correction: Nagel et al., "Data-Free Quantization Through Weight Equalization and
Bias Correction", 2019, section 4.2).
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from optimize.quantization.integers.activations import following
from optimize.quantization.integers.net import INT8, IntegerNet, Scale
from optimize.quantization.integers.rules import rule
from optimize.quantization.layers import layer_name
from optimize.quantization.packing.formats import short_scales
from optimize.quantization.signal import decibels, noise
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.windows import Window
from runtime_arm.operators.conv.convolution import convolution_of

_MOST_BIAS, _MOST_WIDE_BIAS = 2**31 - 1, 2**39  # sums of 16x8 have 48 bits in LiteRT, and room for the products
_MOST_WEIGHT = 127


def filter_scales(rows: Array) -> Array:
    """One scale for each row, with which its largest magnitude becomes 127 or close to it: float32, positive, of 16
    bits."""
    largest = np.abs(rows).max(axis=1, initial=0).astype(np.float32)
    return short_scales(np.maximum(largest, np.float32(1e-12)) / np.float32(_MOST_WEIGHT))


def product_scales(rows: Array, per_tensor: bool) -> Array:
    """The scales of a layer on integers: one for each row, or the largest for all of them."""
    scales = filter_scales(rows)
    return np.full_like(scales, scales.max()) if per_tensor else scales


def quantised_rows(rows: Array, scales: Array) -> Array:
    """Rows as int8 from -127 to 127."""
    return np.clip(np.rint(rows / scales[:, np.newaxis]), -_MOST_WEIGHT, _MOST_WEIGHT).astype(np.int8)


def quantised_bias(bias: Array, x: Scale, scales: Array, of_x: Any = INT8) -> Array:
    """int32, with an X of int16 int64; the scale is X_scale * W_scale."""
    steps = np.rint(bias.astype(np.float64) / (float(x.scale) * scales.astype(np.float64)))
    most, dtype = (_MOST_BIAS, np.int32) if of_x == INT8 else (_MOST_WIDE_BIAS, np.int64)
    return np.asarray(np.clip(steps, -most, most), dtype)


def windows_of(net: IntegerNet, x: str, w: str, op: OperatorDef) -> Optional[Window]:
    """The window of a convolution; None if its padding depends on sizes that are open."""
    windows = set()
    for x_spec, w_spec in zip(net.program.specs(x), net.program.specs(w)):
        if x_spec is None or w_spec is None:
            return None
        windows.add(convolution_of(op, x_spec, w_spec).window)
    pads = {(window.head, window.tail) for window in windows}
    return windows.pop() if len(pads) == 1 else None


def window_arguments(window: Window) -> Dict[str, Any]:
    """Under ONNX's names, without those that have their defaults."""
    arguments = {
        "strides": (list(window.stride), 1),
        "dilations": (list(window.dilation), 1),
        "pads": ([*window.head, *window.tail], 0),
    }
    return {name: numbers for name, (numbers, default) in arguments.items() if set(numbers) != {default}}


@rule("Conv", "ConvRelu", "onnx.Conv")
def convolution(net: IntegerNet, op: OperatorDef) -> Optional[str]:
    """(N, C, H, W) becomes (N, H, W, C), the weights (M, C / group, kh, kw) become (M, kh, kw, C / group)."""
    weights = net.constant(op.input[1])
    bias = net.constant(op.input[2]) if len(op.input) > 2 and op.input[2] else None
    if weights is None or (len(op.input) > 2 and op.input[2] and bias is None):
        return "its weights are not constant"
    if weights.ndim != 4 or op.get_str("order", "NCHW").upper() != "NCHW":
        return "only convolutions of pictures (N, C, H, W) have a quantised form"
    window = windows_of(net, op.input[0], op.input[1], op)
    if window is None or min(window.head + window.tail) < 0:
        return "its padding depends on sizes that are open"
    group = op.get_int("group", 1)
    arguments = {**window_arguments(window), **({} if group == 1 else {"group": group})}
    add_product(net, op, "QuantizedConv", (weights, _taps_first), bias, True, arguments)
    return None


@rule("FC", "FCTransposed")
def fully_connected(net: IntegerNet, op: OperatorDef) -> Optional[str]:
    weights, bias = net.constant(op.input[1]), net.constant(op.input[2])
    rank = net.rank(op.input[0])
    if weights is None or bias is None or weights.ndim != 2:
        return "its weights are not constant"
    if op.get_int("axis", 1) != (rank or 0) - 1:
        return _flattened(net, op, weights, bias)
    arranged = _turned if op.type == "FCTransposed" else np.asarray
    add_product(net, op, "QuantizedFullyConnected", (weights, arranged), bias, False, {"keep_num_dims": 1})
    return None


def _flattened(net: IntegerNet, op: OperatorDef, weights: Array, bias: Array) -> Optional[str]:
    """A layer that reads a picture as a row: X is flattened first."""
    if op.get_int("axis", 1) != 1 or net.rank(op.input[0]) is None:
        return "its rows have several dimensions"
    arranged = _turned if op.type == "FCTransposed" else np.asarray
    add_product(net, op, "QuantizedFullyConnected", (weights, arranged), bias, False, {"keep_num_dims": 0})
    return None


@rule("onnx.MatMul", "MatMul", "onnx.Gemm")
def matrix_product(net: IntegerNet, op: OperatorDef) -> Optional[str]:
    """With a constant matrix as the second operand: a fully connected layer."""
    weights = net.constant(op.input[1])
    bias = net.constant(op.input[2]) if len(op.input) > 2 and op.input[2] else None
    if weights is None or weights.ndim != 2:
        return "its second operand is not a constant matrix"
    if op.get_bool("trans_a") or op.get_bool("transA") or op.get_float("alpha", 1.0) != 1.0:
        return "its first operand is transposed or scaled"
    if len(op.input) > 2 and op.input[2] and (bias is None or bias.ndim != 1 or op.get_float("beta", 1.0) != 1.0):
        return "the value that it adds is not a constant bias"
    if op.has("axis_a") or op.has("axis_b") or (net.rank(op.input[0]) or 0) < 2:
        return "its first operand is not a batch of rows"
    arranged = np.asarray if op.get_bool("trans_b") or op.get_bool("transB") else _turned
    if bias is not None and bias.shape != (len(arranged(weights)),):
        return "the value that it adds is not a constant bias"
    add_product(net, op, "QuantizedFullyConnected", (weights, arranged), bias, False, {"keep_num_dims": 1})
    return None


def _taps_first(weights: Array) -> Array:
    """(M, C, kh, kw) as (M, kh, kw, C)."""
    return np.asarray(weights.transpose(0, 2, 3, 1))


def _turned(weights: Array) -> Array:
    return np.asarray(weights.T)


def add_product(
    net: IntegerNet,
    op: OperatorDef,
    type: str,
    weights: Tuple[Array, Callable[[Array], Array]],
    bias: Optional[Array],
    last: bool,
    arguments: Any,
    before_bias: Sequence[str] = (),
) -> None:
    """Adds the product of X and weights, with the activation that follows it.

    weights: as the float operator has them, and what makes filters (M, ...) of them. before_bias: further inputs.
    """
    x, x_scale = net.integer(op.input[0], last and net.is_last(op.input[0]))
    arranged = weights[1]
    filters = arranged(weights[0])
    matrix = filters.reshape(len(filters), -1)
    scales = product_scales(matrix, net.precision.per_tensor)
    rounded = net.precision.rounded.get(layer_name(op))
    if rounded is not None and np.array_equal(rounded.grid.scales.reshape(-1), scales):
        rows = arranged(rounded.steps).reshape(matrix.shape)
    else:
        rows = quantised_rows(matrix, scales)
    restored = rows * scales[:, np.newaxis].astype(np.float64)
    net.noise[layer_name(op)] = decibels([noise(matrix, restored)])
    bias = np.zeros(len(filters)) if bias is None else bias
    if net.precision.correct_biases:
        bias = bias - _shift(net, op, (restored - matrix).reshape(filters.shape), arguments.get("group", 1), last)
    if net.dtype == INT8 and not net.precision.per_tensor:
        rows, scales = _with_room(rows, scales, matrix, bias, x_scale)
    inputs: List[str] = [
        x,
        net.weight("int8", rows.reshape(filters.shape)),
        *before_bias,
        net.weight("bias", quantised_bias(bias, x_scale, scales, net.dtype)),
    ]
    output, activation = _output(net, op)
    y_scale = net.scales[output]
    net.add(
        type,
        inputs,
        net.write(output, y_scale, last),
        **arguments,
        **x_scale.of("X"),
        W_scales=scales,
        **y_scale.of("Y"),
        activation=activation,
    )


def _with_room(rows: Array, scales: Array, matrix: Array, bias: Array, x: Scale) -> Tuple[Array, Array]:
    """The rows and scales, with larger scales for filters so close to 0 that int32 could not hold their bias."""
    least = (np.abs(bias) / (float(x.scale) * _MOST_BIAS)).astype(np.float32)
    narrow = scales < least
    if not bool(narrow.any()):
        return rows, scales
    scales = short_scales(np.where(narrow, 2 * least, scales))
    return np.where(narrow[:, np.newaxis], quantised_rows(matrix, scales), rows), scales


def _shift(net: IntegerNet, op: OperatorDef, errors: Array, group: int, last: bool) -> Array:
    """By how much the errors of the filters shift the mean of each output: float64 (M); 0 where means are not known.

    An output of a transposed convolution does not meet the whole filter.
    """
    means = net.means.get(op.input[0]) if not op.type.startswith("ConvTranspose") else None
    by_channel = errors.sum(axis=(1, 2)) if last else errors
    if means is None or not means.size or by_channel.shape[1] * group % means.size:
        return np.zeros(len(errors))
    each = np.repeat(means, by_channel.shape[1] * group // means.size)
    of_group = each.reshape(group, 1, -1)
    shift: Array = (by_channel.reshape(group, -1, by_channel.shape[1]) * of_group).sum(axis=2).reshape(-1)
    return shift


def _output(net: IntegerNet, op: OperatorDef) -> Tuple[str, Optional[str]]:
    if op.type == "ConvRelu":
        return op.output[0], "RELU"
    return following(net, op)
