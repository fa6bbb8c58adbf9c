"""OrtValue: a tensor outside a session."""

from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple

import numpy as np

from armnet.standins.notes import Standin
from armnet.standins.onnxruntime.devices import require_cpu
from armnet.standins.onnxruntime.nodes import element_name, element_number, numpy_dtype
from armnet.standins.onnxruntime.sparse import SparseTensor
from runtime_arm.netdef import Array


class OrtValue(Standin):
    """A tensor in the processor's memory. It shares the memory of the array that it is made of, as onnxruntime's does,
    if that array is contiguous."""

    __slots__ = ("_array", "_sparse")
    _package = "onnxruntime"

    def __init__(self, array: Array):
        self._array = array
        self._sparse: Optional[SparseTensor] = None

    @classmethod
    def ortvalue_from_numpy(
        cls, numpy_obj: Array, /, device_type: str = "cpu", device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        """A value that holds this array."""
        require_cpu(device_type)
        if not isinstance(numpy_obj, np.ndarray):
            raise TypeError(f"an OrtValue is made of an array, got {type(numpy_obj).__name__}")
        return cls(np.ascontiguousarray(numpy_obj).reshape(numpy_obj.shape))

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: Array, /, onnx_element_type: int) -> OrtValue:
        """A value that holds this array, whose bytes are elements of ONNX's type of this number."""
        if element_number(data.dtype) == onnx_element_type:
            return cls.ortvalue_from_numpy(data)
        dtype = numpy_dtype(onnx_element_type)
        if dtype.itemsize != data.dtype.itemsize:
            raise ValueError(f"elements of {data.dtype} cannot be {dtype}")
        return cls.ortvalue_from_numpy(data.view(dtype))

    @classmethod
    def ortvalue_from_shape_and_type(
        cls,
        shape: Sequence[int],
        element_type: Any = np.float32,
        device_type: str = "cpu",
        device_id: int = 0,
        vendor_id: int = -1,
    ) -> OrtValue:
        """A value of this shape with any content."""
        require_cpu(device_type)
        return cls(np.zeros(tuple(shape), numpy_dtype(element_type)))

    def numpy(self) -> Array:
        """The array."""
        return self._array

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> Array:
        array = self._array if dtype is None else self._array.astype(dtype, copy=False)
        if copy is False and array is not self._array:
            raise ValueError("the array cannot have this dtype without a copy")
        return array.copy() if copy else array

    def __dlpack__(self, *, stream: Any = None) -> Any:
        return self._exchangeable().__dlpack__()

    def __dlpack_device__(self) -> Tuple[int, int]:
        place: Tuple[int, int] = self._exchangeable().__dlpack_device__()
        return place

    def to_dlpack(self) -> Any:
        """The tensor as other libraries take it."""
        return self.__dlpack__()

    @classmethod
    def from_dlpack(cls, data: Any, is_bool_tensor: bool = False, /) -> OrtValue:
        """A value that shares the memory of another library's tensor, given as itself or as what its ``__dlpack__``
        returns. is_bool_tensor: its bytes are truth values."""
        if not hasattr(np, "from_dlpack"):
            raise RuntimeError(f"NumPy {np.__version__} has no from_dlpack; 1.23 has")
        array = np.from_dlpack(data if hasattr(data, "__dlpack__") else _Capsule(data))
        return cls(array.view(np.bool_) if is_bool_tensor else array)

    @classmethod
    def ort_value_from_sparse_tensor(cls, sparse_tensor: SparseTensor) -> OrtValue:
        """A value that holds a sparse tensor."""
        made = cls(sparse_tensor.values())
        made._sparse = sparse_tensor
        return made

    def as_sparse_tensor(self) -> SparseTensor:
        """The sparse tensor. RuntimeError if it is a dense one."""
        if self._sparse is None:
            raise RuntimeError("the OrtValue holds a dense tensor")
        return self._sparse

    @property
    def _ortvalue(self) -> OrtValue:
        return self

    def _get_c_value(self) -> OrtValue:
        return self

    def update_inplace(self, data: Any) -> None:
        """Copy an array, or another value, of the same dtype and as many elements into this one's memory."""
        source = np.asarray(data)
        if source.dtype != self._array.dtype or source.size != self._array.size:
            raise ValueError(
                f"the new content must be {self._array.size} elements of {self._array.dtype}, "
                f"got {source.size} of {source.dtype}"
            )
        self._array[...] = source.reshape(self._array.shape)

    def data_ptr(self) -> int:
        """The address of the first element."""
        return int(self._array.ctypes.data)

    def device_name(self) -> str:
        """Where the value lies."""
        return "cpu"

    def shape(self) -> Sequence[int]:
        """The sizes of the dimensions."""
        return list(self._array.shape)

    def data_type(self) -> str:
        """``tensor(float)``."""
        return f"tensor({element_name(self._array.dtype)})" if self._sparse is None else self._sparse.data_type()

    def element_type(self) -> int:
        """ONNX's number of the element type."""
        return element_number(self._array.dtype)

    def tensor_size_in_bytes(self) -> int:
        """The bytes of all elements."""
        return int(self._array.nbytes)

    def has_value(self) -> bool:
        """Whether it holds something: it always does."""
        return True

    def is_tensor(self) -> bool:
        """Whether it is a dense tensor."""
        return self._sparse is None

    def is_sparse_tensor(self) -> bool:
        """Whether it is a sparse tensor."""
        return self._sparse is not None

    def is_tensor_sequence(self) -> bool:
        """Whether it is a sequence of tensors: it never is."""
        return False

    def _exchangeable(self) -> Any:
        if not hasattr(self._array, "__dlpack__"):
            raise RuntimeError(f"NumPy {np.__version__} has no DLPack; 1.22 has")
        return self._array


class _Capsule:
    """A tensor that another library has made ready for one reader, in the form that NumPy reads."""

    def __init__(self, capsule: Any):
        self._capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> Tuple[int, int]:
        return 1, 0
