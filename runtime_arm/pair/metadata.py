"""model.json: the metadata of a pair.

    {"schema": 1, "armnet": "0.1.0",
     "inputs":  [{"name": "data", "shape": ["batch", 3, 224, 224], "dtype": "float32"}],
     "outputs": [{"name": "prob", "shape": ["batch", 1000], "dtype": "float32"}],
     "sha256":  {"init_net.pb": "...", "predict_net.pb": "..."},
     "source":  {"name": "squeezenet.onnx", "sha256": "..."},
     "quantization": {"data": {"scale": 0.0078, "zero_point": 127}},
     "preprocessing": {...}, "labels": ["tench", ...]}

``quantization``: for inputs and outputs whose integers stand for  scale * (integer - zero_point). A dimension is a
number, a name (equal names mean equal sizes) or null; an unknown shape or dtype is null. The file is not trusted: types
and sizes are checked before they are used.
"""

from __future__ import annotations

import json
import math
from typing import Any, Dict, Iterable, List, Mapping, NoReturn, Optional, Sequence, Tuple, Union

import numpy as np

from runtime_arm.errors import PairError
from runtime_arm.machine.memory import require_memory
from runtime_arm.netdef import Array
from runtime_arm.netdef.dtypes import NAMES
from runtime_arm.records import record
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.version import VERSION

INIT_NET, PREDICT_NET, MODEL = "init_net.pb", "predict_net.pb", "model.json"
FILES = (INIT_NET, PREDICT_NET)
SCHEMA = 1

LARGEST = 1 << 26  # bytes of a file of JSON
_MOST_ELEMENTS = 1 << 40
_OWN_KEYS = ("schema", "armnet", "inputs", "outputs", "sha256")

Dim = Union[int, str, None]


@record(frozen=True)
class TensorInfo:
    """An input or output. None means unknown; a dimension may also be a name such as "batch".

    Examples:
        >>> import armnet
        >>> armnet.TensorInfo("data", ("batch", 3, 8, 8), "float32").shape_text()
        '(batch, 3, 8, 8)'
    """

    name: str
    shape: Optional[Tuple[Dim, ...]] = None
    dtype: Optional[str] = None

    @property
    def is_static(self) -> bool:
        """Whether every dimension is a number."""
        return self.shape is not None and all(isinstance(dim, int) for dim in self.shape)

    def shape_text(self) -> str:
        """``(batch, 3, 224, 224)``; a question mark stands for what is unknown."""
        if self.shape is None:
            return "?"
        return "(" + ", ".join("?" if dim is None else str(dim) for dim in self.shape) + ")"

    def example(self, shape: Optional[Sequence[int]] = None) -> Array:
        """Zeros of ``shape``, else of the declared one with 1 for unknown dimensions; float32 if the dtype is unknown.

        ResourceError if they need more than this machine's memory.
        """
        spec = TensorSpec(
            shape or [dim if isinstance(dim, int) else 1 for dim in self.shape or ()], np.dtype(self.dtype or "float32")
        )
        require_memory(spec.nbytes, f"input {self.name!r} of shape {spec.shape}")
        return np.zeros(spec.shape, spec.dtype)

    def to_json(self) -> Dict[str, Any]:
        """The object in model.json."""
        shape = None if self.shape is None else list(self.shape)
        return {"name": self.name, "shape": shape, "dtype": self.dtype}


@record(frozen=True)
class Model:
    """The content of model.json; ``meta`` is everything except the other fields."""

    inputs: Tuple[TensorInfo, ...]
    outputs: Tuple[TensorInfo, ...]
    sha256: Mapping[str, str]
    meta: Mapping[str, Any]

    def to_bytes(self) -> bytes:
        """The content of model.json. PairError for metadata that could not be read again."""
        _check_meta(self.meta, "meta")
        own = {
            "schema": SCHEMA,
            "armnet": VERSION,
            "inputs": [info.to_json() for info in self.inputs],
            "outputs": [info.to_json() for info in self.outputs],
            "sha256": dict(self.sha256),
        }
        rest = {key: value for key, value in self.meta.items() if key not in own}
        try:
            return json.dumps({**own, **rest}, indent=1, allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise PairError(f"{MODEL} cannot hold the metadata: {error}") from None


def only_name(names: Iterable[str], name: str, source: Any) -> str:
    """The name itself, or the only one of the names that ends with it (``squeeze_init_net.pb``). PairError, beginning
    with ``source``, if there is none or several."""
    found = [other for other in names if other.endswith(name)]
    if name in found:
        return name
    if len(found) != 1:
        raise PairError(f"{source}: holds {'several' if found else 'no'} {name}" + ("s" if found else ""))
    return found[0]


def parse_model(data: memoryview, source: str) -> Model:
    """The content of a model.json. PairError, naming ``source`` and the key, if it does not fit the schema."""
    if len(data) > LARGEST:
        _refuse(source, f"{len(data)} bytes are too many")
    try:
        model = json.loads(bytes(data).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise PairError(f"{source}: not JSON: {error}") from None
    if not isinstance(model, dict):
        _refuse(source, "not an object")
    if model.get("schema") != SCHEMA:
        _refuse(source, f"schema {model.get('schema')!r} is not the {SCHEMA} that armnet {VERSION} reads")
    sha256 = model.get("sha256")
    if not isinstance(sha256, dict) or any(not isinstance(sha256.get(name), str) for name in FILES):
        _refuse(source, f"sha256 must hold the hashes of {' and '.join(FILES)}")
    meta = {key: value for key, value in model.items() if key not in _OWN_KEYS}
    _check_meta(meta, source)
    inputs, outputs = (_tensor_infos(model.get(key), source, key) for key in ("inputs", "outputs"))
    return Model(inputs, outputs, sha256, meta)


def _tensor_infos(value: Any, source: str, key: str) -> Tuple[TensorInfo, ...]:
    if not isinstance(value, list):
        _refuse(source, f"{key} must be a list")
    return tuple(_tensor_info(item, source, f"{key}[{index}]") for index, item in enumerate(value))


def _tensor_info(value: Any, source: str, key: str) -> TensorInfo:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str) or not value["name"]:
        _refuse(source, f"{key} must be an object with a name")
    shape, dtype = value.get("shape"), value.get("dtype")
    if shape is not None and not (isinstance(shape, list) and len(shape) <= 32 and all(map(_is_dim, shape))):
        _refuse(source, f"{key}.shape must be a list of sizes, names and nulls")
    if math.prod(dim for dim in shape or () if isinstance(dim, int)) > _MOST_ELEMENTS:
        _refuse(source, f"{key}.shape {shape} is too large")
    if dtype is not None and not (isinstance(dtype, str) and dtype in NAMES):
        _refuse(source, f"{key}.dtype {dtype!r} is not a dtype of a net")
    return TensorInfo(value["name"], None if shape is None else tuple(shape), dtype)


def _is_dim(value: Any) -> bool:
    if isinstance(value, int):
        return not isinstance(value, bool) and 0 <= value <= _MOST_ELEMENTS
    return value is None or (isinstance(value, str) and value != "")


def _check_meta(meta: Mapping[str, Any], source: str) -> None:
    labels: Union[List[Any], Tuple[Any, ...]] = meta.get("labels") or []
    if not isinstance(labels, (list, tuple)) or not all(isinstance(label, str) for label in labels):
        _refuse(source, "labels must be a list of strings")
    for key in ("preprocessing", "source"):
        if not isinstance(meta.get(key) or {}, Mapping):
            _refuse(source, f"{key} must be an object")


def _refuse(source: str, problem: str) -> NoReturn:
    raise PairError(f"{source}: {problem}")
