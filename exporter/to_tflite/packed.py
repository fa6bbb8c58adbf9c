"""Constants that are stored in fewer bits, with a DEQUANTIZE that restores the same floats."""

from __future__ import annotations

from typing import Collection, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from exporter.to_tflite.model import Graph, Operation, Quantization, Tensor
from optimize.rewriting.weights import Weights
from runtime_arm.netdef import Array
from runtime_arm.pair.pair import Pair

LEAST = 256  # elements of a constant that is worth an operation
LEAST_ROW = 4  # elements whose multiples of one number are no accident
FEW, FEW_ROWS = 1 << 12, 4  # elements, and filters, that are looked at first
MOST = 127

_HALVES = ("HalfToFloat", "UnpackInt4")  # what they unpack is halves, all or most of it
Stored = Tuple[Array, Optional[Quantization]]


def pack_constants(graph: Graph, pair: Pair) -> None:
    """Store float32 constants as halves, or as int8 with one scale per filter, if that changes no number.

    This applies to constants that the pair stores in this way, and to constants that came from a file that did, which
    their numbers reveal.
    """
    large = {
        number: tensor.value
        for number, tensor in enumerate(graph.tensors)
        if tensor.value is not None and tensor.value.dtype == np.float32 and tensor.value.size >= LEAST
    }
    packed = any(op.type in _HALVES for op in pair.predict_net.op)
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
    """The scales of packed weights, one for each filter."""
    weights = Weights(pair.init_net)
    for op in pair.predict_net.op:
        scale = weights.value(op.input[1]) if op.type == "DequantizeLinear" else None
        if scale is not None and scale.ndim == 1:
            yield scale.astype(np.float32)


def _are_halves(values: Collection[Array]) -> bool:
    """Whether most of the numbers came from a file of float16. Some may not be exact in float16, because they are too
    small.
    """
    return 2 * sum(value.size for value in values if _half(value) is not None) > sum(value.size for value in values)


def _half(value: Array) -> Optional[Stored]:
    if not _is_half(value.reshape(-1)[:FEW]) or not _is_half(value):
        return None
    return value.astype(np.float16), None


def _is_half(value: Array) -> bool:
    with np.errstate(over="ignore"):
        return np.array_equal(value.astype(np.float16), value)


def _integers(value: Array, scales: Sequence[Array]) -> Optional[Stored]:
    """The numbers as int8 with scales along the first or last dimension, where TFLite has filters: these scales, or
    those that the numbers reveal. Numbers with a negative zero do not become integers.
    """
    for axis in (0, value.ndim - 1) if value.ndim > 1 else ():
        moved = np.moveaxis(value, axis, 0)
        for scale in [one for one in scales if one.size == len(moved)] or _own_scales(moved):
            rows = moved.reshape(len(moved), -1)
            if bool(_fits(rows, scale).all()) and not bool(np.signbit(rows[rows == 0]).any()):
                steps = np.rint(rows / scale[:, np.newaxis]).astype(np.int8).reshape(moved.shape)
                stored = np.ascontiguousarray(np.moveaxis(steps, 0, axis))
                return stored, Quantization(tuple(map(float, scale)), (0,) * scale.size, axis)
    return None


def _fits(rows: Array, scales: Array) -> Array:
    """Whether each row holds int8 times its scale."""
    steps = np.clip(np.rint(rows / scales[:, np.newaxis]), -MOST, MOST)
    return np.asarray((steps * scales[:, np.newaxis] == rows).all(axis=1))


def _own_scales(filters: Array) -> List[Array]:
    """The scales of numbers that came from a file of int8: the largest number of a filter is 127 steps."""
    if filters.size < LEAST_ROW * len(filters) or _scales_of_rows(filters[:FEW_ROWS]) is None:
        return []
    found = _scales_of_rows(filters)
    return [] if found is None else [found]


def _scales_of_rows(filters: Array) -> Optional[Array]:
    rows = filters.reshape(len(filters), -1)
    largest = np.abs(rows).max(axis=1)
    if not bool(np.isfinite(largest).all()):
        return None
    scales = np.where(largest > 0, largest, np.float32(MOST)) / np.float32(MOST)
    fitting = _fits(rows, scales)
    for limit in (np.inf, 0.0):  # the quotient is rounded
        other = np.nextafter(scales, np.float32(limit))
        fits = _fits(rows, other) & ~fitting
        scales, fitting = np.where(fits, other, scales), fitting | fits
    return scales if bool(fitting.all()) else None
