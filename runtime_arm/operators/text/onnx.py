"""ONNX's operators on strings. Source: the operator docs of ONNX, opset 20 and 10."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Callable, Dict, List, Sequence, Tuple, Union

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.broadcasting import broadcast
from runtime_arm.operators.text.linear_matching import LinearExpression, linear_expression
from runtime_arm.registry.schema import operator, require, value_of
from runtime_arm.registry.specs import TensorSpec


def texts_of(x: Array) -> List[str]:
    """The elements as text; bytes that are not UTF-8 become surrogates."""
    return [
        element.decode("utf-8", "surrogateescape") if isinstance(element, bytes) else str(element)
        for element in x.reshape(-1).tolist()
    ]


def blob_of(texts: Sequence[str], shape: Sequence[int]) -> Array:
    blob = np.empty(len(texts), object)
    blob[:] = [text.encode("utf-8", "surrogateescape") for text in texts]
    return blob.reshape(tuple(shape))


# What RE2 and Python read otherwise: \s, which has no vertical tab in RE2; $, which is the very end there; {,2}, which
# is these characters. A class is one piece.
_PIECE = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\$|\{(?=,\d+\})", re.DOTALL)
_INSIDE = re.compile(r"\\.(?!-[^\]])", re.DOTALL)
_OF_CLASS = {r"\s": r"\t\n\f\r ", r"\S": r"\S\v"}
_OF_PATTERN = {r"\s": r"[\t\n\f\r ]", r"\S": r"[\S\v]", "$": r"\Z", "{": r"\{"}


def expression(op: OperatorDef, pattern: str) -> Union[re.Pattern[str], LinearExpression]:
    """A regular expression of RE2. Python's are like these, if \\w, \\d, \\s and \\b know ASCII alone. ``_PIECE`` finds
    what else differs.

    ArgumentError for what Python does not take, such as \\C and \\pN, or takes otherwise: classes of POSIX, and other
    letters than ASCII's without regard to case. Where Python's may take exponential time it is a ``LinearExpression``.
    """
    try:
        return _compiled(pattern)
    except (re.error, OverflowError, RecursionError, ValueError) as error:
        raise ArgumentError(op, f"{pattern!r} cannot be used as a regular expression: {error}") from error


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> Union[re.Pattern[str], LinearExpression]:
    """``expression``, made once for all texts. ValueError, or what Python raises, if there is none."""
    if "[:" in pattern:
        raise ValueError("classes of POSIX are not supported")
    flags = "".join(re.findall(r"\(\?([a-zA-Z]+)", pattern))
    if "i" in flags and not pattern.isascii():
        raise ValueError("letters beyond ASCII without regard to case are not supported")

    def translated(piece: re.Match[str]) -> str:
        text = piece.group()
        if text[0] == "[":
            return _INSIDE.sub(lambda inner: _OF_CLASS.get(inner.group(), inner.group()), text)
        return text if text == "$" and "m" in flags else _OF_PATTERN.get(text, text)

    compiled = re.compile(_PIECE.sub(translated, pattern), re.ASCII)
    return linear_expression(compiled.pattern, re.ASCII) or compiled


@operator("StringConcat", domain="onnx", inputs=2, dtypes=("object",))
def string_concat(op: OperatorDef, x: TensorSpec, y: TensorSpec) -> List[TensorSpec]:
    """Each string of X followed by the one of Y; the inputs broadcast as in NumPy."""
    require(op, y.dtype == object, "both inputs must be strings", x, y)
    return [x.with_shape(broadcast(op, (x, y)))]


@string_concat.reference
def string_concat_reference(op: OperatorDef, x: Array, y: Array) -> List[Any]:
    first, second = np.broadcast_arrays(x, y)
    return [blob_of([a + b for a, b in zip(texts_of(first), texts_of(second))], first.shape)]


@operator("RegexFullMatch", domain="onnx", dtypes=("object",))
def regex_full_match(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Whether each string as a whole matches ``pattern``; bool.

    ONNX uses the syntax of RE2, see ``expression``.
    """
    expression(op, op.get_str("pattern"))
    return [x.with_dtype(np.bool_)]


@regex_full_match.reference
def regex_full_match_reference(op: OperatorDef, x: Array) -> List[Any]:
    pattern = expression(op, op.get_str("pattern"))
    return [np.array([bool(pattern.fullmatch(text)) for text in texts_of(x)], np.bool_).reshape(x.shape)]


@operator("StringSplit", domain="onnx", outputs=2, dtypes=("object",))
def string_split(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """The pieces of each string between delimiters, and the number of pieces.

    Y: X's shape and one more dimension, the largest number of pieces, padded with empty strings. Z: X's shape, int64.
    ``delimiter``: if missing or empty, any run of white space. ``maxsplit``: the maximum number of cuts, from the left.
    """
    _, width = _pieces(op, value_of(op, x, "X"))
    return [x.with_shape((*x.shape, width)), TensorSpec(x.shape, np.int64)]


def _pieces(op: OperatorDef, x: Array) -> Tuple[List[List[str]], int]:
    delimiter, most = op.get_str("delimiter", ""), op.get_int("maxsplit", -1)
    pieces = [text.split(delimiter or None, most) if text else [] for text in texts_of(x)]
    return pieces, max(map(len, pieces), default=0)


@string_split.reference
def string_split_reference(op: OperatorDef, x: Array) -> List[Any]:
    pieces, width = _pieces(op, x)
    filled = [piece for row in pieces for piece in (*row, *[""] * (width - len(row)))]
    return [blob_of(filled, (*x.shape, width)), np.array([len(row) for row in pieces], np.int64).reshape(x.shape)]


_CASES: Dict[str, Callable[[str], str]] = {"NONE": str, "LOWER": str.lower, "UPPER": str.upper}


@operator("StringNormalizer", domain="onnx", dtypes=("object",))
def string_normalizer(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """X without ``stopwords``, in the case asked for; a single empty string if nothing is left.

    X: (C,) or (1, C). ``case_change_action``: NONE, LOWER or UPPER. ``is_case_sensitive`` (0): whether stop words must
    match in case. The locale makes no difference.
    """
    require(op, x.ndim == 1 or (x.ndim == 2 and x.shape[0] == 1), "X must be (C,) or (1, C)", x)
    if op.get_str("case_change_action", "NONE") not in _CASES:
        raise ArgumentError(op, f"case_change_action must be one of {', '.join(_CASES)}")
    if not op.get_strs("stopwords"):
        return [x.with_shape(x.shape if x.size else (*x.shape[:-1], 1))]
    return [x.with_shape((*x.shape[:-1], len(_normalised(op, value_of(op, x, "X")))))]


def _normalised(op: OperatorDef, x: Array) -> List[str]:
    def key(text: str) -> str:
        return text if op.get_int("is_case_sensitive", 0) else text.lower()

    unwanted = set(map(key, op.get_strs("stopwords")))
    change = _CASES[op.get_str("case_change_action", "NONE")]
    return [change(text) for text in texts_of(x) if key(text) not in unwanted] or [""]


@string_normalizer.reference
def string_normalizer_reference(op: OperatorDef, x: Array) -> List[Any]:
    texts = _normalised(op, x)
    return [blob_of(texts, (*x.shape[:-1], len(texts)))]
