"""onnxruntime's Tokenizer, held against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from runtime_arm.errors import ArgumentError, ArmnetError
from runtime_arm.execution.predictor import Predictor
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from tests.support.onnx_nodes import onnxruntime_outputs

TEXTS = ["this is, a test", "éàü x_1", "", " lead  two "]
FORMS = [
    {"separators": [" "]},
    {"separators": [" ", ","], "mark": 1},
    {"separators": [" +|,"], "mincharnum": 2},
    {"separators": ["is", "s"]},
    {"separators": ["s", "is"]},
    {"separators": [""], "mark": 1},
    {"tokenexp": "[a-z]+"},
    {"tokenexp": r"\w+", "mincharnum": 3},
    {"tokenexp": r"\b\w*", "mark": 1},
    {"tokenexp": "(t)(h)?"},
    {"tokenexp": "a", "separators": [" "]},
    {"tokenexp": "none", "mark": 1},
    {"tokenexp": "t|th|this", "mark": 1},
    {"tokenexp": "i?(is)?"},
    {"tokenexp": "[a-z]+?"},
    {"separators": ["e|es|est", "(i|hi)+"]},
]


def tokenizer(**attributes: Any) -> OperatorDef:
    settings = {"mark": 0, "pad_value": "#", "mincharnum": 1, **attributes}
    return OperatorDef.of("Tokenizer", ["x"], ["y"], domain="com.microsoft", **settings)


def tokens(op: OperatorDef, texts: Any) -> Any:
    net = NetDef(op=(op,), external_input=("x",), external_output=("y",))
    with Predictor(Pair(NetDef(), net, (TensorInfo("x", None, "object"),)), threads=1) as predictor:
        return predictor.run([np.array(texts, object)])["y"]


@pytest.mark.parametrize("attributes", FORMS, ids=str)
@pytest.mark.parametrize("texts", [TEXTS, [TEXTS[:2], TEXTS[2:]], ["", ""]], ids=["row", "matrix", "empty"])
def test_tokens_are_those_of_onnxruntime(attributes: Any, texts: Any) -> None:
    op = tokenizer(**attributes)
    (wanted,) = onnxruntime_outputs(op, [np.array(texts, object)], [object])
    found = tokens(op, texts)
    assert (found.shape, found.tolist()) == (wanted.shape, wanted.tolist())


@pytest.mark.parametrize(
    ("attributes", "rule"),
    [
        ({}, "separators or tokenexp must say where tokens are"),
        ({"separators": [" *"]}, "the separator ' \\*' matches where nothing is"),
        ({"tokenexp": "(a"}, "cannot be used as a regular expression"),
        ({"tokenexp": "[[:alpha:]]+"}, "classes of POSIX are not supported"),
    ],
)
def test_what_is_no_expression_is_refused(attributes: Any, rule: str) -> None:
    with pytest.raises(ArgumentError, match=rule):
        tokens(tokenizer(**attributes), TEXTS)


def test_a_block_of_texts_is_refused() -> None:
    with pytest.raises(ArmnetError, match=r"X must be \(C,\) or \(N, C\)"):
        tokens(tokenizer(separators=[" "]), [[TEXTS]])


@pytest.mark.parametrize("pattern", [r"\ba|ab", "(a|ab)$"])
def test_the_longest_match_is_not_guessed(pattern: str) -> None:
    with pytest.raises(ArgumentError, match="the longest match of"):
        tokens(tokenizer(tokenexp=pattern), ["abc"])
