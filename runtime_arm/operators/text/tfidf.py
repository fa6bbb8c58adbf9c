"""ONNX's TfIdfVectorizer: counts of n-grams."""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, Iterator, List, Sequence, Tuple, Union

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec

Gram = Tuple[Union[int, bytes], ...]


def _grams(op: OperatorDef) -> Dict[Gram, int]:
    """The index of each n-gram in the pool."""
    pool = _pool(op)
    starts = list(op.get_ints("ngram_counts"))
    grams: List[Gram] = []
    for length, (start, stop) in enumerate(zip(starts, [*starts[1:], len(pool)]), 1):
        require(
            op,
            0 <= start <= stop <= len(pool) and (stop - start) % length == 0,
            f"ngram_counts {starts} must cut the pool of {len(pool)} into n-grams",
        )
        grams += [tuple(pool[at : at + length]) for at in range(start, stop, length)]
    return {gram: place for place, gram in enumerate(grams)}


def _pool(op: OperatorDef) -> Sequence[Union[int, bytes]]:
    """The elements of the n-grams: integers, or strings as blobs hold them."""
    if op.has("pool_strings"):
        return [text.encode("utf-8", "surrogateescape") for text in op.get_strs("pool_strings")]
    return op.get_ints("pool_int64s")


@operator("TfIdfVectorizer", domain="onnx", dtypes=("int32", "int64", "object"))
def tf_idf_vectorizer(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """(C,) or (N, C), float32: how often the n-grams of a pool occur in each row of X.

    The pool, ``pool_int64s`` or ``pool_strings``, holds the n-grams of 1 element, then those of 2, and so on.
    ``ngram_counts`` says where each length starts, ``ngram_indexes`` which column of Y belongs to each n-gram. Only
    n-grams of ``min_gram_length`` to ``max_gram_length`` elements are counted. Between neighbouring elements of an
    n-gram, up to ``max_skip_count`` elements may be skipped, the same number each time. ``mode``: TF is the count,
    IDF is the weight from ``weights`` (1) where the count is not 0, TFIDF is the product of count and weight.
    """
    require(op, x.ndim in (1, 2), "X must be (C,) or (N, C)", x)
    require(op, (x.dtype == object) == op.has("pool_strings"), "X and the pool must hold elements of one kind", x)
    columns = op.get_ints("ngram_indexes")
    require(
        op,
        len(columns) == len(_grams(op)) > 0 and min(columns) >= 0,
        "ngram_indexes must be as many as there are n-grams, none negative",
    )
    weights = op.get_floats("weights")
    require(op, len(weights) in (0, len(columns)), f"there must be {len(columns)} weights, got {len(weights)}")
    if op.get_str("mode") not in ("TF", "IDF", "TFIDF"):
        raise ArgumentError(op, f"mode must be TF, IDF or TFIDF, got {op.get_str('mode')!r}")
    return [TensorSpec((*x.shape[:-1], max(columns) + 1), np.float32)]


@tf_idf_vectorizer.reference
def tf_idf_vectorizer_reference(op: OperatorDef, x: Array) -> List[Any]:
    grams, columns, mode = _grams(op), op.get_ints("ngram_indexes"), op.get_str("mode")
    weights = op.get_floats("weights") or (1.0,) * len(columns)
    rows = x.reshape(-1, x.shape[-1]).tolist() if x.size else [[]] * (x.shape[0] if x.ndim == 2 else 1)
    y = np.zeros((len(rows), max(columns) + 1), np.float32)
    for row, elements in enumerate(rows):
        for gram, count in Counter(_occurring(op, elements)).items():
            if gram in grams:
                place = grams[gram]
                share = {"TF": count, "IDF": weights[place], "TFIDF": count * weights[place]}[mode]
                y[row, columns[place]] += share
    return [y.reshape(*x.shape[:-1], y.shape[1])]


def _occurring(op: OperatorDef, elements: Sequence[Union[int, bytes]]) -> Iterator[Gram]:
    longest = min(op.get_int("max_gram_length"), len(op.get_ints("ngram_counts")))
    for length in range(max(op.get_int("min_gram_length"), 1), longest + 1):
        skips = min(op.get_int("max_skip_count"), len(elements)) if length > 1 else 0
        for step in range(1, skips + 2):
            for start in range(len(elements) - (length - 1) * step):
                yield tuple(elements[start : start + (length - 1) * step + 1 : step])
