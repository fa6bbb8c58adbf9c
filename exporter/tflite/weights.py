"""Constant tensors as arrays: views of the file if the bytes are the values; sparse tensors are expanded."""

from __future__ import annotations

import math
from typing import Optional

import numpy as np

from exporter.tflite.reader import Quantization, Tensor
from exporter.tflite.sparse import densified
from runtime_arm.errors import ExportError
from runtime_arm.netdef import Array


def content_of(tensor: Tensor) -> Array:
    """The values of a constant tensor in its shape: int4 as int8, complex numbers as pairs of floats.

    ExportError, naming it, if its bytes do not fit.
    """
    try:
        return _content(tensor)
    except ExportError as error:
        raise ExportError(f"tensor {tensor.name!r}: {error}") from error


def _content(tensor: Tensor) -> Array:
    dtype, shape = tensor.dtype, [n or 0 for n in tensor.dims]
    if tensor.is_complex:
        dtype, shape = np.dtype(np.float32), [*shape, 2]
    if dtype is None:
        raise ExportError(f"constants of type {tensor.type} are not supported")
    data = memoryview(b"") if tensor.content is None else tensor.content
    if tensor.sparsity is not None:
        return densified(data, dtype, tensor.sparsity, shape)
    size = math.prod(shape)
    nbytes = (size + 1) // 2 if tensor.type == "INT4" else size * dtype.itemsize
    if len(data) != nbytes:
        raise ExportError(f"{tensor.type} of shape {tuple(shape)} takes {nbytes} bytes, its buffer has {len(data)}")
    if tensor.type == "INT4":
        return _unpacked(data)[:size].reshape(shape)
    return np.frombuffer(data, dtype.newbyteorder("<")).view(dtype).reshape(shape)


def _unpacked(data: memoryview) -> Array:
    """Two signed 4-bit values per byte, the lower half first."""
    packed = np.frombuffer(data, np.int8)
    return np.stack([np.left_shift(packed, 4) >> 4, packed >> 4], axis=1).reshape(-1)


def quantization_of(tensor: Tensor) -> Optional[Quantization]:
    """Scales and zero points of a tensor; None if it has none. ExportError, naming the tensor, if they are invalid.

    Weights may have scales that are negative or zero, and a bias scale is never read; so operators judge the signs.
    """
    table, dtype = tensor.quantization, tensor.dtype
    scale = np.empty(0) if table is None else table.vector("scale", "f4")
    if table is None or scale.size == 0 or dtype is None or dtype.kind == "f":
        return None
    zero_point = table.vector("zero_point", "i8")
    axis, rank = table.integer("quantized_dimension"), len(tensor.dims)
    try:
        if zero_point.size not in (0, 1, scale.size):
            raise ExportError(f"{scale.size} scales and {zero_point.size} zero points")
        if scale.size > 1 and not (0 <= axis < rank and tensor.dims[axis] in (None, scale.size)):
            raise ExportError(f"{scale.size} scales along dimension {axis} of the shape {tensor.dims}")
        impossible = scale[~np.isfinite(scale)]
        if impossible.size:
            raise ExportError(f"scales must be finite numbers, one is {impossible[0]}")
        limits = np.iinfo(dtype)
        if np.any((zero_point < limits.min) | (zero_point > limits.max)):
            raise ExportError(f"a zero point lies outside {tensor.type}")
    except ExportError as error:
        raise ExportError(f"the quantization of tensor {tensor.name!r} does not fit: {error}") from error
    zero_point = zero_point if zero_point.size else np.zeros(1, np.int64)
    return Quantization(scale, np.broadcast_to(zero_point, scale.shape), axis)
