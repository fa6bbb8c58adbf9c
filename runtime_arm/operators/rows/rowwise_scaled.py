"""Rows of bytes with their scales and biases in a separate matrix (rows, 2): the older format of embedding tables.

Source: caffe2/operators/lengths_reducer_rowwise_8bit_ops.h, byte_weight_dequant_op.h.
"""

from __future__ import annotations

from math import prod
from typing import Any, List

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.indices import absolute
from runtime_arm.operators.rows.segment_reductions import (
    sparse_lengths_mean,
    sparse_lengths_sum,
    sparse_lengths_weighted_sum,
)
from runtime_arm.registry.schema import Operator, operator, require
from runtime_arm.registry.specs import TensorSpec

_EQUAL = np.float32(1e-10)  # a row whose numbers differ by less counts as constant


@operator("FloatToRowwiseQuantized8Bits", outputs=2, dtypes=("float32",))
def quantize(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """X as uint8, and (scale, bias) of each row: bias = min, scale = (max - min) / 255; ties away from zero."""
    require(op, x.ndim > 0 and prod(x.shape[1:]) > 0, "a row of X must not be empty", x)
    return [TensorSpec(x.shape, np.uint8), TensorSpec((x.shape[0], 2), np.float32)]


@quantize.reference
def quantize_reference(op: OperatorDef, x: Array) -> List[Any]:
    rows = x.reshape(x.shape[0], prod(x.shape[1:]))
    low, high = rows.min(1, keepdims=True), rows.max(1, keepdims=True)
    scale = np.where(high - low < _EQUAL, np.float32(1), (high - low) / np.float32(255))
    steps = np.floor((rows - low) * (np.float32(1) / scale) + np.float32(0.5))
    codes = np.where(high - low < _EQUAL, 0, np.fmin(np.fmax(steps, 0), 255)).astype(np.uint8)
    return [codes.reshape(x.shape), np.concatenate([scale, low], axis=1)]


def _require_scales(op: OperatorDef, x: TensorSpec, scales: TensorSpec) -> None:
    fits = x.ndim > 0 and scales.shape == (*x.shape[:1], 2) and scales.dtype == np.float32
    require(op, fits, "there must be one float32 scale and bias per row", x, scales)


def _real(x: Array, scales: Array) -> Array:
    column = (-1,) + (1,) * (x.ndim - 1)
    return np.asarray(x.astype(np.float32) * scales[:, 0].reshape(column) + scales[:, 1].reshape(column))


@operator("Rowwise8BitQuantizedToFloat", inputs=2, dtypes=("uint8",))
def dequantize(op: OperatorDef, x: TensorSpec, scales: TensorSpec) -> List[TensorSpec]:
    """scale X + bias, row by row."""
    _require_scales(op, x, scales)
    return [TensorSpec(x.shape, np.float32)]


@dequantize.reference
def dequantize_reference(op: OperatorDef, x: Array, scales: Array) -> List[Any]:
    return [_real(x, scales)]


def _declare_lookup(type: str, plain: Operator, weighted: bool) -> None:
    @operator(type, inputs=4 + weighted, dtypes=("uint8",))
    def schema(op: OperatorDef, x: TensorSpec, *others: TensorSpec) -> List[TensorSpec]:
        """The operator without 8BitsRowwise, applied to the rows that X stands for. The last input is their scales."""
        _require_scales(op, x, others[-1])
        like = sparse_lengths_weighted_sum if weighted else plain
        return list(like.shape(op, TensorSpec(x.shape, np.float32), *others[:-1]))

    @schema.reference
    def reference(op: OperatorDef, x: Array, *others: Array) -> List[Any]:
        *weights, indices, lengths, scales = others
        picks = absolute(op, indices, len(x), wraps=False)
        rows, places = _real(x[picks], scales[picks]), np.arange(picks.size, dtype=np.int64)
        if plain is sparse_lengths_mean and weighted:
            rows = rows * weights[0].reshape((-1,) + (1,) * (x.ndim - 1))
            return plain.evaluate(op, [rows, places, lengths])
        return plain.evaluate(op, [rows, *weights, places, lengths])


_declare_lookup("SparseLengthsSum8BitsRowwise", sparse_lengths_sum, weighted=False)
_declare_lookup("SparseLengthsWeightedSum8BitsRowwise", sparse_lengths_weighted_sum, weighted=True)
_declare_lookup("SparseLengthsMean8BitsRowwise", sparse_lengths_mean, weighted=False)
_declare_lookup("SparseLengthsWeightedMean8BitsRowwise", sparse_lengths_mean, weighted=True)


@operator("ByteWeightDequant", dtypes=("uint8",))
def byte_weight_dequant(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """X / 255 (max - min) + min, float32, in shape ``shape``; ``min`` (-3), ``max`` (3)."""
    shape = op.get_ints("shape")
    if prod(shape) != x.size:
        raise ArgumentError(op, f"shape {list(shape)} does not have the {x.size} elements of the input")
    return [TensorSpec(shape, np.float32)]


@byte_weight_dequant.reference
def byte_weight_dequant_reference(op: OperatorDef, x: Array) -> List[Any]:
    low, high = op.get_float("min", -3.0), op.get_float("max", 3.0)
    return [(x.astype(np.float64) / 255 * (high - low) + low).astype(np.float32).reshape(op.get_ints("shape"))]
