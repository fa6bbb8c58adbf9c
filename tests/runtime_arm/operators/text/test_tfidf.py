"""TfIdfVectorizer against plain loops and in corner cases; Binarizer at its threshold; refusals."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np
import pytest

from device_tests.suite.kernels import run_kernel
from runtime_arm.errors import ArmnetError
from runtime_arm.netdef import Array, OperatorDef
from tests.support.exact import assert_same
from tests.support.onnx_nodes import onnxruntime_outputs
from tests.support.operands import onnx

POOL: Dict[str, Any] = {
    "pool_int64s": [2, 3, 5, 4, 5, 6, 7, 8, 6, 7],
    "ngram_counts": [0, 4],
    "ngram_indexes": [0, 1, 2, 3, 4, 5, 6],
    "min_gram_length": 1,
    "max_gram_length": 2,
    "max_skip_count": 1,
    "mode": "TF",
}


def vectorizer(**changed: Any) -> OperatorDef:
    return onnx("TfIdfVectorizer", "X", **{**POOL, **changed})


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
def test_counts_n_grams_with_skips(mode: str) -> None:
    x = np.random.RandomState(0).randint(2, 9, (5, 30))
    weights = [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5]
    expected = np.zeros((5, 7), np.float32)
    for row, elements in enumerate(x):
        for place, gram in enumerate([(2,), (3,), (5,), (4,), (5, 6), (7, 8), (6, 7)]):
            count = 0
            for start in range(30):
                for step in (1, 2) if len(gram) == 2 else (1,):
                    count += tuple(elements[start : start + step * len(gram) : step]) == gram
            expected[row, place] = {"TF": count, "IDF": (count > 0) * weights[place], "TFIDF": count * weights[place]}[
                mode
            ]
    assert_same(run_kernel(vectorizer(mode=mode, weights=weights), [x])[0], expected)
    assert expected[:, 4:].any()


def test_counts_n_grams_of_strings_as_onnxruntime_does() -> None:
    pool = ["a", "ü", "", "b", "a", "b", "ü", "a"]
    op = vectorizer(pool_strings=pool, ngram_indexes=[0, 1, 2, 3, 4, 5]).with_args(pool_int64s=None)
    x = np.array([["a", "b", "ü", "a", ""], ["c", "a", "c", "b", "b"]], object)
    (expected,) = onnxruntime_outputs(op, [x], [np.float32])
    held = np.array([[text.encode() for text in row] for row in x], object)
    assert_same(run_kernel(op, [held])[0], expected)
    assert expected[:, 4:].any()


def test_huge_lengths_and_skips_do_not_run_forever() -> None:
    op = vectorizer(max_gram_length=1 << 40, max_skip_count=1 << 40)
    assert_same(run_kernel(op, [np.array([5, 2, 6])])[0], np.array([1, 0, 1, 0, 1, 0, 0], np.float32))


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0)])
def test_an_empty_input_has_no_n_grams(shape: Any) -> None:
    y = run_kernel(vectorizer(), [np.zeros(shape, np.int64)])[0]
    assert_same(y, np.zeros((*shape[:-1], 7), np.float32))


@pytest.mark.parametrize(
    ("op", "inputs", "rule"),
    [
        (vectorizer(mode="IFT"), [np.array([1])], "TF, IDF or TFIDF, got 'IFT'"),
        (vectorizer(weights=[1.0]), [np.array([1])], "7 weights, got 1"),
        (vectorizer(ngram_indexes=[0, 1]), [np.array([1])], "as many as there are n-grams"),
        (vectorizer(ngram_counts=[0, 5]), [np.array([1])], "must cut the pool of 10"),
        (vectorizer(ngram_counts=[4, 0]), [np.array([1])], "must cut the pool of 10"),
        (vectorizer(), [np.zeros((1, 1, 1), np.int64)], r"must be \(C,\) or \(N, C\)"),
        (
            OperatorDef.of("ArrayFeatureExtractor", ["X", "I"], ["Y"], domain="ai.onnx.ml"),
            [np.zeros((2, 3), np.float32), np.array([3])],
            "ArrayFeatureExtractor.*3",
        ),
    ],
)
def test_refuses(op: OperatorDef, inputs: Any, rule: str) -> None:
    with pytest.raises(ArmnetError, match=rule):
        run_kernel(op, inputs)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
def test_the_threshold_itself_is_not_above_the_threshold(dtype: Any) -> None:
    x: Array = np.array([-1, 2, 3], dtype)
    op = OperatorDef.of("Binarizer", ["X"], ["Y"], domain="ai.onnx.ml", threshold=2.0)
    assert_same(run_kernel(op, [x])[0], np.array([0, 0, 1], dtype))
