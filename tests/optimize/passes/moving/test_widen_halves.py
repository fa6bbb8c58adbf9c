"""Operators on float16 compute in float32, and numbers stay float32 between them."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest

from optimize.passes.moving.widen_halves import PASS
from optimize.rewriting.program import Program
from optimize.rewriting.report import Recorder, Report
from optimize.rewriting.rewrite import run_passes
from runtime_arm.netdef import NetDef
from runtime_arm.pair.fills import fill
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from tests.optimize.nets import lines

RANDOM = np.random.default_rng(7)


def half(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float16)


def pair_of_halves(net: str, x: Any, **weights: Any) -> Pair:
    fills = tuple(fill(name, value) for name, value in weights.items())
    return Pair(NetDef("init", fills), NetDef.from_text(net), (TensorInfo("x", x, "float16"),)).check()


def widened(pair: Pair) -> List[str]:
    program = run_passes(Program.of(pair), [PASS], Recorder())
    again = Report()
    assert run_passes(program, [PASS], Recorder(again)).net == program.net
    assert not again.steps
    return lines(program.net.replace(name="", external_input=(), external_output=()).to_text())


def test_numbers_stay_float32_between_products_also_where_they_are_moved() -> None:
    net = """
        net "n": x, w, v -> y
        MatMul(x, w) -> a
        onnx.Relu(a) -> b
        Transpose(b) -> c
        MatMul(c, v) -> y"""
    text = widened(pair_of_halves(net, (4, 8), w=half(8, 6), v=half(4, 3)))
    kept = [line for line in text if "FloatToHalf" not in line or line.endswith("-> y")]
    assert kept == [
        "HalfToFloat(x) -> x_wide",
        "HalfToFloat(w) -> w_wide",
        "MatMul(x_wide, w_wide) -> a_wide",
        "onnx.Relu(a_wide) -> b_wide",
        "Transpose(b_wide) -> c_wide_1",
        "HalfToFloat(v) -> v_wide",
        "MatMul(c_wide_1, v_wide) -> y_wide",
        "FloatToHalf(y_wide) -> y",
    ]


@pytest.mark.parametrize(
    "operators",
    [
        ["Transpose(x) -> y"],  # as fast on halves
        ["onnx.NonZero(x) -> z", "onnx.Cast(z) -> h  to=10", "MatMul(h, w) -> y"],  # of unknown size
        ["ArgMax(x) -> y"],  # gives integers, which would differ by a step
    ],
)
def test_what_stays_as_it_is(operators: List[str]) -> None:
    net = "\n ".join(['net "n": x, w -> y', *operators])
    assert widened(pair_of_halves(net, (4, 8), w=half(8, 6))) == operators


def test_a_cache_is_not_converted_for_what_is_added_to_it() -> None:
    net = NetDef.from_text('net "n": x, w, past -> y\n MatMul(x, w) -> k\n onnx.Concat(past, k) -> y  axis=0')
    inputs = TensorInfo("x", (1, 8), "float16"), TensorInfo("past", (512, 6), "float16")
    pair = Pair(NetDef("init", (fill("w", half(8, 6)),)), net, inputs)
    assert widened(pair)[-2:] == ["FloatToHalf(k_wide) -> k", "onnx.Concat(past, k) -> y  axis=0"]
