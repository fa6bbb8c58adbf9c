"""onnxruntime's Tokenizer, which cuts texts into words for models of scikit-learn. Source: its operator docs."""

from __future__ import annotations

import re
from typing import Any, Iterator, List, Sequence

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.text.onnx import blob_of, expression, texts_of
from runtime_arm.registry.schema import operator, require, value_of
from runtime_arm.registry.specs import TensorSpec

_START, _END = "\x02", "\x03"


@operator("Tokenizer", domain="com.microsoft", dtypes=("object",))
def tokenizer(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """The tokens of each string of X: (C,) or (N, C). Y: X's shape and one more dimension, as long as most tokens.

    ``separators``: regular expressions, one after the other, for what lies between tokens; a single empty one makes
    each character a token. ``tokenexp``: without separators, a regular expression for tokens. ``mincharnum``: tokens
    of fewer characters are left out. ``mark``: whether a row is put between the characters 2 and 3. ``pad_value``: what
    fills up shorter rows.
    """
    require(op, x.ndim in (1, 2), "X must be (C,) or (N, C)", x)
    for pattern in filter(None, (*op.get_strs("separators"), op.get_str("tokenexp", ""))):
        if expression(op, pattern).fullmatch("") and op.get_strs("separators"):
            raise ArgumentError(op, f"the separator {pattern!r} matches where nothing is")
    if not op.get_strs("separators") and not op.get_str("tokenexp", ""):
        raise ArgumentError(op, "separators or tokenexp must say where tokens are")
    rows = _rows(op, value_of(op, x, "X"))
    return [x.with_shape((*x.shape, len(rows[0]) if rows else 0))]


@tokenizer.reference
def tokenizer_reference(op: OperatorDef, x: Array) -> List[Any]:
    rows = _rows(op, x)
    return [blob_of([token for row in rows for token in row], (*x.shape, len(rows[0]) if rows else 0))]


def _rows(op: OperatorDef, x: Array) -> List[List[str]]:
    """The tokens of each string, with marks and padding; none if there are no tokens at all."""
    least = op.get_int("mincharnum", 1)
    rows = [[token for token in _tokens(op, text) if token and len(token) >= least] for text in texts_of(x)]
    if not any(rows):
        return [[] for _ in rows]
    if op.get_bool("mark"):
        rows = [[_START, *row, _END] for row in rows]
    width, padding = max(map(len, rows)), op.get_str("pad_value", "")
    return [[*row, *[padding] * (width - len(row))] for row in rows]


def _tokens(op: OperatorDef, text: str) -> Sequence[str]:
    separators = op.get_strs("separators")
    if separators == ("",):
        return text
    if not separators:
        return [match.group() for match in expression(op, op.get_str("tokenexp", "")).finditer(text)]
    pieces = [text]
    for separator in separators:
        pattern = expression(op, separator)
        pieces = [part for piece in pieces for part in _between(pattern, piece)]
    return pieces


def _between(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    """What lies between the matches that are not empty."""
    start = 0
    for match in pattern.finditer(text):
        if match.end() > match.start():
            yield text[start : match.start()]
            start = match.end()
    yield text[start:]
