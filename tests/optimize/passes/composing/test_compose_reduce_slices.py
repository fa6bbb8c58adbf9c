"""Loops that reduce a slice of rows a trip become one operator."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_close
from optimize.passes.composing.compose_reduce_slices import PASS
from tests.optimize.nets import Outcome, applied, numbers, refusals

RANDOM = np.random.default_rng(3)
SHAPES = {"rows": ("n", 4)}
FEEDS: Dict[str, Any] = {"rows": RANDOM.standard_normal((9, 4)).astype(np.float32)}
WEIGHTS: Dict[str, Any] = {
    "table": RANDOM.standard_normal((5, 4)).astype(np.float32),
    "w": RANDOM.standard_normal(9).astype(np.float32),
    "ids": np.array([0, 4, -1, 3, 3, 2, 1, 0, 2]),
    "starts": np.array([0, 2, 2, -4, 1, 7]),
    "ends": np.array([2, 3, 2, 8, 99]),
    "n": np.array([5]),
    "yes": np.array(True),
    "no": np.array(False),
    "zero": np.array([0]),
    "one": np.array([1]),
}
LINES = """
    onnx.Gather(starts, i) -> start  axis=0
    onnx.Gather(ends, i) -> end  axis=0
    ExpandDims(start) -> s  dims=[0]
    ExpandDims(end) -> e  dims=[0]
    onnx.Slice(ids, s, e, zero) -> part
    Gather(table, part) -> picked
    onnx.Slice(w, s, e, zero) -> of_part
    ExpandDims(of_part) -> column  dims=[1]
    onnx.Mul(picked, column) -> product
    onnx.Slice(rows, s, e) -> cut"""


def loop(reduce: str, lines: str = LINES, call: str = "n, yes", head: str = "i, go -> go, out", y: str = "y") -> str:
    inside = f"{lines}\n onnx.{reduce}"
    return f"""net "": rows, {", ".join(WEIGHTS)} -> {y}
        onnx.Loop({call}) -> {y}  body={{
        net "b": {head}
        {inside}
        }}"""


def assert_same_sums(outcome: Outcome) -> None:
    actual, expected = (numbers(pair, FEEDS)["y"] for pair in (outcome.after, outcome.before))
    assert_close(actual, expected, terms=9)


@pytest.mark.parametrize(
    ("reduce", "inputs"),
    [
        ("ReduceSum(picked, zero) -> out  keepdims=0", "table, starts, ends, n, ids"),
        ("ReduceMean(picked, zero) -> out  keepdims=0", "table, starts, ends, n, ids"),
        ("ReduceMax(picked, zero) -> out  keepdims=0", "table, starts, ends, n, ids"),
        ("ReduceSum(product, zero) -> out  keepdims=0", "table, starts, ends, n, ids, w"),
        ("ReduceSum(cut, zero) -> out  keepdims=0", "rows, starts, ends, n"),
    ],
)
def test_they_become_one_operator(reduce: str, inputs: str) -> None:
    outcome = applied(PASS, loop(reduce), WEIGHTS, SHAPES)
    (line,) = outcome.text
    assert line == f'armnet.ReduceSlices({inputs}) -> y  reduction="{reduce[6:].partition("(")[0]}"'
    assert_same_sums(outcome)


def test_weights_are_of_as_many_rows() -> None:
    net = loop("ReduceSum(weighted, zero) -> out  keepdims=0", LINES + "\n onnx.Mul(cut, column) -> weighted")
    outcome = applied(PASS, net, WEIGHTS, {"rows": (9, 4)})
    assert outcome.text == ['armnet.ReduceSlices(rows, starts, ends, n, "", w) -> y  reduction="Sum"']
    assert_same_sums(outcome)
    (reason,) = refusals(PASS, net, WEIGHTS, SHAPES)  # of other numbers of rows the loop may take a part
    assert reason == "'w' may have another number of rows than the blob that it multiplies"


def test_weights_may_be_of_other_rows_than_indices_of_open_length() -> None:
    given = loop(OF_PRODUCT, LINES.replace("(w, s", "(v, s"), call="k, yes").replace("rows, ", "rows, v, k, ", 1)
    for shapes, are_as_many in (({"v": (9,), "k": (1,)}, True), ({"v": ("m",), "k": (1,)}, False)):
        outcome = applied(PASS, given, WEIGHTS, {**SHAPES, **shapes})
        assert bool(outcome.report.steps) == are_as_many


SUM = "ReduceSum(picked, zero) -> out  keepdims=0"
OF_PRODUCT = "ReduceSum(product, zero) -> out  keepdims=0"


def changed(old: str, new: str, reduce: str = SUM) -> str:
    """The loop with another line in its body."""
    assert old in LINES
    return loop(reduce, LINES.replace(old, new))


@pytest.mark.parametrize(
    ("reason", "net"),
    [
        ("the number of trips is left out", loop(SUM, call='"", yes', head="i, go -> no, out")),
        ("its condition may end it", loop(SUM, head="i, go -> no, out")),
        ("its condition may end it", loop(SUM, call="n, no")),
        ("it gives more than one blob", loop(SUM, call="n, yes, n", head="i, go, k -> go, k, out", y="k, y")),
        ("it writes a blob twice", loop(SUM, LINES + "\n Copy(picked) -> a\n Copy(cut) -> a")),
        ("it depends on the order of operators", loop(SUM, "\n onnx.Mul(i, zero) -> i" + LINES)),
        ("it does not reduce just the first dimension", loop("ReduceSum(picked, one) -> out  keepdims=0")),
        ("it does not reduce just the first dimension", loop("ReduceSum(picked, zero) -> out")),
        ("it does not reduce just the first dimension", loop("ReduceSum(picked) -> out  keepdims=0")),
        ("'out' is not computed by the reduction of a slice", loop("ReduceProd(picked, zero) -> out  keepdims=0")),
        ("'part' is another one in each trip", changed("Gather(table, part)", "Gather(part, part)")),
        ("it does not pick rows", changed("-> picked", "-> picked  axis=1")),
        ("it does not cut the first dimension", changed("s, e, zero) -> part", "s, e, one) -> part")),
        ("it does not cut the first dimension", changed("zero) -> part", "zero, one) -> part")),
        ("the bounds of a slice do not come from vectors", changed("(ends, i)", "(ends, zero)")),
        ("'table' is not known to have 1 dimensions", changed("(starts, i)", "(table, i)")),
        ("a dimension is added elsewhere", changed("[1]", "[0]", OF_PRODUCT)),
        ("the weights are of other rows", changed("(w, s, e", "(w, s, s", OF_PRODUCT)),
    ],
)
def test_other_loops_stay(reason: str, net: str) -> None:
    assert refusals(PASS, net, WEIGHTS, SHAPES) == [reason]
