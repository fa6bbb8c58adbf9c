"""Loops that append a reduced slice of rows a trip to a sequence become operators that reduce slices."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_close
from optimize import optimize
from optimize.passes.composing.compose_bags import PASS
from optimize.rewriting.report import operator_counts
from tests.optimize.nets import Outcome, applied, numbers, pair_of, refusals

ROWS, BAGS = 9, 5
RANDOM = np.random.default_rng(4)
WEIGHTS: Dict[str, Any] = {
    "first": np.array(0),
    "one": np.array(1),
    "two": np.array(2),
    "axis": np.array([0]),
    "zeros": np.zeros((1, 4), np.float32),
    "half": np.full((1, 4), 0.5, np.float32),
}
SHAPES = {"x": ("n", 4)}
OFFSETS = {
    "as they should be": [0, 2, 2, 5, 8, 9],
    "equal at the end": [0, 2, 4, 6, 9, 9],
    "not up to the end": [0, 1, 3, 5, 6, 8],
    "backwards": [4, 2, 7, 1, 3, 2],
    "outside": [-3, 2, -1, 12, 15, 11],
    "behind the end": [0, 3, 6, 8, 11, 12],
}
SUM = "onnx.Slice(x, start, end) -> rows\n onnx.ReduceSum(rows, axis) -> reduced"
MEAN = """onnx.Slice(x, start, end) -> rows
    Sub(count, one) -> last
    onnx.Equal(k, last) -> is_last
    If(is_last) -> reduced  then_net={
    net "": -> of_last
    onnx.ReduceSum(rows, axis) -> sum
    onnx.Shape(x) -> length  start=0  end=1
    Sub(length, start) -> behind
    onnx.CastLike(first, behind) -> nothing
    onnx.Greater(behind, nothing) -> some
    If(some) -> of_last  then_net={
    net "": -> mean_of_last
    onnx.Cast(behind) -> divisor  to=1
    onnx.Div(sum, divisor) -> mean_of_last
    }  else_net={
    net "": -> sum
    }
    }  else_net={
    net "": -> of_others
    onnx.ReduceMean(rows, axis) -> of_others
    }"""
MAX = """Sub(count, one) -> last
    onnx.Equal(k, last) -> is_last
    If(is_last) -> rows  then_net={
    net "": -> rows_of_last
    onnx.Slice(x, start, length) -> rows_of_last
    }  else_net={
    net "": -> rows_of_others
    onnx.Slice(x, start, end) -> rows_of_others
    }
    onnx.ReduceMax(rows, axis) -> reduced"""
LENGTH = "Shape(x) -> length  start=0  end=1\n    Sub"
OTHER_LENGTH = LENGTH.replace("x", "offsets", 1)
MODES = {"Sum": SUM, "Mean": MEAN, "Max": MAX}


def loop(reduced: str, y: str = "y") -> str:
    """As PyTorch 2.9 writes EmbeddingBag with include_last_offset."""
    return f"""net "": x, offsets, {", ".join(WEIGHTS)} -> {y}
        onnx.Shape(x) -> length  start=0  end=1
        Size(offsets) -> size
        Sub(size, one) -> count
        onnx.SequenceEmpty() -> none
        LT(first, count) -> any
        onnx.Loop("", any, none, first) -> all, k_last  body={{
        net "body": trip, go, bags, k -> more, bags_now, k_now
        Reshape(k) -> at, at_shape  shape=[-1]
        onnx.CastLike(one, at) -> one_at
        onnx.Add(at, one_at) -> at_1
        onnx.Slice(offsets, at, at_1) -> start
        onnx.CastLike(two, at) -> two_at
        onnx.Add(at, two_at) -> at_2
        onnx.Slice(offsets, at_1, at_2) -> end
        onnx.Equal(start, end) -> empty
        If(empty) -> bag  then_net={{
        net "": -> zeros
        }}  else_net={{
        net "": -> reduced
        {reduced}
        }}
        onnx.SequenceInsert(bags, bag) -> bags_now
        onnx.Add(k, one) -> k_now
        onnx.Less(k_now, count) -> more
        }}
        onnx.ConcatFromSequence(all) -> y  axis=0"""


def with_offsets(name: str = "as they should be") -> Dict[str, Any]:
    return {**WEIGHTS, "offsets": np.array(OFFSETS[name])}


@pytest.mark.parametrize("offsets", OFFSETS)
@pytest.mark.parametrize("mode", MODES)
def test_they_become_operators(mode: str, offsets: str) -> None:
    outcome = applied(PASS, loop(MODES[mode]), with_offsets(offsets), SHAPES)
    assert not {"onnx.Loop", "If", "onnx.ConcatFromSequence"} & {*operator_counts(outcome.after.predict_net)}
    assert f'reduction="{mode}"' in "".join(outcome.text)
    assert_same(outcome)


def assert_same(outcome: Outcome) -> None:
    feeds = {"x": RANDOM.standard_normal((ROWS, 4)).astype(np.float32)}
    actual, expected = (numbers(pair, feeds)["y"] for pair in (outcome.after, outcome.before))
    assert actual.shape == (BAGS, 4)
    assert_close(actual, expected, terms=ROWS)


def test_the_sum_is_one_operator() -> None:
    outcome = applied(PASS, loop(SUM), with_offsets(), SHAPES)
    assert outcome.text[-2:] == [
        "onnx.Slice(offsets, number_1, end_1) -> limits",
        'armnet.ReduceSlices(x, offsets, limits, count) -> y  reduction="Sum"',
    ]


def test_nothing_is_left_to_do() -> None:
    for mode in MODES.values():
        result = optimize(pair_of(loop(mode), with_offsets(), SHAPES))
        assert not {"onnx.Loop", "If"} & {*operator_counts(result.predict_net)}
        assert optimize(result).predict_net == result.predict_net


def changed(old: str, new: str, mode: str = "Sum") -> str:
    net = loop(MODES[mode])
    assert old in net
    return net.replace(old, new)


@pytest.mark.parametrize(
    ("reason", "net"),
    [
        ("rows are joined otherwise", changed("axis=0", "axis=1")),
        ("rows are joined otherwise", changed("axis=0", "axis=0  new_axis=1")),
        ("'k_last' is an output of the net", loop(SUM, "y, k_last")),
        ("it does not carry a number and a sequence alone", changed('Loop("",', "Loop(count,")),
        ("it does not append to its sequence", changed("Insert(bags, bag)", "Insert(bags, bag, axis)")),
        ("it does not count its trips", changed("LT(first, count)", "onnx.Equal(first, count)")),
        ("it does not count its trips from 0 on by 1", changed("none, first)", "none, one)")),
        ("it does not count its trips from 0 on by 1", changed("LT(first,", "LT(one,")),
        ("it does not count its trips from 0 on by 1", changed("Add(k, one)", "Add(k, two)")),
        ("it begins and ends by other counts", changed("LT(first, count)", "LT(first, size)")),
        ("a bag that begins where it ends does not give a row of zeros", changed('"": -> zeros', '"": -> half')),
        ("the bounds of a bag do not come from vectors", changed("(offsets, at_1, at_2)", "(offsets, at, at_2)")),
        ("a bag has other limits", changed("Slice(x, start, end)", "Slice(x, end, start)")),
        ("it does not reduce just the first dimension", changed("(rows, axis)", "(rows, one)")),
        ("'reduced' is not computed by the reduction of a slice", changed("ReduceSum", "ReduceProd")),
        ("another trip than the last one is another one", changed("one) -> last", "two) -> last", "Max")),
        ("'size' is not known to be the number of rows of 'x'", changed("x, start, length", "x, start, size", "Max")),
        ("'length' is not known to be the number of rows of 'x'", changed(LENGTH, OTHER_LENGTH, "Mean")),
        ("the last bag is another one", changed("ReduceMean", "ReduceMax", "Mean")),
        ("the last bag is of other rows", changed("Sub(length, start)", "Sub(length, end)", "Mean")),
        ("the last bag is divided otherwise", changed("CastLike(first, behind)", "CastLike(one, behind)", "Mean")),
    ],
)  # fmt: skip
def test_other_loops_stay(reason: str, net: str) -> None:
    assert refusals(PASS, net, with_offsets(), SHAPES) == [reason]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rows", [0, 2])
def test_several_rows_of_zeros_are_not_one_bag(rows: int, mode: str) -> None:
    weights = {**with_offsets(), "zeros": np.zeros((rows, 4), np.float32)}
    (reason,) = refusals(PASS, loop(MODES[mode]), weights, SHAPES)
    assert reason == "a bag that begins where it ends does not give a row of zeros"
