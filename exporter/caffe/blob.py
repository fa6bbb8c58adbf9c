"""Caffe's Blob: an N-dimensional array of values and of their gradients that keeps its memory when it is reshaped."""

from __future__ import annotations

import math
from typing import Any, Optional, Sequence, Tuple, Union

import numpy as np

from runtime_arm.errors import FormatError, UsageError
from runtime_arm.gpu.device import Device
from runtime_arm.gpu.synced_memory import SyncedMemory
from runtime_arm.netdef import Array
from runtime_arm.netdef.messages import class_from

MAX_AXES = 32
_MOST = 2**31 - 1  # elements: Caffe counts them in an int
_LEGACY = ("num", "channels", "height", "width")


class Blob:
    """``Blob([2, 3, 4])``: values ``data`` and gradients ``diff``, zero until they are written.

    Both lie in a SyncedMemory, ``data_memory`` and ``diff_memory``: with a ``device`` of ``runtime_arm/gpu`` they move
    there and back by themselves. Every mistake is a UsageError, every damaged BlobProto a FormatError.
    """

    def __init__(self, shape: Sequence[int] = (), dtype: Any = np.float32, device: Optional[Device] = None):
        self._dtype = np.dtype(dtype)
        self._shape: Tuple[int, ...] = ()
        self._capacity = 0
        self._device = device
        self._data: Optional[SyncedMemory] = None
        self._diff: Optional[SyncedMemory] = None
        self.reshape(shape)

    # Shape

    @property
    def shape(self) -> Tuple[int, ...]:
        return self._shape

    @property
    def num_axes(self) -> int:
        return len(self._shape)

    @property
    def capacity(self) -> int:
        """Elements that fit before memory has to be allocated again."""
        return self._capacity

    def reshape(self, *shape: Any) -> None:
        """Take another shape, given as one sequence or, as in pycaffe, number by number.

        Memory and content stay unless there are more elements than ever before.
        """
        dims = tuple(int(n) for n in (shape[0] if len(shape) == 1 and np.ndim(shape[0]) else shape))
        if len(dims) > MAX_AXES:
            raise UsageError(f"a blob has at most {MAX_AXES} axes, got {len(dims)}")
        if any(n < 0 for n in dims) or math.prod(dims) > _MOST:
            raise UsageError(f"the shape {dims} must have no negative dimension and at most {_MOST} elements")
        self._shape = dims
        if self.count() > self._capacity:
            self._capacity = self.count()
            self._data = self._diff = None

    def share_data(self, other: Blob) -> None:
        """Take the shape of another blob, and its values: both have one memory, until a reshape needs more."""
        self.reshape(other.shape)
        self._data, self._capacity = other.data_memory, min(self._capacity, other._capacity)

    def share_diff(self, other: Blob) -> None:
        """Take the shape of another blob, and its gradients, as ``share_data`` takes the values."""
        self.reshape(other.shape)
        self._diff, self._capacity = other.diff_memory, min(self._capacity, other._capacity)

    def count(self, start: int = 0, end: Optional[int] = None) -> int:
        """The number of elements, or the product of the dimensions from ``start`` to before ``end``."""
        end = self.num_axes if end is None else end
        if not 0 <= start <= end <= self.num_axes:
            raise UsageError(f"axes {start} to {end} are not within {self.num_axes}")
        return math.prod(self._shape[start:end])

    def canonical_axis_index(self, axis: int) -> int:
        """The axis counted from the front; negative ones count from the back."""
        if not -self.num_axes <= axis < self.num_axes:
            raise UsageError(f"axis {axis} is out of range for the shape {self._shape}")
        return axis % self.num_axes

    def legacy_shape(self, axis: int) -> int:
        """A dimension of the blob as (num, channels, height, width); 1 for an axis that it lacks."""
        if self.num_axes > 4 or not -4 <= axis < 4:
            raise UsageError(f"axis {axis} of the shape {self._shape} has no legacy name, there are four of them")
        padded = self._padded(axis)
        return padded[axis]

    def _padded(self, axis: int) -> Tuple[int, ...]:
        """Four dimensions: axes from the front are padded behind, those from the back in front."""
        ones = (1,) * (4 - self.num_axes)
        return self._shape + ones if axis >= 0 else ones + self._shape

    @property
    def num(self) -> int:
        return self.legacy_shape(0)

    @property
    def channels(self) -> int:
        return self.legacy_shape(1)

    @property
    def height(self) -> int:
        return self.legacy_shape(2)

    @property
    def width(self) -> int:
        return self.legacy_shape(3)

    def offset(self, *indices: Union[int, Sequence[int]]) -> int:
        """Where an element lies in the flat blob: ``offset(n, c, h, w)`` with zeros for what is left out, or
        ``offset([i, j, ...])``."""
        if len(indices) == 1 and not isinstance(indices[0], int):
            at, dims = [int(i) for i in indices[0]], self._shape
        else:
            at, dims = [int(i) for i in indices], (self.num, self.channels, self.height, self.width)  # type: ignore[arg-type]
        if len(at) > len(dims) or any(not 0 <= i < n for i, n in zip(at, dims)):
            raise UsageError(f"index {at} lies outside the shape {self._shape}")
        flat = 0
        for axis, n in enumerate(dims):
            flat = flat * n + (at[axis] if axis < len(at) else 0)
        return flat

    # Content

    @property
    def data(self) -> Array:
        """The values on the processor, a view in the blob's shape that may be written."""
        return self._shaped(self.data_memory)

    @property
    def diff(self) -> Array:
        """The gradients on the processor, a view in the blob's shape that may be written."""
        return self._shaped(self.diff_memory)

    @property
    def data_memory(self) -> SyncedMemory:
        """The memory of the values; ``data_memory.gpu_data()`` is their side on the device."""
        if self._data is None:
            self._data = SyncedMemory(self._capacity * self._dtype.itemsize, self._device)
        return self._data

    @property
    def diff_memory(self) -> SyncedMemory:
        """The memory of the gradients."""
        if self._diff is None:
            self._diff = SyncedMemory(self._capacity * self._dtype.itemsize, self._device)
        return self._diff

    def _shaped(self, memory: SyncedMemory) -> Array:
        flat: Array = memory.mutable_cpu_data().view(self._dtype)
        return flat[: self.count()].reshape(self._shape)

    def data_at(self, *indices: int) -> float:
        return float(self.data.reshape(-1)[self.offset(*indices)])

    def diff_at(self, *indices: int) -> float:
        return float(self.diff.reshape(-1)[self.offset(*indices)])

    def update(self) -> None:
        """Subtract the gradients from the values."""
        np.subtract(self.data, self.diff, out=self.data)

    # BlobProto

    def shape_equals(self, proto: Any) -> bool:
        """Whether a BlobProto has this shape; one in the old form has four dimensions, padded in front with 1."""
        if _is_legacy(proto):
            return self.num_axes <= 4 and self._padded(-1) == _legacy_dims(proto)
        return self._shape == tuple(proto.shape.dim)

    def from_proto(self, proto: Any, reshape: bool = True) -> None:
        """Take the content of a BlobProto, old form or new, single or double; with ``reshape`` its shape too."""
        if reshape:
            dims = _legacy_dims(proto) if _is_legacy(proto) else tuple(proto.shape.dim)
            require_count("data", dims, len(proto.double_data) or len(proto.data))
            self.reshape(dims)
        elif not self.shape_equals(proto):
            raise FormatError(f"the blob has the shape {self._shape}, the BlobProto another")
        data = proto.double_data or proto.data
        require_count("data", self._shape, len(data))
        self.data[...] = np.fromiter(data, self._dtype, len(data)).reshape(self._shape)
        diff = proto.double_diff or proto.diff
        if len(diff):
            require_count("diff", self._shape, len(diff))
            self.diff[...] = np.fromiter(diff, self._dtype, len(diff)).reshape(self._shape)

    def to_proto(self, write_diff: bool = False, legacy: bool = False) -> Any:
        """A BlobProto: shape as BlobShape or, with ``legacy``, as num, channels, height and width."""
        proto = class_from("exporter.caffe", "caffe.desc", "armnet.caffe.BlobProto")()
        if legacy:
            for name, axis in zip(_LEGACY, range(-4, 0)):
                setattr(proto, name, self.legacy_shape(axis))
        else:
            proto.shape.dim.extend(self._shape)
        double = self._dtype == np.float64
        (proto.double_data if double else proto.data).extend(self.data.reshape(-1).tolist())
        if write_diff:
            (proto.double_diff if double else proto.diff).extend(self.diff.reshape(-1).tolist())
        return proto


def _is_legacy(proto: Any) -> bool:
    return any(proto.HasField(name) for name in _LEGACY)


def _legacy_dims(proto: Any) -> Tuple[int, ...]:
    return tuple(int(getattr(proto, name)) for name in _LEGACY)


def require_count(what: str, dims: Sequence[int], found: int) -> None:
    """FormatError unless so many values fit the shape: it is believed only if they are there."""
    if any(n < 0 for n in dims) or len(dims) > MAX_AXES or math.prod(dims) != found:
        raise FormatError(f"the blob's shape {tuple(dims)} does not fit its {found} values of {what}")
