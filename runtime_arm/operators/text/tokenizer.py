"""onnxruntime's Tokenizer, which cuts texts into words for models of scikit-learn. Source: its operator docs."""

from __future__ import annotations

import re
from typing import Any, Iterator, List, Optional, Sequence, Tuple

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.text.linear_matching import LinearExpression
from runtime_arm.operators.text.onnx import blob_of, expression, texts_of
from runtime_arm.registry.schema import operator, require, value_of
from runtime_arm.registry.specs import TensorSpec

_START, _END = "\x02", "\x03"
_PLAIN = re.compile(r"\\[^bB]|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)  # classes, and characters that mean themselves


@operator("Tokenizer", domain="com.microsoft", dtypes=("object",))
def tokenizer(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """The tokens of each string of X: (C,) or (N, C). Y: X's shape and one more dimension, as long as most tokens.

    ``separators``: regular expressions, one after the other, for the text between tokens; a single empty one makes each
    character a token. ``tokenexp``: without separators, a regular expression for tokens. ``mincharnum``: tokens of
    fewer characters are left out. ``mark``: whether a row is put between the characters 2 and 3. ``pad_value``: what
    fills up shorter rows. Of several matches at one place the longest counts.
    """
    require(op, x.ndim in (1, 2), "X must be (C,) or (N, C)", x)
    for pattern in filter(None, (*op.get_strs("separators"), op.get_str("tokenexp", ""))):
        if expression(op, pattern).fullmatch("") and op.get_strs("separators"):
            raise ArgumentError(op, f"the separator {pattern!r} matches where nothing is")
        if _has_choice(pattern) and re.search(r"\\[bB]|\$", _PLAIN.sub("", pattern)):
            raise ArgumentError(op, f"the longest match of {pattern!r}, which looks at what is around it, is not known")
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
        return [text[start:end] for start, end in _matches(op, op.get_str("tokenexp", ""), text)]
    pieces = [text]
    for separator in separators:
        pieces = [part for piece in pieces for part in _between(op, separator, piece)]
    return pieces


def _has_choice(pattern: str) -> bool:
    """Whether the first match that Python finds at a place may not be the longest."""
    return any(character in "|?(" for character in _PLAIN.sub("", pattern))


def _matches(op: OperatorDef, pattern: str, text: str) -> Iterator[Tuple[int, int]]:
    """Where the matches that are not empty begin and end, each the longest there."""
    found, has_choice, at = expression(op, pattern), _has_choice(pattern), 0
    while at <= len(text):
        span = found.search(text, at) if isinstance(found, LinearExpression) else _longest(found, text, at, has_choice)
        if span is None:
            return
        start, end = span
        if end > start:
            yield start, end
        at = max(end, start + 1)


def _longest(found: re.Pattern[str], text: str, at: int, has_choice: bool) -> Optional[Tuple[int, int]]:
    """Where the first match from ``at`` on begins and ends, the longest there."""
    match = found.search(text, at)
    if match is None:
        return None
    start, end = match.span()
    if has_choice:
        end = next(longest for longest in range(len(text), end - 1, -1) if found.fullmatch(text, start, longest))
    return start, end


def _between(op: OperatorDef, pattern: str, text: str) -> Iterator[str]:
    """The texts between the matches."""
    last = 0
    for start, end in _matches(op, pattern, text):
        yield text[last:start]
        last = end
    yield text[last:]
