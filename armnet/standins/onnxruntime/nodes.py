"""What a session says about its model: NodeArg and ModelMetadata; the element types of tensors."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence

import numpy as np

from armnet.standins.notes import Standin
from exporter.onnx.signature import ELEMENT_TYPES, NO_VERSION, Dim, Signature, ValueInfo

_NUMPY: Dict[str, Any] = {
    "float": np.float32,
    "double": np.float64,
    "bool": np.bool_,
    "string": np.object_,
    **{name: getattr(np, name) for name in ELEMENT_TYPES.values() if hasattr(np, name) and "int" in name},
    "float16": np.float16,
}
_NUMBERS = {name: number for number, name in ELEMENT_TYPES.items()}
_NAMES = {np.dtype(dtype): name for name, dtype in _NUMPY.items()}


def element_name(dtype: Any) -> str:
    """``float`` for float32; strings of every width are ``string``."""
    dtype = np.dtype(dtype)
    if dtype.kind in "SU":
        return "string"
    name: str = dtype.name
    return _NAMES.get(dtype.newbyteorder("="), name)


def element_number(dtype: Any) -> int:
    """ONNX's number of a dtype."""
    return _NUMBERS.get(element_name(dtype), 0)


def numpy_dtype(element: Any) -> np.dtype[Any]:
    """The dtype of what programs name an element type by: ONNX's number, a dtype or a NumPy type. ValueError if there
    is none."""
    if isinstance(element, int):
        name = ELEMENT_TYPES.get(element, "")
        if name not in _NUMPY:
            raise ValueError(f"element type {element} has no NumPy dtype")
        element = _NUMPY[name]
    dtype: np.dtype[Any] = np.dtype(element)
    return dtype


def element_dtype(tensor_type: str) -> Optional[np.dtype[Any]]:
    """The dtype of ``tensor(float)``; None for what is no tensor of NumPy's elements."""
    inner = tensor_type[len("tensor(") : -1] if tensor_type.startswith("tensor(") else ""
    return np.dtype(_NUMPY[inner]) if inner in _NUMPY else None


class NodeArg(Standin):
    """An input or output: ``name``, ``type`` as in ``tensor(float)``, ``shape`` of numbers, names and None."""

    __slots__ = ("name", "shape", "type")
    _package = "onnxruntime"

    def __init__(self, name: str, type: str, shape: Sequence[Dim]):
        self.name, self.type, self.shape = name, type, list(shape)

    def __repr__(self) -> str:
        return f"NodeArg(name={self.name!r}, type={self.type!r}, shape={self.shape!r})"


def node_arg(value: ValueInfo, known: Optional[Sequence[Dim]], sizes: Mapping[str, int]) -> NodeArg:
    """The NodeArg of an input or output. known: its shape in the pair, which fills what the file leaves open. sizes:
    the numbers that the session's options give to names of dimensions, or to what dimensions denote."""
    if not value.type.startswith("tensor("):
        known = None
    dims: List[Dim] = list(known or ()) if value.dims is None else list(value.dims)
    if known is not None and len(known) == len(dims):
        dims = [other if dim is None else dim for dim, other in zip(dims, known)]
    denotations = value.denotations or ("",) * len(dims)
    fixed = [sizes.get(str(dim), sizes.get(f"/{meaning}", dim)) for dim, meaning in zip(dims, denotations)]
    return NodeArg(value.name, value.type, [dim if isinstance(dim, int) else new for dim, new in zip(dims, fixed)])


class ModelMetadata(Standin):
    """What a model says about itself."""

    __slots__ = (
        "custom_metadata_map",
        "description",
        "domain",
        "graph_description",
        "graph_name",
        "producer_name",
        "version",
    )
    _package = "onnxruntime"

    def __init__(self, signature: Optional[Signature] = None):
        texts = {} if signature is None else signature.texts
        for name in ("description", "domain", "graph_description", "graph_name", "producer_name"):
            setattr(self, name, texts.get(name, ""))
        self.version = NO_VERSION if signature is None else signature.version
        self.custom_metadata_map = {} if signature is None else dict(signature.properties)

    def __repr__(self) -> str:
        return f"ModelMetadata({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)})"
