"""Constants that are stored in fewer bits, with a DEQUANTIZE that makes the same floats of them."""

from __future__ import annotations

from typing import Iterable, Iterator, List, Optional, Tuple

import numpy as np

from exporter.to_tflite.model import Graph, Operation, Quantization, Tensor
from optimize.rewriting.weights import Weights
from runtime_arm.netdef import Array
from runtime_arm.pair.pair import Pair

LEAST = 256  # elements of a constant that is worth an operation

Stored = Tuple[Array, Optional[Quantization]]


def pack_constants(graph: Graph, pair: Pair) -> None:
    """Store float32 constants as the pair does, in halves or in int8 with scales of filters, where that changes no
    number."""
    ops = pair.predict_net.op
    halves, scales = any(op.type == "HalfToFloat" for op in ops), list(_scales(pair))
    added: List[Operation] = []
    for number, tensor in enumerate(list(graph.tensors)):
        value = tensor.value
        if value is None or value.dtype != np.float32 or value.size < LEAST:
            continue
        found = _integers(value, scales) or (_half(value) if halves else None)
        if found is not None:
            stored, quantization = found
            name = f"{tensor.name}_{stored.dtype.name}"
            graph.tensors.append(Tensor(name, tensor.shape, stored.dtype, quantization, stored))
            tensor.value = None
            added.append(Operation("DEQUANTIZE", [len(graph.tensors) - 1], [number]))
    graph.operations = [*added, *graph.operations]


def _scales(pair: Pair) -> Iterator[Array]:
    """Of packed weights, one for each filter."""
    weights = Weights(pair.init_net)
    for op in pair.predict_net.op:
        scale = weights.value(op.input[1]) if op.type == "DequantizeLinear" else None
        if scale is not None and scale.ndim == 1:
            yield scale.astype(np.float32)


def _half(value: Array) -> Optional[Stored]:
    with np.errstate(over="ignore"):
        half = value.astype(np.float16)
    return (half, None) if np.array_equal(half.astype(np.float32), value) else None


def _integers(value: Array, scales: Iterable[Array]) -> Optional[Stored]:
    """As int8 with one of these scales along the first or the last dimension, where filters are in TFLite."""
    for scale in scales:
        for axis in (0, value.ndim - 1):
            if value.shape[axis] != scale.size or value.ndim < 2:
                continue
            along = scale.reshape([-1 if at == axis else 1 for at in range(value.ndim)])
            steps = np.clip(np.rint(value / along), -127, 127).astype(np.int8)
            if np.array_equal(steps * along, value):
                zeros = (0,) * scale.size
                return steps, Quantization(tuple(float(one) for one in scale), zeros, axis)
    return None
