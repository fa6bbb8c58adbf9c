"""Constants that are stored in fewer bits, with a DEQUANTIZE that makes the same floats of them."""

from __future__ import annotations

from typing import Collection, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from exporter.to_tflite.model import Graph, Operation, Quantization, Tensor
from optimize.rewriting.weights import Weights
from runtime_arm.netdef import Array
from runtime_arm.pair.pair import Pair

LEAST = 256  # elements of a constant that is worth an operation
LEAST_ROW = 4  # elements whose multiples of one number are no accident
MOST = 127

Stored = Tuple[Array, Optional[Quantization]]


def pack_constants(graph: Graph, pair: Pair) -> None:
    """Store float32 constants as the pair does, in halves or in int8 with scales of filters, where that changes no
    number. So are those that came from a file of such numbers, which they tell."""
    large = {
        number: tensor.value
        for number, tensor in enumerate(graph.tensors)
        if tensor.value is not None and tensor.value.dtype == np.float32 and tensor.value.size >= LEAST
    }
    packed = any(op.type == "HalfToFloat" for op in pair.predict_net.op)
    halves, scales = packed or _are_halves(large.values()), list(_scales(pair))
    added: List[Operation] = []
    for number, value in large.items():
        tensor = graph.tensors[number]
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


def _are_halves(values: Collection[Array]) -> bool:
    """Whether most of the numbers came from a file of float16, in which some may have been too small for that."""
    return 2 * sum(value.size for value in values if _half(value) is not None) > sum(value.size for value in values)


def _half(value: Array) -> Optional[Stored]:
    with np.errstate(over="ignore"):
        half = value.astype(np.float16)
    return (half, None) if np.array_equal(half.astype(np.float32), value) else None


def _integers(value: Array, scales: Sequence[Array]) -> Optional[Stored]:
    """As int8 along the first or last dimension, where filters are in TFLite, with one of these scales or with those
    that the numbers tell."""
    for axis in (0, value.ndim - 1) if value.ndim > 1 else ():
        moved = np.moveaxis(value, axis, 0)
        rows = moved.reshape(len(moved), -1)
        for scale in [one for one in scales if one.size == len(rows)] or _own_scales(rows):
            if bool(_fits(rows, scale).all()):
                steps = np.rint(rows / scale[:, np.newaxis]).astype(np.int8).reshape(moved.shape)
                stored = np.ascontiguousarray(np.moveaxis(steps, 0, axis))
                return stored, Quantization(tuple(map(float, scale)), (0,) * scale.size, axis)
    return None


def _fits(rows: Array, scales: Array) -> Array:
    """Whether each row holds int8 times its scale."""
    steps = np.clip(np.rint(rows / scales[:, np.newaxis]), -MOST, MOST)
    return np.asarray((steps * scales[:, np.newaxis] == rows).all(axis=1))


def _own_scales(rows: Array) -> Sequence[Array]:
    """Those of which the largest number of each row is 127, if the rows hold such: they came from a file of int8."""
    largest = np.abs(rows).max(axis=1, initial=0)
    if rows.shape[1] < LEAST_ROW or not np.isfinite(largest).all():
        return ()
    near = np.where(largest > 0, largest, MOST) / np.float32(MOST)
    tried = [near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(0))]  # a quotient is rounded
    probe = slice(largest.argmax(), largest.argmax() + 1)
    if not any(bool(_fits(rows[probe], one[probe])[0]) for one in tried):
        return ()
    scales = near
    for one in tried:
        scales = np.where(_fits(rows, one), one, scales)
    return [scales]
