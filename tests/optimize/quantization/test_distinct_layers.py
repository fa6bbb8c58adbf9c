"""Layers of one name in several nets get names of their own, so that each has its line in the table."""

from __future__ import annotations

import numpy as np
import pytest

from optimize import quantize
from optimize.quantization import QuantizationReport
from optimize.quantization.distinct_layers import with_distinct_layers
from optimize.quantization.table import format_table, parse_table
from optimize.rewriting.program import Program
from runtime_arm import Predictor
from runtime_arm.netdef import Array
from runtime_arm.pair.pair import Pair
from tests.optimize.nets import pair_of

SIZE = 32
NET = """
    net "several": x, c, w, v, u, t, b -> y
    FC(x, w, b) -> d
    If(c) -> y  then_net={
        net "then": -> d_2
        FC(d, v, b) -> s
        Relu(s) -> d_2
    } else_net={
        net "else": -> z
        FC(d, u, b) -> s
        If(c) -> z  then_net={
            net "deeper": -> k
            Sum(s, s) -> k
        } else_net={
            net "deepest": -> m
            FC(s, t, b) -> d
            Relu(d) -> m
        }
    }
"""
RENAMED = """
    If(c) -> y  then_net={
        net "then": -> d_2
        FC(d, v, b) -> s
        Relu(s) -> d_2
    } else_net={
        net "else": -> z
        FC(d, u, b) -> s_1
        If(c) -> z  then_net={
            net "deeper": -> k
            Sum(s_1, s_1) -> k
        } else_net={
            net "deepest": -> m
            FC(s_1, t, b) -> d_1
            Relu(d_1) -> m
        }
    }
"""


def several(text: str = NET) -> Pair:
    rng = np.random.default_rng(1)
    values = {name: rng.standard_normal((SIZE, SIZE)).astype(np.float32) for name in "wvut"}
    values["b"] = rng.standard_normal(SIZE).astype(np.float32)
    pair = pair_of(text, values, {"x": (2, SIZE), "c": ()})
    return pair.replace(inputs=[info if info.name == "x" else type(info)("c", (), "bool") for info in pair.inputs])


def answers(pair: Pair) -> Array:
    x = np.random.default_rng(2).standard_normal((2, SIZE)).astype(np.float32)
    with Predictor(pair, threads=1) as predictor:
        return np.stack([predictor.run({"x": x, "c": np.array(c)})["y"] for c in (True, False)])


def test_what_layers_inside_write_gets_names_of_its_own() -> None:
    pair = several()
    named = with_distinct_layers(Program.of(pair))
    expected = NET[: NET.index("If(c)")] + RENAMED.strip()
    assert named.net == several(expected).predict_net
    np.testing.assert_array_equal(answers(named.pair(pair)), answers(pair))
    assert with_distinct_layers(named).net == named.net


BY_NAME = """
    net "by_name": x, c, w, v, b -> y
    If(c) -> y  then_net={
        net "then": -> y
        FC(x, w, b) -> y
    } else_net={
        net "else": -> y
        FC(x, v, b) -> y
    }
"""


def test_a_branch_that_hands_out_a_blob_by_name_does_so_by_position() -> None:
    pair = several(BY_NAME)
    named = with_distinct_layers(Program.of(pair))
    start, end = BY_NAME.split('net "else"')
    expected = start + 'net "else"' + end.replace("y", "y_1", 2)
    assert named.net == several(expected).predict_net
    np.testing.assert_array_equal(answers(named.pair(pair)), answers(pair))
    assert with_distinct_layers(named).net == named.net
    report = QuantizationReport()
    quantize(pair, None, report=report)
    assert sorted(row.layer for row in report.layers) == ["FC y", "FC y_1"]


@pytest.mark.parametrize("branch", ["FC(x, v, b) -> y\n FC(y, v, b) -> y", "FC(y, v, b) -> y"])
def test_a_branch_that_writes_over_a_blob_keeps_its_name(branch: str) -> None:
    text = BY_NAME.replace("FC(x, v, b) -> y", branch).replace("If(c)", "Relu(x) -> y\n If(c)")
    program = Program.of(several(text))
    assert with_distinct_layers(program).net == program.net


def test_a_line_of_the_table_belongs_to_one_layer() -> None:
    report = QuantizationReport()
    everything = quantize(several(), None, report=report)
    table = parse_table(format_table((row.layer, row.choice) for row in report.layers))
    assert len(table) == len(report.layers) == 4
    for layer, row in table.items():
        again = QuantizationReport()
        kept = quantize(several(), None, table={**table, layer: row._replace(weights="float32")}, report=again)
        assert [one.layer for one in again.layers if one.choice.weights == "float32"] == [layer]
        assert len(kept.init_net.to_bytes()) > len(everything.init_net.to_bytes())
