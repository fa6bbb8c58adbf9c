"""Specs: what is known about a blob before the net runs; and the quantised blob as callers see it."""

from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.records import NamedTuple

Shape = Tuple[int, ...]


class QuantizedTensor(NamedTuple):
    """An int8 or uint8 blob: real value = scale * (values - zero_point).

    Feeds and fetches use it for Caffe2's Int8 blobs.

    Examples:
        >>> import armnet, numpy
        >>> x = armnet.QuantizedTensor(numpy.array([0, 128, 255], numpy.uint8), scale=0.5, zero_point=128)
        >>> x.scale * (x.values.astype(int) - x.zero_point)
        array([-64. ,   0. ,  63.5])
    """

    values: Array
    scale: float
    zero_point: int


class Quantization(NamedTuple):
    """The scale and the zero point that a blob carries beside its integers."""

    scale: float
    zero_point: int


class TensorSpec:
    """The shape, the dtype and whatever else is known about a blob when the net is planned.

    ``value`` is the blob's content if it is known before running (weights, shape arithmetic), else None. Equality
    compares shape, dtype and quantization, not the value.
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
        """The spec of a blob with this content: an array or a QuantizedTensor."""
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
        """The number of elements, as an integer that cannot overflow."""
        size = 1
        for n in self.shape:
            size *= n
        return size

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def with_shape(self, shape: Sequence[int]) -> TensorSpec:
        """A spec with this shape, the same dtype and quantization, and no value."""
        return TensorSpec(shape, self.dtype, None, self.quantization)

    def with_content(self, content: Array) -> TensorSpec:
        """The same spec with this content, an array of its shape and dtype."""
        spec = TensorSpec.__new__(TensorSpec)  # shape and dtype come from a spec and need no conversion
        spec.shape, spec.dtype, spec.value, spec.quantization = self.shape, self.dtype, content, self.quantization
        return spec

    def with_dtype(self, dtype: Any) -> TensorSpec:
        """A spec with this dtype, the same shape, and neither value nor quantization."""
        return TensorSpec(self.shape, dtype)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorSpec):
            return NotImplemented
        return (self.shape, self.dtype, self.quantization) == (other.shape, other.dtype, other.quantization)

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype, self.quantization))

    def __repr__(self) -> str:
        return f"{self.dtype.name}{list(self.shape)}"
