"""Patterns match exactly what they describe, anywhere in a net."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np
import pytest

from optimize.rewriting.patterns import ANY, Operator, commutative, operator, rule, weight
from optimize.rewriting.program import Match, Program, Rewrite
from runtime_arm.netdef import OperatorDef
from tests.optimize.nets import pair_of

WEIGHTS = {"w": np.ones((2, 2), np.float32), "six": np.full((1, 1), 6, np.float32), "sixth": np.float32(1 / 6)}
RELU, SIGMOID, CONV = operator({"Relu"}, "relu"), operator({"Sigmoid"}, "sigmoid"), operator({"Conv"}, "conv")
MULTIPLY, DIVIDE = commutative({"Mul", "onnx.Mul"}, "product"), operator({"Div"}, "quotient")


def matches(text: str, *patterns: Operator, start: int = 0) -> List[Match]:
    program = Program.of(pair_of(f'net "": x, z, {", ".join(WEIGHTS)} -> y\n {text}', WEIGHTS))
    return list(rule(*patterns, to=lambda program: Rewrite()).find(program, start))


def captures(text: str, *patterns: Operator) -> List[Dict[str, Any]]:
    """The captures of each match; an operator is given by its first output."""
    return [
        {name: one.output[0] if isinstance(one, OperatorDef) else one for name, one in match.captured.items()}
        for match in matches(text, *patterns)
    ]


def test_operators_and_blobs_are_captured_by_name() -> None:
    assert captures("Sigmoid(x) -> a\n Relu(a) -> y", RELU(SIGMOID("x"))) == [{"x": "x", "relu": "y", "sigmoid": "a"}]


def test_inner_operators_vanish_with_all_their_outputs() -> None:
    (match,) = matches("Abs(x) -> b\n Split(b) -> a, rest\n Relu(a) -> y", RELU(operator({"Split"})))
    assert match == Match((1, 2), ("a", "rest"), match.captured)


def test_a_pattern_matches_only_the_first_output_of_an_operator() -> None:
    assert not matches("Split(x) -> rest, a\n Relu(a) -> y", RELU(operator({"Split"})))


def test_inputs_after_those_listed_may_be_anything() -> None:
    for inputs in ("a, w", "a, w, z"):
        assert len(matches(f"Relu(x) -> a\n Conv({inputs}) -> y", CONV(RELU))) == 1


@pytest.mark.parametrize("operands", ["x, a", "a, x"])
def test_operands_of_a_commutative_operator_come_in_any_order(operands: str) -> None:
    for type in ("Mul", "onnx.Mul"):
        assert len(matches(f"Sigmoid(x) -> a\n {type}({operands}) -> y", MULTIPLY("x", SIGMOID("x")))) == 1
    assert len(matches(f"Sigmoid(x) -> a\n Div({operands}) -> y", DIVIDE("x", SIGMOID("x")))) == (operands == "x, a")


def test_one_name_matches_only_one_blob() -> None:
    assert not matches("Sigmoid(x) -> a\n Mul(z, a) -> y", MULTIPLY("x", SIGMOID("x")))


def test_a_commutative_operator_has_no_other_operands() -> None:
    total = commutative({"Sum"})
    assert not matches("Relu(x) -> a\n Sum(a, x, z) -> y", total(RELU, "x"))


def test_the_operand_written_last_is_tried_first() -> None:
    net = "Relu(x) -> a\n Relu(z) -> b\n Mul(a, b) -> y"
    assert [found["other"] for found in captures(net, MULTIPLY(RELU, "other"))] == ["a", "b"]


def test_numbers_are_weights_of_one_element() -> None:
    assert len(matches("Div(x, six) -> y", DIVIDE("x", 6))) == 1
    assert len(matches("Mul(sixth, x) -> y", MULTIPLY("x", 1 / 6))) == 1
    for net in ("Div(x, six) -> y", "Div(x, z) -> y", "Div(x, w) -> y", "Div(six, x) -> y"):
        assert not matches(net, DIVIDE("x", 1))


def test_a_weight_is_what_init_net_fills() -> None:
    assert captures("Conv(x, w) -> y", CONV(ANY, weight("filters"))) == [{"conv": "y", "filters": "w"}]
    assert not matches("Conv(x, z) -> y", CONV(ANY, weight()))


def test_an_omitted_operand_matches_only_any() -> None:
    net = 'armnet.FusedConv(x, w, "", z) -> y'
    fused = operator({"armnet.FusedConv"})
    assert len(matches(net, fused(ANY, ANY, ANY, "addend"))) == 1
    assert not matches(net, fused(ANY, ANY, "bias", "addend"))
    assert not matches(net, fused(ANY, ANY, ANY, "addend", "slope"))


def test_alternatives_are_tried_in_turn() -> None:
    net = "Sigmoid(x) -> a\n Relu(a) -> b\n Relu(b) -> y"
    assert [match.places for match in matches(net, RELU((SIGMOID, RELU)))] == [(0, 1), (1, 2)]
    assert [match.places for match in matches(net, RELU(RELU), RELU(SIGMOID), start=1)] == [(0, 1), (1, 2)]
    assert [match.places for match in matches(net, RELU(RELU), RELU(SIGMOID), start=2)] == [(1, 2)]


def test_where_tells_operators_of_one_type_apart() -> None:
    net = "Clip(x) -> a  max=6.0\n Clip(a) -> y  max=1.0"
    clip = operator({"Clip"}, where=lambda program, op: op.get_float("max") == 6)
    assert [match.places for match in matches(net, clip)] == [(0,)]


def test_an_operator_that_stays_is_captured_but_not_replaced() -> None:
    (match,) = matches("Sigmoid(x) -> a\n Relu(a) -> y", RELU(operator({"Sigmoid"}, "sigmoid", stays=True)("x")))
    assert (match.places, match.inner) == ((1,), ())
    assert match.captured["sigmoid"].output == ("a",)


@pytest.mark.parametrize("net", ["Relu(x) -> a\n Conv(a, a) -> y", "Relu(x) -> a, b\n Conv(a, b) -> y"])
def test_a_blob_that_vanishes_must_not_be_read_elsewhere_in_the_pattern(net: str) -> None:
    assert not matches(net, CONV(RELU))
