"""The verifier finds plans that are wrong, whatever is wrong with them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from runtime_arm.executor import Executor
from runtime_arm.netdef import NetDef
from runtime_arm.plan import Segment
from runtime_arm.verify import BrokenPlan, verify
from tests.support.random_nets import RandomNet, random_nets

NET = """
    net "test": x, w -> y
    Conv(x, w) -> a  kernel=1
    Relu(a) -> b
    Sigmoid(b) -> c
    Concat(b, c) -> d, _1  axis=1
    Reshape(d) -> e, _2  shape=[1, -1]
    Softmax(e) -> f
    Split(f) -> g, h  axis=1
    Add(g, h) -> y
"""


def compiled() -> Segment:
    weights = {"w": np.ones((4, 4, 1, 1), np.float32)}
    feeds = {"x": np.zeros((1, 4, 16, 16), np.float32)}
    return Executor(NetDef.from_text(NET), weights).plan_for(feeds, ["y"])


def test_what_the_planner_makes_is_right() -> None:
    segment = compiled()
    verify(segment)
    assert [step.op.type for step in segment.running] == ["Conv", "Relu", "Sigmoid", "Softmax", "Add"]


def moved(segment: Segment, name: str, onto: str) -> None:
    """Let a blob begin where another does."""
    value, other = segment.env[name], segment.env[onto].array
    begin = np.lib.stride_tricks.as_strided(other.reshape(-1), (value.spec.size,), (value.spec.dtype.itemsize,))
    value.bind(begin.reshape(value.spec.shape))


@pytest.mark.parametrize(
    ("name", "onto", "complaint"),
    [
        ("c", "b", r"Concat\(b, c\) -> d, _1: 'c' does not lie where it should"),
        ("a", "x", r"Conv\(x, w\) -> a: output 'a' overwrites 'x'"),
        ("e", "x", r"Reshape\(d\) -> e, _2: 'e' does not lie where it should"),
        ("g", "h", r"Split\(f\) -> g, h: 'g' does not lie where it should"),
        ("f", "c", r"Softmax\(e\) -> f: output 'f' over(writes|laps) '(e|scratch)'"),
    ],
)
def test_a_blob_that_lies_where_another_lives_is_found(name: str, onto: str, complaint: str) -> None:
    segment = compiled()
    moved(segment, name, onto)
    with pytest.raises(BrokenPlan, match=complaint):
        verify(segment)


def test_scratch_that_overlaps_a_blob_is_found() -> None:
    segment = compiled()
    conv = segment.running[0]
    conv.buffers = [segment.env["x"].array]
    with pytest.raises(BrokenPlan, match=r"Conv\(x, w\) -> a: 'x' is not .*: scratch of Conv\(x, w\) -> a wrote"):
        verify(segment)
    conv.buffers = [segment.env["a"].array]
    with pytest.raises(BrokenPlan, match="output 'a' overlaps 'scratch'"):
        verify(segment)


def test_a_blob_that_is_overwritten_before_it_is_read_is_found() -> None:
    net = NetDef.from_text('net "": x -> y\n Relu(x) -> a\n Sigmoid(a) -> b\n Tanh(a) -> c\n Sum(a, b, c) -> y')
    segment = Executor(net, {}).plan_for({"x": np.zeros((64, 64), np.float32)}, ["y"])
    segment.env["c"].bind(segment.env["b"].array)
    with pytest.raises(BrokenPlan, match=r"Sum\(a, b, c\) -> y: 'b' is not in its memory: Tanh\(a\) -> c wrote there"):
        verify(segment)


def test_a_fetched_blob_must_survive() -> None:
    net = NetDef.from_text('net "": x -> y, a\n Relu(x) -> a\n Sigmoid(a) -> y')
    segment = Executor(net, {}).plan_for({"x": np.zeros((64, 64), np.float32)}, ["y", "a"])
    segment.env["y"].bind(segment.env["a"].array)
    with pytest.raises(BrokenPlan, match=r"what is fetched: 'a' is not in its memory: Sigmoid\(a\) -> y wrote there"):
        verify(segment)


def test_a_step_that_was_dropped_is_found() -> None:
    segment = compiled()
    segment.running.remove(segment.running[1])
    with pytest.raises(BrokenPlan, match=r"Relu.*nothing runs for it"):
        verify(segment)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(random_nets(most_operators=16))
def test_random_nets_are_planned_right(drawn: RandomNet) -> None:
    """Compiling verifies; the results of several runs are the same."""
    executor = Executor(drawn.net, drawn.weights)
    runs = [executor.run(drawn.feed(seed), drawn.net.external_output) for seed in (0, 1, 0)]
    for name in drawn.net.external_output:
        np.testing.assert_array_equal(runs[0][name], runs[2][name])
