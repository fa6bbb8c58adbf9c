"""Caffe2's operators on strings. They cut, compare and join byte by byte. Source: caffe2/operators/string_ops.cc."""

from __future__ import annotations

from typing import Any, Callable, List

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec

Rule = Callable[[bytes, OperatorDef], Any]


def _bytes(element: Any) -> bytes:
    return element if isinstance(element, bytes) else str(element).encode()


def _text(op: OperatorDef, name: str) -> bytes:
    return op.get_str(name, "").encode()


def _declare(type: str, rule: Rule, dtype: Any, doc: str) -> None:
    @operator(type, dtypes=("object",))
    def schema(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
        if dtype is object and op.get_int("length", 3) < 0:
            raise ArgumentError(op, f"length must not be negative, got {op.get_int('length', 3)}")
        return [TensorSpec(x.shape, dtype)]

    schema.__doc__ = doc

    @schema.reference
    def reference(op: OperatorDef, x: Array) -> List[Any]:
        y = np.empty(x.size, dtype)
        for place, element in enumerate(x.reshape(-1)):
            y[place] = rule(_bytes(element), op)
        return [y.reshape(x.shape)]


def _suffix(text: bytes, op: OperatorDef) -> bytes:
    return text[max(len(text) - op.get_int("length", 3), 0) :]


_declare("StringPrefix", lambda text, op: text[: op.get_int("length", 3)], object, "The first ``length`` (3) bytes.")
_declare("StringSuffix", _suffix, object, "The last ``length`` (3) bytes.")
_declare(
    "StringStartsWith",
    lambda text, op: text.startswith(_text(op, "prefix")),
    np.bool_,
    "Whether each string begins with ``prefix``.",
)
_declare(
    "StringEndsWith",
    lambda text, op: text.endswith(_text(op, "suffix")),
    np.bool_,
    "Whether each string ends with ``suffix``.",
)
_declare("StringEquals", lambda text, op: text == _text(op, "text"), np.bool_, "Whether each string is ``text``.")


def _printed(element: Any) -> bytes:
    """An element as a C++ stream prints it: floats with six significant digits."""
    return (
        f"{element:g}".encode()
        if isinstance(element, (float, np.floating))
        else _bytes(int(element) if isinstance(element, np.bool_) else element)
    )


@operator("StringJoin")
def string_join(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """The elements of each row (``axis`` 0) or column (1) of X, each followed by ``delimiter`` (,).

    X: a matrix, or a vector, which is taken as a column; not empty.
    """
    axis = op.get_int("axis", 0)
    require(
        op, x.size > 0 and x.ndim in (1, 2) and 0 <= axis < x.ndim, "X must be a vector or a matrix, with elements", x
    )
    return [TensorSpec((x.shape[axis],), object)]


@string_join.reference
def string_join_reference(op: OperatorDef, x: Array) -> List[Any]:
    delimiter = op.get_str("delimiter", ",").encode()
    rows = x.reshape(x.shape[0], -1)
    lines = rows.T if op.get_int("axis", 0) else rows
    y = np.empty(len(lines), object)
    for place, line in enumerate(lines):
        y[place] = b"".join(_printed(element) + delimiter for element in line)
    return [y]
