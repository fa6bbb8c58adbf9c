"""Features of tabular models: scaling, imputing missing values, encoding categories, joining columns."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dtypes import FLOATS, NUMBERS
from runtime_arm.operators.common.indices import absolute, require_indices
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec

PLAIN = ("float32", "float64", "int32", "int64")


def _columns(op: OperatorDef, x: TensorSpec, *names: str) -> None:
    """ShapeError or ArgumentError unless each attribute has one number, or one per column of X."""
    require(op, x.ndim >= 1, "X must have a dimension", x)
    for name in names:
        count = len(op.get_floats(name))
        if count not in (1, x.shape[-1]):
            raise ArgumentError(op, f"{name} needs 1 or {x.shape[-1]} numbers, got {count}")


@operator("Scaler", domain="ai.onnx.ml", dtypes=PLAIN)
def scaler(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = (X - offset) * scale, float32; each attribute has one number for all columns, or one per column."""
    _columns(op, x, "offset", "scale")
    return [TensorSpec(x.shape, np.float32)]


@scaler.reference
def scaler_reference(op: OperatorDef, x: Array) -> List[Any]:
    offset, scale = (np.array(op.get_floats(name)) for name in ("offset", "scale"))
    return [((x - offset) * scale).astype(np.float32)]


@operator("Normalizer", domain="ai.onnx.ml", dtypes=PLAIN)
def normalizer(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Each row divided by its norm, float32: MAX (the signed maximum), L1 or L2. A row whose norm is 0 is kept.

    X: (features) or (N, features).
    """
    require(op, x.ndim in (1, 2), "X must be (features) or (N, features)", x)
    norm = op.get_str("norm", "MAX")
    if norm not in ("MAX", "L1", "L2"):
        raise ArgumentError(op, f"norm must be MAX, L1 or L2, got {norm!r}")
    return [TensorSpec(x.shape, np.float32)]


@normalizer.reference
def normalizer_reference(op: OperatorDef, x: Array) -> List[Any]:
    wide, norm = x.astype(np.float64), op.get_str("norm", "MAX")
    if not x.size:
        return [x.astype(np.float32)]
    if norm == "MAX":
        length = wide.max(axis=-1, keepdims=True)
    elif norm == "L1":
        length = np.abs(wide).sum(axis=-1, keepdims=True)
    else:
        length = np.sqrt(np.square(wide).sum(axis=-1, keepdims=True))
    return [(wide / np.where(length == 0, 1, length)).astype(np.float32)]


@operator("Imputer", domain="ai.onnx.ml", dtypes=PLAIN)
def imputer(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """X with elements equal to ``replaced_value_float`` (0) or ``replaced_value_int64`` (0) replaced by imputed values.

    A ``replaced_value_float`` of NaN matches NaN. There is one imputed value for all columns, or one per column.
    """
    count = len(_imputed(op, x.dtype))
    require(op, x.ndim >= 1, "X must have a dimension", x)
    if count not in (1, x.shape[-1]):
        raise ArgumentError(op, f"needs 1 or {x.shape[-1]} imputed values of X's kind, got {count}")
    return [x]


def _imputed(op: OperatorDef, dtype: np.dtype[Any]) -> Sequence[float]:
    return op.get_floats("imputed_value_floats") if dtype.kind == "f" else op.get_ints("imputed_value_int64s")


@imputer.reference
def imputer_reference(op: OperatorDef, x: Array) -> List[Any]:
    if x.dtype.kind == "f":
        replaced = x.dtype.type(op.get_float("replaced_value_float", 0.0))
        gaps = np.isnan(x) if np.isnan(replaced) else x == replaced
    else:
        gaps = x == op.get_int("replaced_value_int64", 0)
    return [np.where(gaps, np.array(_imputed(op, x.dtype)).astype(x.dtype), x)]


@operator("FeatureVectorizer", domain="ai.onnx.ml", inputs=(1, None), dtypes=PLAIN)
def feature_vectorizer(op: OperatorDef, *inputs: Optional[TensorSpec]) -> List[TensorSpec]:
    """The inputs side by side, (N, the sum of their columns) float32. An input (features) is one row.

    ``inputdimensions``: the number of columns of each input; a wider input is cut, a narrower one padded with zeros.
    """
    specs = [x for x in inputs if x is not None]
    require(op, len(specs) == len(inputs) and all(x.ndim in (1, 2) for x in specs), "inputs must be (N, C)", *inputs)
    rows = {_as_rows(x.shape)[0] for x in specs}
    require(op, len(rows) == 1, "inputs must have the same number of rows", *inputs)
    return [TensorSpec((rows.pop(), sum(_widths(op, specs))), np.float32)]


def _as_rows(shape: Sequence[int]) -> Tuple[int, int]:
    return (1, shape[0]) if len(shape) == 1 else (shape[0], shape[1])


def _widths(op: OperatorDef, specs: Sequence[TensorSpec]) -> Sequence[int]:
    given = op.get_ints("inputdimensions")
    if given and (len(given) != len(specs) or min(given) < 0):
        raise ArgumentError(op, f"inputdimensions needs {len(specs)} numbers, none negative, got {list(given)}")
    return given or [_as_rows(x.shape)[1] for x in specs]


@feature_vectorizer.reference
def feature_vectorizer_reference(op: OperatorDef, *inputs: Array) -> List[Any]:
    parts = []
    for x, width in zip(inputs, _widths(op, [TensorSpec.known(x) for x in inputs])):
        rows = x.reshape(_as_rows(x.shape)).astype(np.float32)[:, :width]
        parts.append(np.pad(rows, ((0, 0), (0, width - rows.shape[1]))))
    return [np.concatenate(parts, axis=1)]


def _text(element: Any) -> bytes:
    return element if isinstance(element, bytes) else str(element).encode()


def _keys(x: Array) -> List[Any]:
    """The elements of X as keys of a dict: bytes for strings, Python numbers for numbers."""
    flat = x.reshape(-1)
    return [_text(element) for element in flat] if x.dtype == object else flat.tolist()


def _array(values: Sequence[Any], dtype: Any) -> Array:
    array = np.empty(len(values), dtype)
    array[:] = values
    return array


@operator("OneHotEncoder", domain="ai.onnx.ml", dtypes=(*PLAIN, "object"))
def one_hot_encoder(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y[..., c] = 1 where X is category c, else 0; float32, X's shape with one more dimension for the categories.

    ``cats_int64s``: the categories of numbers, which are truncated first; ``cats_strings``: those of strings. An
    element in no category gets only zeros, or is an error if ``zeros`` (1) is 0.
    """
    return [TensorSpec((*x.shape, len(_categories(op, x.dtype))), np.float32)]


def _categories(op: OperatorDef, dtype: np.dtype[Any]) -> Sequence[Any]:
    strings = op.get_strs("cats_strings")
    found: Sequence[Any] = [text.encode() for text in strings] if dtype.kind == "O" else op.get_ints("cats_int64s")
    if not found:
        raise ArgumentError(op, "needs " + ("cats_strings" if dtype.kind == "O" else "cats_int64s"))
    return found


@one_hot_encoder.reference
def one_hot_encoder_reference(op: OperatorDef, x: Array) -> List[Any]:
    categories = _categories(op, x.dtype)
    if x.dtype == object:
        places = {category: place for place, category in enumerate(categories)}
        found = np.array([places.get(key, -1) for key in _keys(x)], np.int64).reshape(x.shape)
        y = found[..., None] == np.arange(len(categories))
    else:
        y = np.trunc(x)[..., None] == np.array(categories)
    if not op.get_int("zeros", 1) and not y.any(axis=-1).all():
        raise ArgumentError(op, "an element of X is in no category, and zeros is 0")
    return [y.astype(np.float32)]


@operator("LabelEncoder", domain="ai.onnx.ml", dtypes=(*NUMBERS, "object"))
def label_encoder(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = the value that belongs to the key X, else the default. Keys and values are strings, int64 or floats.

    Attributes: ``keys_strings``, ``keys_int64s``, ``keys_floats`` or ``keys_tensor``; as many values of any of these
    kinds; and ``default_string`` ("_Unused"), ``default_int64`` (-1), ``default_float`` (-0.0) or ``default_tensor``.
    NaN matches a key that is NaN. The oldest form has ``classes_strings``: it maps them to their indices, or back.
    """
    keys, values, _ = _table(op, x.dtype)
    if len(keys) != values.size:
        raise ArgumentError(op, f"{len(keys)} keys and {values.size} values")
    return [TensorSpec(x.shape, values.dtype)]


_NAN = "nan"


def _table(op: OperatorDef, dtype: np.dtype[Any]) -> Tuple[List[Any], Array, Any]:
    """The keys, the values, and the default value."""
    classes = op.get_strs("classes_strings")
    if classes:
        names = _array([text.encode() for text in classes], object)
        if dtype.kind == "O":
            return _keys(names), np.arange(names.size), op.get_int("default_int64", -1)
        return list(range(names.size)), names, op.get_str("default_string", "_Unused").encode()
    keys, values = _listed(op, "keys"), _listed(op, "values")
    if op.has("default_tensor"):
        default = np.asarray(op.get_tensor("default_tensor")).reshape(-1)[0]
        default = _text(default) if values.dtype == object else default
    elif values.dtype == object:
        default = op.get_str("default_string", "_Unused").encode()
    elif values.dtype.kind == "f":
        default = op.get_float("default_float", -0.0)
    else:
        default = op.get_int("default_int64", -1)
    return [_NAN if key != key else key for key in _keys(keys)], values, default


def _listed(op: OperatorDef, what: str) -> Array:
    if op.has(f"{what}_tensor"):
        tensor = np.asarray(op.get_tensor(f"{what}_tensor")).reshape(-1)
        return _array([_text(text) for text in tensor], object) if tensor.dtype.kind in "OSU" else tensor
    if op.has(f"{what}_strings"):
        return _array([text.encode() for text in op.get_strs(f"{what}_strings")], object)
    if op.has(f"{what}_int64s"):
        return np.array(op.get_ints(f"{what}_int64s"), np.int64)
    if op.has(f"{what}_floats"):
        return np.array(op.get_floats(f"{what}_floats"), np.float32)
    raise ArgumentError(op, f"needs {what}_strings, {what}_int64s, {what}_floats or {what}_tensor")


@label_encoder.reference
def label_encoder_reference(op: OperatorDef, x: Array) -> List[Any]:
    keys, values, default = _table(op, x.dtype)
    places: Dict[Any, int] = {}
    for place, key in enumerate(keys):
        places.setdefault(key, place)  # of equal keys, the first counts
    found = [places.get(_NAN if key != key else key, values.size) for key in _keys(x)]
    return [np.append(values, _array([default], values.dtype))[np.array(found, np.intp)].reshape(x.shape)]


@operator("CategoryMapper", domain="ai.onnx.ml", dtypes=("object", "int64"))
def category_mapper(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Maps each of ``cats_strings`` to the integer of the same index in ``cats_int64s``, or back.

    Anything else becomes ``default_int64`` (-1) or ``default_string`` ("_Unused").
    """
    strings, integers = op.get_strs("cats_strings"), op.get_ints("cats_int64s")
    if len(strings) != len(integers):
        raise ArgumentError(op, f"{len(strings)} strings and {len(integers)} integers")
    return [TensorSpec(x.shape, np.int64 if x.dtype == object else object)]


@category_mapper.reference
def category_mapper_reference(op: OperatorDef, x: Array) -> List[Any]:
    strings = [text.encode() for text in op.get_strs("cats_strings")]
    if x.dtype == object:
        number_of = dict(zip(strings, op.get_ints("cats_int64s")))
        default = op.get_int("default_int64", -1)
        return [_array([number_of.get(key, default) for key in _keys(x)], np.int64).reshape(x.shape)]
    text_of = dict(zip(op.get_ints("cats_int64s"), strings))
    unused = op.get_str("default_string", "_Unused").encode()
    return [_array([text_of.get(key, unused) for key in _keys(x)], object).reshape(x.shape)]


@operator("ArrayFeatureExtractor", domain="ai.onnx.ml", inputs=2, dtypes=(*NUMBERS, "object"))
def array_feature_extractor(op: OperatorDef, x: TensorSpec, indices: TensorSpec) -> List[TensorSpec]:
    """The columns of X, along its last dimension, that the indices select; from a vector, a matrix of one row."""
    require_indices(op, indices)
    require(op, x.ndim > 0 and indices.size > 0, "X must have a dimension, and there must be an index", x, indices)
    return [x.with_shape((*(x.shape[:-1] or (1,)), indices.size))]


@array_feature_extractor.reference
def array_feature_extractor_reference(op: OperatorDef, x: Array, indices: Array) -> List[Any]:
    picked = x[..., absolute(op, indices.reshape(-1), x.shape[-1], wraps=False)]
    return [picked.reshape(*(x.shape[:-1] or (1,)), indices.size)]


@operator("Binarizer", domain="ai.onnx.ml", dtypes=(*FLOATS, "int32", "int64"))
def binarizer(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """1 where X is above ``threshold`` (0), else 0."""
    return [x]


@binarizer.reference
def binarizer_reference(op: OperatorDef, x: Array) -> List[Any]:
    return [(x > op.get_float("threshold", 0.0)).astype(x.dtype)]
