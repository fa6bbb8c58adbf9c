"""What reads a sequence of known elements reads these."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np
import pytest

from optimize.passes.removing.remove_sequences import PASS
from tests.optimize.nets import applied, assert_same_numbers, refusals

X = np.random.default_rng(8).standard_normal((2, 6)).astype(np.float32)
SHAPES = {"x": (2, 6)}
WEIGHTS: Dict[str, Any] = {"zero": np.array(0), "one": np.array(1), "last": np.array(-1), "far": np.array(5)}
WEIGHTS.update(two=np.array(2), sizes=np.array([1, 2, 3]), half=np.float32(1.5), nan=np.float32(np.nan))
MADE = """
    net "": x, zero, one, last, far, two, sizes -> y
    onnx.SequenceEmpty() -> s
    Relu(x) -> a
    Abs(x) -> b
    onnx.SequenceInsert(s, a) -> s1
    onnx.SequenceInsert(s1, b, zero) -> s2
    onnx.SequenceInsert(s2, x, last) -> s3
    onnx.SequenceErase(s3, one) -> s4
    """
SPLIT = 'net "": x, zero, one, last, far, two, sizes -> y\n'


@pytest.mark.parametrize(
    ("read", "instead"),
    [
        ("onnx.SequenceAt(s1, zero) -> y", "Copy(a) -> y"),
        ("onnx.SequenceAt(s2, last) -> y", "Copy(a) -> y"),
        ("onnx.SequenceAt(s3, one) -> y", "Copy(x) -> y"),
        ("onnx.ConcatFromSequence(s3) -> y  axis=1", "Concat(b, x, a) -> y, y_lengths  axis=1"),
        ("onnx.ConcatFromSequence(s4) -> y  axis=-1", "Concat(b, a) -> y, y_lengths  axis=-1"),
        ("onnx.ConcatFromSequence(s2) -> y  axis=-3 new_axis=1", "Concat(b, a) -> y, y_lengths  axis=-3  add_axis=1"),
    ],
)
def test_elements_are_read_as_they_are(read: str, instead: str) -> None:
    outcome = applied(PASS, MADE + read, WEIGHTS, SHAPES)
    assert outcome.text[-1] == instead
    assert_same_numbers(outcome.before, outcome.after, {"x": X})


@pytest.mark.parametrize(
    ("split", "read", "instead"),
    [
        ("x, sizes", "axis=1", "Split(x) -> s_part0, s_part1, s_part2  axis=1  split=[1, 2, 3]"),
        ("x, two", "axis=-1", "Split(x) -> s_part0, s_part1, s_part2  axis=-1  split=[2, 2, 2]"),
        ("x, far", "axis=1", "Split(x) -> s_part0, s_part1  axis=1  split=[5, 1]"),
        ("x", "", "Split(x) -> s_part0, s_part1  axis=0  split=[1, 1]"),
        ("x", "keepdims=0", "Split(x) -> s_part0, s_part1  axis=0  add_axis=1"),
    ],
)
def test_parts_become_blobs(split: str, read: str, instead: str) -> None:
    net = f"{SPLIT} onnx.SplitToSequence({split}) -> s  {read}\n onnx.SequenceAt(s, one) -> y"
    outcome = applied(PASS, net, WEIGHTS, SHAPES)
    assert outcome.text[0] == instead
    assert outcome.text[-1] == "Copy(s_part1) -> y"
    assert_same_numbers(outcome.before, outcome.after, {"x": X})


def test_a_length_is_a_constant() -> None:
    outcome = applied(PASS, MADE + "onnx.SequenceLength(s3) -> k\n Add(x, k) -> y", WEIGHTS)
    assert int(outcome.weight("k")) == 3
    assert outcome.reasons == []
    assert refusals(PASS, MADE + "onnx.SequenceLength(s3) -> y", WEIGHTS) == ["'y' is an output of the net"]


@pytest.mark.parametrize(
    ("read", "reason"),
    [
        ("onnx.SequenceAt(s2, far) -> y", "the position is not known"),
        ("onnx.SequenceAt(s2, x) -> y", "the position is not known"),
        ("onnx.ConcatFromSequence(s) -> y", "the sequence is empty"),
        (
            "onnx.SequenceInsert(s1, a, far) -> t\n onnx.SequenceAt(t, zero) -> y",
            "the position in onnx.SequenceInsert(s1, a, far) -> t is not known",
        ),
        ("onnx.SequenceAt(x, zero) -> y", "what 'x' holds is not known"),
    ],
)
def test_what_is_not_known_stays(read: str, reason: str) -> None:
    assert refusals(PASS, MADE + read, WEIGHTS, SHAPES) == [reason]


@pytest.mark.parametrize(
    ("split", "reason"),
    [
        ("x", "the number of parts is not known"),
        ("x, two", "the number of parts is not known"),
        ("x, x", "the number of parts is not known"),
    ],
)
def test_open_sizes_give_an_unknown_number_of_parts(split: str, reason: str) -> None:
    net = f"{SPLIT} onnx.SplitToSequence({split}) -> s  axis=0\n onnx.SequenceAt(s, zero) -> y"
    assert reason in refusals(PASS, net, WEIGHTS, {"x": ("n", 6)})


@pytest.mark.parametrize(
    ("split", "reason"),
    [("x", "there are no parts, or more than 256"), ("x, half", "the number of parts is not known")],
)
def test_parts_are_neither_without_end_nor_broken(split: str, reason: str) -> None:
    net = f"{SPLIT} onnx.SplitToSequence({split}) -> s\n onnx.SequenceAt(s, one) -> y".replace("two,", "two, half,")
    assert reason in refusals(PASS, net, WEIGHTS, {"x": (1 << 40,)})


def test_a_position_is_an_integer() -> None:
    net = (MADE + "onnx.SequenceAt(s2, nan) -> y").replace("two,", "two, nan,")
    assert refusals(PASS, net, WEIGHTS, SHAPES) == ["the position is not known"]


def test_a_blob_that_is_overwritten_is_not_read_later() -> None:
    net = 'net "": x, k -> y, k\n onnx.SequenceConstruct(k, x) -> s\n Relu(k) -> k\n onnx.SequenceAt(s, zero) -> y'
    net = net.replace("x, k ->", "x, k, zero ->")
    assert refusals(PASS, net, WEIGHTS, {"x": (2, 6), "k": (2, 6)}) == ["'k' is written more than once"]
