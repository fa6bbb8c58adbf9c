"""Loops and sequences are taken apart before anything else, as far as the numbers of trips and elements are known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from optimize import Report, optimize
from optimize.rewriting.program import Program
from optimize.rewriting.report import Recorder, operator_counts
from optimize.untangling import untangled
from tests.optimize import kinds
from tests.optimize.nets import ENOUGH, assert_same_numbers, pair_of, pair_of_net
from tests.support.random_nets import DATA_DEPENDENT, KINDS, RandomNet, random_nets

X = np.random.default_rng(9).standard_normal((2, 6)).astype(np.float32)
# What PyTorch's older exporter makes of ``[x[:, i] for i in range(3)]``, each part behind the one before.
LIST = """
    net "": x, three, yes -> y
    onnx.SequenceEmpty() -> s
    onnx.Loop(three, yes, s) -> t  body={
        net "body": i, go, had -> go, has
        Gather(x, i) -> part  axis=1
        onnx.SequenceInsert(had, part) -> has
    }
    onnx.SequenceLength(t) -> n
    onnx.SequenceEmpty() -> u
    onnx.Loop(n, yes, u) -> v  body={
        net "body": i, go, had -> go, has
        onnx.SequenceAt(t, i) -> part
        Relu(part) -> big
        onnx.SequenceInsert(had, big) -> has
    }
    onnx.ConcatFromSequence(v) -> y  axis=-1 new_axis=1"""
WEIGHTS = {"three": np.array(3), "yes": np.array(True)}


@pytest.mark.parametrize("rows", [2, "rows"])
def test_lists_leave_no_trace(rows: object) -> None:
    pair = pair_of(LIST, WEIGHTS, {"x": (rows, 6)})
    result = optimize(pair)
    assert not any("Sequence" in type or "Loop" in type for type in operator_counts(result.predict_net))
    assert optimize(result) == result
    for batch in (2, 5):
        if batch == 2 or rows != 2:
            x = np.random.default_rng(batch).standard_normal((batch, 6)).astype(np.float32)
            assert_same_numbers(pair, result, {"x": x})


def test_inner_loops_are_unrolled_first() -> None:
    inner = 'onnx.Loop(three, yes, h) -> out  body={\n net "inner": j, on, g -> on, r\n Sigmoid(g) -> r\n }'
    body = f'net "body": i, go, h -> go, out\n {inner}\n'
    net = f'net "": x, three, yes -> y\n onnx.Loop(three, yes, x) -> y  body={{\n {body} }}'
    pair = pair_of(net, WEIGHTS, {"x": (2, 6)})
    result = optimize(pair)
    assert operator_counts(result.predict_net) == {"Sigmoid": 9}
    assert_same_numbers(pair, result, {"x": X})


def test_nets_without_known_trips_stay_as_they_are() -> None:
    pair, report = pair_of(LIST, {"yes": np.array(True)}, {"x": (2, 6)}), Report()
    assert untangled(pair, pair.inputs, {}, Recorder(report))[0] is pair
    assert not report.steps


def test_random_nets_compute_the_same_bit_for_bit() -> None:
    changed = 0

    @settings(max_examples=80, derandomize=True)
    @given(random_nets(kinds=[*KINDS, *[kinds.looping, kinds.listing] * 6, *DATA_DEPENDENT]))
    def check(drawn: RandomNet) -> None:
        nonlocal changed
        pair, report = pair_of_net(drawn.net, drawn.weights, {"x": drawn.shape}), Report()
        result, program = untangled(pair, pair.inputs, {}, Recorder(report))
        assert program.net == Program.of(result).net
        assert program.known_specs == Program.of(result).known_specs
        changed += bool(report.steps)
        assert_same_numbers(pair, result, drawn.feed())
        assert untangled(result, pair.inputs, {}, Recorder())[0] is result

    check()
    assert changed >= ENOUGH
