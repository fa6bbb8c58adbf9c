"""What is known of a blob before the net runs, and the quantised blob as callers see it."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array

Shape = Tuple[int, ...]


class QuantizedTensor(NamedTuple):
    """An int8 or uint8 blob: real value = scale * (values - zero_point). What feed and fetch use for Caffe2's Int8
    blobs."""

    values: Array
    scale: float
    zero_point: int


class Quantization(NamedTuple):
    """Scale and zero point that a blob carries beside its integers."""

    scale: float
    zero_point: int


class TensorSpec:
    """Shape, dtype and whatever else is known of a blob when the net is planned.

    ``value`` is the blob's content where it is known before running (weights, shape arithmetic), else None. Equality
    compares shape, dtype and quantization.
    """

    __slots__ = ("dtype", "quantization", "shape", "value")

    def __init__(
        self,
        shape: Sequence[int],
        dtype: Any,
        value: Optional[Array] = None,
        quantization: Optional[Quantization] = None,
    ):
        self.shape: Shape = tuple(int(n) for n in shape)
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.value = value
        self.quantization = quantization

    @staticmethod
    def known(value: Any) -> TensorSpec:
        """The spec of a blob whose content is known: an array or a QuantizedTensor."""
        if isinstance(value, QuantizedTensor):
            quantization = Quantization(value.scale, value.zero_point)
            return TensorSpec(value.values.shape, value.values.dtype, value.values, quantization)
        array = np.asarray(value)
        return TensorSpec(array.shape, array.dtype, array)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements, exact whatever the shape (no overflow)."""
        size = 1
        for n in self.shape:
            size *= n
        return size

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def with_shape(self, shape: Sequence[int]) -> TensorSpec:
        """Another shape, same dtype and quantization; the value is forgotten."""
        return TensorSpec(shape, self.dtype, None, self.quantization)

    def with_dtype(self, dtype: Any) -> TensorSpec:
        """Another dtype, same shape; value and quantization are forgotten."""
        return TensorSpec(self.shape, dtype)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorSpec):
            return NotImplemented
        return (self.shape, self.dtype, self.quantization) == (other.shape, other.dtype, other.quantization)

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype, self.quantization))

    def __repr__(self) -> str:
        return f"{self.dtype.name}{list(self.shape)}"
