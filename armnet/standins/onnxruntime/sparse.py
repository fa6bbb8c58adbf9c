"""SparseTensor: values and where they stand. Networks of armnet take none; programs may hold them."""

from __future__ import annotations

from typing import Any, List, Sequence

import numpy as np

from armnet.standins.notes import Standin
from armnet.standins.onnxruntime.devices import OrtDevice, require_cpu
from armnet.standins.onnxruntime.nodes import element_name
from armnet.standins.onnxruntime.options import Named
from runtime_arm.netdef import Array


class OrtSparseFormat(Named):
    """How it is said where the values stand."""

    ORT_SPARSE_UNDEFINED = 0
    ORT_SPARSE_COO = 1
    ORT_SPARSE_CSRC = 2
    ORT_SPARSE_BLOCK_SPARSE = 4


class SparseCooView(Standin):
    """The indices of each value, linear or one for each dimension."""

    _package = "onnxruntime"

    def __init__(self, indices: Array):
        self._indices = indices

    def indices(self) -> Array:
        """The indices."""
        return self._indices


class SparseCsrView(Standin):
    """The columns of the values, and where each row begins."""

    _package = "onnxruntime"

    def __init__(self, inner: Array, outer: Array):
        self._inner, self._outer = inner, outer

    def inner(self) -> Array:
        """The columns."""
        return self._inner

    def outer(self) -> Array:
        """The place of each row's first value, and the number of values."""
        return self._outer


class SparseTensor(Standin):
    """Made by ``sparse_coo_from_numpy`` or ``sparse_csr_from_numpy``; its arrays cannot be written."""

    _package = "onnxruntime"

    def __init__(self, kind: OrtSparseFormat, shape: Sequence[int], values: Array, places: Sequence[Array]):
        self._kind, self._shape = kind, [int(size) for size in shape]
        self._values, *self._places = (_fixed(array) for array in (values, *places))

    @classmethod
    def sparse_coo_from_numpy(
        cls, dense_shape: Sequence[int], values: Array, coo_indices: Array, ort_device: OrtDevice
    ) -> SparseTensor:
        """Values at linear indices, or at rows of indices."""
        require_cpu(ort_device)
        return cls(OrtSparseFormat.ORT_SPARSE_COO, dense_shape, values, [coo_indices])

    @classmethod
    def sparse_csr_from_numpy(
        cls,
        dense_shape: Sequence[int],
        values: Array,
        inner_indices: Array,
        outer_indices: Array,
        ort_device: OrtDevice,
    ) -> SparseTensor:
        """Values row by row."""
        require_cpu(ort_device)
        return cls(OrtSparseFormat.ORT_SPARSE_CSRC, dense_shape, values, [inner_indices, outer_indices])

    def values(self) -> Array:
        """The values."""
        return self._values

    def as_coo_view(self) -> SparseCooView:
        """The indices. RuntimeError for another format."""
        self._require(OrtSparseFormat.ORT_SPARSE_COO)
        return SparseCooView(*self._places)

    def as_csrc_view(self) -> SparseCsrView:
        """The rows. RuntimeError for another format."""
        self._require(OrtSparseFormat.ORT_SPARSE_CSRC)
        return SparseCsrView(*self._places)

    def to_cuda(self, ort_device: Any) -> SparseTensor:
        """Refused: RuntimeError."""
        raise RuntimeError("armnet's stand-in for onnxruntime has no CUDA")

    def format(self) -> OrtSparseFormat:
        """The format."""
        return self._kind

    def dense_shape(self) -> List[int]:
        """The shape of the dense tensor."""
        return list(self._shape)

    def data_type(self) -> str:
        """``sparse_tensor(float)``."""
        return f"sparse_tensor({element_name(self._values.dtype)})"

    def device_name(self) -> str:
        """Where it lies."""
        return "cpu"

    def _require(self, kind: OrtSparseFormat) -> None:
        if self._kind != kind:
            raise RuntimeError(f"the sparse tensor has the format {self._kind.name}, not {kind.name}")


def _fixed(array: Array) -> Array:
    """A copy that cannot be written."""
    made = np.array(array)
    made.flags.writeable = False
    return made
