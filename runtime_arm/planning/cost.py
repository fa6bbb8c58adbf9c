"""Multiply-adds and bytes of an operator, from its shapes."""

from __future__ import annotations

import math
from typing import Callable, Dict, NamedTuple, Optional, Sequence

from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.specs import TensorSpec

Specs = Sequence[Optional[TensorSpec]]


class Cost(NamedTuple):
    """What an operator takes.

    multiply_adds: of the plain algorithm. parameters: elements that are constant. nbytes: everything read and written,
    once.
    """

    multiply_adds: int
    parameters: int
    nbytes: int


def cost_of(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Cost:
    """The operator's cost for these shapes."""
    count = _MULTIPLY_ADDS.get(op.type)
    present = [spec for spec in inputs if spec is not None]
    return Cost(
        multiply_adds=count(op, inputs, outputs) if count else 0,
        parameters=sum(spec.size for spec in present if spec.value is not None),
        nbytes=sum(spec.nbytes for spec in [*present, *outputs]),
    )


def _filter_taps(filters: Optional[TensorSpec]) -> int:
    """Products that one filter takes: its elements but the first dimension."""
    return math.prod(filters.shape[1:]) if filters is not None else 0


def _convolution(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> int:
    return outputs[0].size * _filter_taps(inputs[1])


def _transposed_convolution(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> int:
    return (inputs[0].size if inputs[0] is not None else 0) * _filter_taps(inputs[1])


def _transposed_by_filter(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> int:
    """Of X (N, H, W, C) and filters (M, kh, kw, C)."""
    x, filters = inputs[0], inputs[1]
    return 0 if x is None or filters is None else x.size // max(x.shape[-1], 1) * filters.size


def _quantised_convolution(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> int:
    return outputs[0].size * _filter_taps(inputs[3])


def _fully_connected(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> int:
    weights = inputs[1]
    if weights is None or not outputs[0].shape:
        return 0
    return outputs[0].size * (weights.size // max(outputs[0].shape[-1], 1))


def _matrix_product(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> int:
    left = inputs[0]
    if left is None or not left.shape:
        return 0
    transposed = left.ndim > 1 and op.has("trans_a") and op.get_bool("trans_a")
    return outputs[0].size * left.shape[-2 if transposed else -1]


def _separable_block(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> int:
    from runtime_arm.operators.fused.separable_block import results_of

    sizes = [spec.size for spec in results_of(op, inputs)]
    return sum(size * _filter_taps(w) for size, w in zip(sizes, inputs[1:7:2]))


def _pooled_convolution(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> int:
    from runtime_arm.operators.fused.pooled_convolution import LAYERS

    return LAYERS.specs(op, inputs)[0].size * _filter_taps(inputs[1])


_MULTIPLY_ADDS: Dict[str, Callable[[OperatorDef, Specs, Sequence[TensorSpec]], int]] = {
    "Conv": _convolution,
    "Conv1D": _convolution,
    "Conv2D": _convolution,
    "Conv3D": _convolution,
    "ConvRelu": _convolution,
    "FusedConv": _convolution,
    "PooledConv": _pooled_convolution,
    "SeparableBlock": _separable_block,
    "ConvTranspose": _transposed_convolution,
    "FusedConvTranspose": _transposed_convolution,
    "ConvInteger": _convolution,
    "QLinearConv": _quantised_convolution,
    "FC": _fully_connected,
    "FusedFC": _fully_connected,
    "FusedFCTransposed": _fully_connected,
    "FCTransposed": _fully_connected,
    "Gemm": _fully_connected,
    "MatMul": _matrix_product,
    "BatchMatMul": _matrix_product,
    "MatMulInteger": _matrix_product,
    "QLinearMatMul": _matrix_product,
    "QuantizedConv": _convolution,
    "HybridConv": _convolution,
    "HybridDepthwiseConv": _convolution,
    "QuantizedConvTranspose": _transposed_by_filter,
    "QuantizedFullyConnected": _fully_connected,
    "HybridFullyConnected": _fully_connected,
    "QuantizedMatMul": _matrix_product,
}
