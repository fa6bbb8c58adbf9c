"""Rows of bytes with a scale and a bias of their own behind each, as embedding tables are kept: Fused8BitRowwise.

A row (D + 8) uint8: D bytes q, then scale and bias as float32; it stands for  scale q + bias.
Source: caffe2/operators/fused_rowwise_8bit_conversion_ops.h, lengths_reducer_fused_8bit_rowwise_ops.h.
"""

from __future__ import annotations

from typing import Any, List, Tuple

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.segment_reductions import (
    sparse_lengths_mean,
    sparse_lengths_sum,
    sparse_lengths_weighted_sum,
)
from runtime_arm.registry import Operator, operator, require
from runtime_arm.tensor import TensorSpec

TRAILER = 8  # bytes behind each row
_EPSILON = np.float32(1e-8)  # keeps rows of equal numbers from a division by 0


@operator("FloatToFused8BitRowwiseQuantized", dtypes=("float32",))
def quantize_rows(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Each row of X (N, D) as (D + 8) bytes: scale = (max - min) / 255, bias = min, ties to even."""
    require(op, x.ndim == 2 and x.shape[1] > 0, "X must be a matrix with a column", x)
    return [TensorSpec((x.shape[0], x.shape[1] + TRAILER), np.uint8)]


@quantize_rows.reference
def quantize_rows_reference(op: OperatorDef, x: Array) -> List[Any]:
    low, high = x.min(1, keepdims=True), x.max(1, keepdims=True)
    steps = np.rint((x - low) * (np.float32(255) / (high - low + _EPSILON)))
    trailer = np.concatenate([(high - low) / np.float32(255), low], axis=1).astype("<f4")
    return [np.concatenate([np.fmin(np.fmax(steps, 0), 255).astype(np.uint8), trailer.view(np.uint8)], axis=1)]


def _real_rows(op: OperatorDef, x: TensorSpec) -> TensorSpec:
    require(op, x.ndim == 2 and x.shape[1] > TRAILER, f"X must be a matrix with more than {TRAILER} columns", x)
    return TensorSpec((x.shape[0], x.shape[1] - TRAILER), np.float32)


def _dequantized(x: Array) -> Array:
    scale, bias = np.split(np.ascontiguousarray(x[:, -TRAILER:]).view("<f4"), 2, axis=1)
    return np.asarray(x[:, :-TRAILER].astype(np.float32) * scale + bias)


@operator("Fused8BitRowwiseQuantizedToFloat", dtypes=("uint8",))
def dequantize_rows(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """The rows (N, D) float32 that X (N, D + 8) stands for."""
    return [_real_rows(op, x)]


@dequantize_rows.reference
def dequantize_rows_reference(op: OperatorDef, x: Array) -> List[Any]:
    return [_dequantized(x)]


def _declare(plain: Operator) -> None:
    counts: Tuple[int, Any] = plain.inputs

    @operator(f"{plain.type}Fused8BitRowwise", inputs=counts, dtypes=("uint8",))
    def schema(op: OperatorDef, x: TensorSpec, *others: TensorSpec) -> List[TensorSpec]:
        """What the operator of the shorter name does, of the rows that X stands for."""
        return list(plain.shape(op, _real_rows(op, x), *others))

    @schema.reference
    def reference(op: OperatorDef, x: Array, *others: Array) -> List[Any]:
        return plain.evaluate(op, [_dequantized(x), *others])


for _plain in (sparse_lengths_sum, sparse_lengths_weighted_sum, sparse_lengths_mean):
    _declare(_plain)
