"""Expressions that match in linear time, held against Python's own and onnxruntime's."""

from __future__ import annotations

import re
from typing import Any, List

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.text.linear_matching import FEW_CHOICES, LinearExpression, linear_expression
from runtime_arm.operators.text.onnx import expression
from runtime_arm.registry.schema import lookup
from tests.support.onnx_nodes import onnxruntime_outputs

HOSTILE = [
    "(a*)*b",
    "(a|a)*b",
    "(a|ab|b)+c",
    r"(\w+\s?)+!",
    "a?" * 24 + "a" * 24,
    "a*" * 12 + "b",
    "(?:a+)+?b",
    "((a{0,9}){0,9}){0,9}b",
]
LONG = ["a" * 24, "a" * 24 + "b", "ab" * 12 + "c", "ab a " * 8 + "!", "", "a" * 200]


def matches(pattern: str) -> OperatorDef:
    return OperatorDef.of("RegexFullMatch", ["x"], ["y"], domain="onnx", pattern=pattern)


@pytest.mark.parametrize("pattern", HOSTILE)
def test_patterns_that_take_python_exponential_time_match_as_in_onnxruntime(pattern: str) -> None:
    texts = np.array(LONG, object)
    (wanted,) = onnxruntime_outputs(matches(pattern), [texts], [np.bool_])
    op = matches(pattern)
    assert isinstance(expression(op, pattern), LinearExpression)
    assert lookup(op).evaluate(op, [texts])[0].tolist() == wanted.tolist()


@pytest.mark.parametrize("pattern", [r"[^@\s]+@\w+\.com", r"\w+", "a|b", "(ab){3}", r"(?i)[a-z]*-?\d+"])
def test_ordinary_patterns_are_left_to_python(pattern: str) -> None:
    assert isinstance(expression(matches(pattern), pattern), re.Pattern)


@pytest.mark.parametrize(
    ("pattern", "rule"),
    [
        (r"(a)(\1*)*", "RE2 has no groupref"),
        (r"(a)\1", "RE2 has no groupref"),
        ("(?:(?=a)a*)*", "RE2 has no assert"),
        ("(?=(a+)+b)a", "RE2 has no assert"),
        ("((a*){999}){999}", "too many"),
    ],
)
def test_what_re2_does_not_take_is_refused(pattern: str, rule: str) -> None:
    with pytest.raises(ArgumentError, match=rule):
        expression(matches(pattern), pattern)


@pytest.mark.parametrize("pattern", ["(?:){999999999}", "(?:(?:a{0}){60000}){60000}", "(?:(?:){60000}){60000,}"])
def test_what_is_empty_is_repeated_once(pattern: str) -> None:
    found = linear_expression(f"{pattern}a*b*c*d*", re.ASCII)
    assert found is not None
    assert [found.fullmatch(text) for text in ("ab", "ba")] == [True, False]


def test_an_empty_text_has_no_bound_of_a_word() -> None:
    texts = np.array(["", "a"], object)
    (wanted,) = onnxruntime_outputs(matches(r"\B"), [texts], [np.bool_])
    assert lookup(matches("")).evaluate(matches(r"\B"), [texts])[0].tolist() == wanted.tolist() == [True, False]


PIECES = ["a", "b", "A", ".", "[ab]", "[^a]", r"[^\w]", r"\w", r"\d", r"\s", r"\W", "[a-c0]", r"\b", "^"]
PATTERNS = st.recursive(
    st.sampled_from(PIECES),
    lambda inner: st.one_of(
        st.builds("{}{}".format, inner, inner),
        st.builds("(?:{}|{})".format, inner, inner),
        st.builds("({}){}".format, inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{2,}", "*?"])),
        st.builds("(?{}:{})".format, st.sampled_from("ism"), inner),
    ),
    max_leaves=5,
)


@settings(max_examples=300)
@given(PATTERNS, st.lists(st.text("abA 0_\nü", max_size=6), min_size=3, max_size=3))
def test_random_patterns_match_as_pythons_do(pattern: str, texts: List[str]) -> None:
    many = "x?" * (FEW_CHOICES + 1)
    found: Any = linear_expression(f"(?:{pattern}){many}", re.ASCII)
    python = re.compile(f"(?:{pattern}){many}", re.ASCII)
    for text in texts:
        assert found.fullmatch(text) == bool(python.fullmatch(text))
        first, span = python.search(text), found.search(text, 0)
        assert (first is None) == (span is None)
        if first is not None:
            ends = range(first.start(), len(text) + 1)
            longest = max(end for end in ends if python.fullmatch(text, first.start(), end) or end == first.end())
            assert span[0] == first.start()
            assert span[1] == longest or r"\b" in pattern  # Python takes the end of what it looks at for the text's
