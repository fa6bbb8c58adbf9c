"""Passes also rewrite the sub-nets of operators, and the outer net still computes the same."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimize import Report, optimize
from runtime_arm.netdef import Argument, NetDef, OperatorDef
from runtime_arm.pair.pair import Pair
from tests.optimize import kinds
from tests.optimize.nets import assert_same_numbers, pair_of, pair_of_net
from tests.support.random_nets import KINDS, RandomNet, random_nets

RANDOM = np.random.default_rng(3)
W = RANDOM.standard_normal((4, 4, 1, 1)).astype(np.float32)
S = RANDOM.standard_normal((4, 1, 1)).astype(np.float32)
X = RANDOM.standard_normal((1, 4, 3, 3)).astype(np.float32)
BRANCHES = """
    net "": x, c, w, s -> y
    Relu(x) -> a
    If(c) -> y  then_net={
        net "then": -> z
        Copy(a) -> a2
        Conv(a2, w) -> b  kernel=1
        Mul(b, s) -> d
        Sigmoid(d) -> unused
        Relu(d) -> z
    } else_net={
        net "else": -> z
        Conv(a, w) -> z  kernel=1
    }
"""


def branches() -> Pair:
    pair = pair_of(BRANCHES, {"w": W, "s": S}, {"x": (1, 4, 3, 3), "c": ()})
    inputs = [info if info.name == "x" else type(info)("c", (), "bool") for info in pair.inputs]
    return pair.replace(inputs=inputs)


def assert_same(before: Pair, after: Pair, **feeds: Any) -> None:
    for condition in (True, False):
        assert_same_numbers(before, after, {"c": np.array(condition), **feeds}, terms=100, layers=6)


def branch(pair: Pair, name: str) -> NetDef:
    return next(op for op in pair.predict_net.op if op.type == "If").get_net(name)


def test_branches_are_folded_and_fused() -> None:
    pair, report = branches(), Report()
    result = optimize(pair, report=report)
    assert [op.type for op in branch(result, "then_net").op] == ["ConvRelu"]
    assert branch(result, "then_net").op[0].input == ("a", "w_folded")
    assert branch(result, "else_net") == branch(pair, "else_net")
    assert set(result.predict_net.external_input) == {"x", "c", "w", "w_folded"}
    assert "inside then_net of If(c) -> y" in report.steps[0].notes
    assert_same(pair, result, x=X)
    assert optimize(result) == result


def test_steps_in_branches_can_be_bisected_like_all_others() -> None:
    pair, report = branches(), Report()
    final = optimize(pair, report=report)
    for count in range(len(report.steps) + 1):
        result = optimize(pair, stop_after=count)
        assert_same(pair, result, x=X)
    assert result == final


def test_refusals_of_branches_stay_in_the_report() -> None:
    report = Report()
    text = BRANCHES.replace("Sigmoid(d) -> unused", "Sigmoid(b) -> e").replace("Relu(d) -> z", "Add(d, e) -> z")
    pair = pair_of(text, {"w": W, "s": S}, {"x": (1, 4, 3, 3)})
    optimize(pair, report=report)
    assert any("'b' is read by Sigmoid(b) -> e as well" in refusal.reason for refusal in report.refused)


TAKEN = """net "": x, c -> y
    Relu(x) -> a
    If(c) -> y  then_net={
        net "hands on what it takes": -> b
        Copy(x) -> b
    } else_net={
        net "": -> b
        Relu(a) -> b
    }"""
IN_PLACE = """net "": x, c -> y
    Copy(x) -> y
    If(c) -> y  then_net={
        Relu(y) -> y
        Sigmoid(y) -> y
    }"""
SHADOWED = """net "": x, c, w -> y
    Add(x, w) -> a
    If(c) -> y  then_net={
        net "the name of a weight means something else": -> w
        Relu(a) -> w
        Sigmoid(w) -> w
    } else_net={
        net "": -> q
        Copy(a) -> q
    }"""


@pytest.mark.parametrize("text", [TAKEN, IN_PLACE, SHADOWED])
def test_names_shared_with_the_outer_net_keep_their_meaning(text: str) -> None:
    pair = pair_of(text, {"w": S} if text is SHADOWED else {}, {"x": (1, 4, 3, 3)})
    assert_same(pair, optimize(pair), x=X)


def test_a_loop_keeps_its_inputs_and_outputs_in_order() -> None:
    text = """
        net "": n, x, w, s -> y, ys
        onnx.Loop(n, "", x) -> y, ys  body={
            net "body": i, c, h -> c_out, h_out, scanned
            Copy(c) -> c_out
            Conv(h, w) -> a  kernel=1
            Mul(a, s) -> b
            Sigmoid(b) -> h_out
            Copy(h_out) -> scanned
        }
    """
    pair = pair_of(text, {"w": W, "s": S}, {"x": (1, 4, 3, 3)})
    result = optimize(pair)
    body = result.predict_net.op[0].get_net("body")
    assert body.external_input == ("i", "c", "h")
    assert body.external_output == ("c_out", "h_out", "scanned")
    assert [op.type for op in body.op][1] == "FusedConv"
    assert_same_numbers(pair, result, {"n": np.array(3, np.int64), "x": X}, terms=100, layers=6)


def test_a_while_loop_whose_nets_keep_state_is_left_alone() -> None:
    text = """
        net "": x, c -> y
        Copy(x) -> y
        While(c) -> y  loop_net={
            Copy(y) -> a
            Relu(a) -> y
            Not(c) -> c
        }
    """
    pair = pair_of(text, shapes={"x": (2,)})
    assert optimize(pair).predict_net.op[-1] == pair.predict_net.op[-1]


@settings(max_examples=100)
@given(
    random_nets(kinds=[*KINDS, kinds.convolving, kinds.normalising, kinds.scaling, kinds.copying, kinds.repeating]),
    st.booleans(),
)
def test_random_nets_compute_the_same_inside_a_branch(drawn: RandomNet, nested: bool) -> None:
    names = [f"out{index}" for index in range(len(drawn.net.external_output))]
    net: NetDef = drawn.net.replace(external_input=())
    if nested:
        net = NetDef("around", (_if(net, names),), (), tuple(names))
        names = [f"outer_{name}" for name in names]
    around = NetDef("", (_if(net, names),), ("x", "c", *drawn.weights), tuple(names))
    pair = pair_of_net(around, drawn.weights, {"x": drawn.shape})
    report = Report()
    result = optimize(pair, report=report)
    feeds: Dict[str, Any] = {**drawn.feed(), "c": np.array(True)}
    assert_same_numbers(pair, result, feeds, terms=100, layers=6)
    again = Report()
    assert optimize(result, report=again) == result, again


def _if(net: NetDef, names: Any) -> OperatorDef:
    return OperatorDef("If", ("c",), tuple(names), (Argument.of("then_net", net), Argument.of("else_net", net)))
