"""Weights that only nets inside an operator read are packed, too; answers are those of the packed numbers."""

from __future__ import annotations

from typing import Dict, List

import numpy as np
import pytest

from optimize import quantize
from optimize.quantization import QuantizationReport
from optimize.quantization.table import format_table, parse_table
from optimize.rewriting.unpacking import LOAD, RUN, unpacked_nbytes, with_unpacking
from runtime_arm import Predictor
from runtime_arm.netdef import Array
from runtime_arm.pair.pair import Pair
from tests.optimize.nets import pair_of

SIZE = 32
CHOICE = """
    net "choice": x, c, w, v, both, b -> y
    Relu(x) -> a
    If(c) -> y  then_net={{
        net "then": -> z
        FC(a, w, b) -> d
        FC(d, {then}, b) -> z
    }} else_net={{
        net "else": -> z
        Sigmoid(a) -> e
        FC(e, {orelse}, b) -> z
    }}
"""


def choice(then: str, orelse: str, net: str = CHOICE) -> Pair:
    rng = np.random.default_rng(1)
    values = {name: rng.standard_normal((SIZE, SIZE)).astype(np.float32) for name in ("w", "v", "both")}
    values["b"] = rng.standard_normal(SIZE).astype(np.float32)
    text = net.format(then=then, orelse=orelse)
    pair = pair_of(text, values, {"x": (2, SIZE), "c": ()})
    return pair.replace(inputs=[info if info.name == "x" else type(info)("c", (), "bool") for info in pair.inputs])


def answers(pair: Pair) -> List[Array]:
    x = np.random.default_rng(2).standard_normal((2, SIZE)).astype(np.float32)
    with Predictor(pair, threads=1) as predictor:
        return [predictor.run({"x": x, "c": np.array(c)})["y"] for c in (True, False, True)]


def unpackers(pair: Pair) -> Dict[str, int]:
    """How many operators unpack weights in the net, and in each branch."""
    nets = {"": pair.predict_net}
    for op in pair.predict_net.op:
        nets.update({net.name: net for net in op.subnets()})
    return {name: sum(op.type == "DequantizeLinear" for op in net.op) for name, net in nets.items()}


@pytest.mark.parametrize(
    ("then", "orelse", "where"),
    [("v", "both", {"": 0, "then": 2, "else": 1}), ("both", "both", {"": 1, "then": 1, "else": 0})],
)
def test_a_weight_of_one_branch_is_unpacked_in_it(then: str, orelse: str, where: Dict[str, int]) -> None:
    report = QuantizationReport()
    pair = choice(then, orelse)
    small = quantize(pair, None, report=report)
    assert unpackers(small) == where
    assert {row.choice.weights for row in report.layers} == {"int8"}
    assert len(small.init_net.to_bytes()) < 0.4 * len(pair.init_net.to_bytes())


@pytest.mark.parametrize(("then", "orelse"), [("v", "both"), ("both", "both")])
def test_branches_compute_with_the_numbers_that_are_stored(then: str, orelse: str) -> None:
    """The same nets with those numbers as float weights give the same bits, whenever weights are unpacked."""
    small = quantize(choice(then, orelse), None)
    at_load = answers(small)
    each_run = answers(small.replace(predict_net=with_unpacking(small.predict_net, RUN)))
    for one, other, original in zip(at_load, each_run, answers(choice(then, orelse))):
        np.testing.assert_array_equal(one, other)
        assert 0 < np.abs(one - original).max() < 0.1 * np.abs(original).max()


def test_when_branches_unpack_is_a_choice() -> None:
    small = quantize(choice("v", "both"), None)
    each_run = with_unpacking(small.predict_net, RUN)
    (op,) = (op for op in each_run.op if op.type == "If")
    packed = [inner for net in op.subnets() for inner in net.op if inner.type == "DequantizeLinear"]
    assert [inner.get_bool("each_run") for inner in packed] == [True] * 3
    assert with_unpacking(each_run, LOAD) == small.predict_net
    assert unpacked_nbytes(small) == 3 * SIZE * SIZE * 4


def test_layers_of_dynamic_range_inside_stay_so() -> None:
    small = quantize(choice("v", "both"), None, activations="dynamic")
    inside = [inner.full_type for op in small.predict_net.op for net in op.subnets() for inner in net.op]
    assert inside == ["tflite.HybridFullyConnected"] * 2 + ["Sigmoid", "tflite.HybridFullyConnected"]


def test_layers_inside_are_those_of_the_table() -> None:
    pair, report = choice("v", "both"), QuantizationReport()
    quantize(pair, None, report=report)
    table = parse_table(format_table((row.layer, row.choice) for row in report.layers))
    table["FC d"] = table["FC d"]._replace(weights="float32")
    small = quantize(pair, None, table=table)
    assert unpackers(small)["then"] == 1


def test_a_layer_inside_keeps_its_own_numbers_whatever_its_name() -> None:
    """Samples round the net's layer of that name, which another one inside is not."""
    text = CHOICE.replace("Relu(x) -> a", "FC(x, w, b) -> d\n    Relu(d) -> a").replace("FC(a, w, b)", "FC(a, v, b)")
    pair = choice("both", "both", text)
    samples = [
        {"x": x, "c": np.array(True)} for x in np.random.default_rng(4).standard_normal((12, 2, SIZE), np.float32)
    ]
    report = QuantizationReport()
    small = quantize(pair, samples, report=report)
    assert [(row.layer, bool(row.steps)) for row in report.layers] == [
        ("FC d", True),
        ("FC d_1", False),
        ("FC z", False),
    ]
    for one, original in zip(answers(small), answers(pair)):
        assert np.abs(one - original).max() < 0.1 * np.abs(original).max()


def test_bodies_of_loops_read_what_is_unpacked_outside() -> None:
    text = """
        net "loop": x, n, go, w, b -> y
        onnx.Loop(n, go, x) -> y  body={
            net "body": i, on, h -> on, k
            FC(h, w, b) -> k
        }
    """
    rng = np.random.default_rng(3)
    values = {"w": rng.standard_normal((SIZE, SIZE)).astype(np.float32) / 8, "b": np.zeros(SIZE, np.float32)}
    values.update({"n": np.array(3), "go": np.array(True)})
    pair = pair_of(text, values, {"x": (1, SIZE)})
    small = quantize(pair, None)
    assert "DequantizeLinear" in {op.type for op in small.predict_net.op}
    x = {"x": np.ones((1, SIZE), np.float32)}
    with Predictor(pair, threads=1) as one, Predictor(small, threads=1) as other:
        wanted, found = one.run(x)["y"], other.run(x)["y"]
    assert 0 < np.abs(wanted - found).max() < 0.1 * np.abs(wanted).max()
