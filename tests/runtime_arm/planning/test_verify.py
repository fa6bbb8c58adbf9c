"""The verifier finds plans that are wrong, whatever is wrong with them."""

from __future__ import annotations

from typing import Tuple

import numpy as np
import pytest
from hypothesis import given, settings

from runtime_arm.execution.executor import Executor
from runtime_arm.netdef import NetDef
from runtime_arm.planning.plan import Segment
from runtime_arm.planning.steps import Step
from runtime_arm.planning.verify import BrokenPlan
from tests.support.random_nets import RandomNet, random_nets
from tests.support.tiles import tiles_everywhere

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
    return Executor(NetDef.from_text(NET), weights).plan(feeds, ["y"])


def test_a_plan_of_the_planner_is_accepted() -> None:
    segment = compiled()
    segment.verify()
    assert [step.op.type for step in segment.running] == ["Conv", "Relu", "Sigmoid", "Softmax", "Add"]


def moved(segment: Segment, name: str, onto: str) -> None:
    """Let a blob begin at the address of another."""
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
        segment.verify()


def test_a_constant_that_moved_to_where_a_step_writes_is_found() -> None:
    """Addresses of constants are looked up once, not once in each segment; but again when one has moved."""
    segment = compiled()
    segment.verify()
    moved(segment, "w", "f")
    with pytest.raises(BrokenPlan, match="overwrites 'w', which lives on"):
        segment.verify()


def test_scratch_that_overlaps_a_blob_is_found() -> None:
    segment = compiled()
    conv = segment.running[0]
    conv.buffers = [segment.env["x"].array]
    with pytest.raises(BrokenPlan, match=r"Conv\(x, w\) -> a: 'x' is not .*: scratch of Conv\(x, w\) -> a wrote"):
        segment.verify()
    conv.buffers = [segment.env["a"].array]
    with pytest.raises(BrokenPlan, match="output 'a' overlaps 'scratch'"):
        segment.verify()


def test_a_blob_that_is_overwritten_before_it_is_read_is_found() -> None:
    net = NetDef.from_text('net "": x -> y\n Relu(x) -> a\n Sigmoid(a) -> b\n Tanh(a) -> c\n Sum(a, b, c) -> y')
    segment = Executor(net, {}).plan({"x": np.zeros((64, 64), np.float32)}, ["y"])
    segment.env["c"].bind(segment.env["b"].array)
    with pytest.raises(BrokenPlan, match=r"Sum\(a, b, c\) -> y: 'b' is not in its memory: Tanh\(a\) -> c wrote there"):
        segment.verify()


def test_a_fetched_blob_must_survive() -> None:
    net = NetDef.from_text('net "": x -> y, a\n Relu(x) -> a\n Sigmoid(a) -> y')
    segment = Executor(net, {}).plan({"x": np.zeros((64, 64), np.float32)}, ["y", "a"])
    segment.env["y"].bind(segment.env["a"].array)
    with pytest.raises(BrokenPlan, match=r"what is fetched: 'a' is not in its memory: Sigmoid\(a\) -> y wrote there"):
        segment.verify()


def test_a_step_that_was_dropped_is_found() -> None:
    segment = compiled()
    segment.running.remove(segment.running[1])
    with pytest.raises(BrokenPlan, match=r"Relu.*nothing runs for it"):
        segment.verify()


FIRE = """
    net "fire": x, u, v, w -> y
    Conv(x, u) -> a  kernel=1
    Conv(x, v) -> b  kernel=1
    Concat(a, b) -> c, _1  axis=1
    Conv(c, w) -> y  kernel=1
"""


def in_slices() -> Tuple[Segment, Step, Step, Step]:
    """A segment in which "a" is channels 0..2 of "c" and "b" is 3..7, and the steps that make them."""
    shapes = {"u": (3, 4, 1, 1), "v": (5, 4, 1, 1), "w": (8, 8, 1, 1)}
    weights = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    with tiles_everywhere():
        segment = Executor(NetDef.from_text(FIRE), weights).plan({"x": np.zeros((1, 4, 9, 9), np.float32)}, ["y"])
    a, b, c = (next(step for step in segment.steps if step.op.output[0] == name) for name in "abc")
    assert c not in segment.running
    assert a.outputs[0].array.strides == c.outputs[0].array.strides
    return segment, a, b, c


def test_a_slice_that_is_a_channel_away_is_found() -> None:
    segment, a, b, c = in_slices()
    for step, first, last in ((b, 2, 7), (a, 1, 4)):
        step.outputs[0].bind(c.outputs[0].array[..., first:last])
        with pytest.raises(BrokenPlan, match=f"-> c, _1: '{step.op.output[0]}' does not lie where it should"):
            segment.verify()


def test_slices_of_which_one_spoils_the_other_are_found() -> None:
    """Slices of a whole that no step joins."""
    segment, a, b, c = in_slices()
    segment.steps, segment.survivors = segment.steps[: segment.steps.index(c)], {"a", "b"}
    segment.env.update(a=a.outputs[0], b=b.outputs[0])
    segment.verify()
    b.outputs[0].bind(c.outputs[0].array[..., 2:7])
    with pytest.raises(BrokenPlan, match=r"what is fetched: 'a' is not in its memory: Conv\(x, v\) -> b wrote there"):
        segment.verify()


def test_overlapping_or_scattered_positions_are_found() -> None:
    segment, a, _, c = in_slices()
    array, whole = a.outputs[0].array, c.outputs[0].array
    near = (array.strides[0], array.strides[1], array.strides[2] - 4, 4)
    a.outputs[0].bind(np.lib.stride_tricks.as_strided(whole, array.shape, near))
    with pytest.raises(BrokenPlan, match=r"Conv\(x, u\) -> a: 'a' lies in pieces"):
        segment.verify()
    a.outputs[0].bind(whole[..., :6:2])
    with pytest.raises(BrokenPlan, match="'a' lies in pieces"):
        segment.verify()


def test_a_kernel_that_cannot_handle_slices_is_found() -> None:
    segment, a, _, c = in_slices()
    assert a.kernel is not None
    a.kernel = a.kernel._replace(writes_slices=False)
    with pytest.raises(BrokenPlan, match=r"Conv\(x, u\) -> a: 'a' is a slice, which POINTWISE cannot handle"):
        segment.verify()
    segment, a, _, c = in_slices()
    segment.running.append(c)
    c.kernel = None
    with pytest.raises(BrokenPlan, match=r"Concat\(a, b\) -> c, _1: 'a' is a slice, which REFERENCE cannot handle"):
        segment.verify()


def test_a_joined_part_may_lie_in_place_or_elsewhere_but_not_misplaced_in_the_whole() -> None:
    segment, a, b, c = in_slices()
    segment.running.append(c)
    segment.verify()
    b.outputs[0].bind(np.empty(b.outputs[0].storage.shape, np.float32))
    segment.verify()
    a.outputs[0].bind(c.outputs[0].array[..., 1:4])
    with pytest.raises(BrokenPlan, match=r"Concat\(a, b\) -> c, _1: output 'c' overwrites 'a'"):
        segment.verify()


def test_constants_are_not_overwritten() -> None:
    segment, a, _, _ = in_slices()
    weights = segment.env["w"].array
    a.outputs[0].bind(np.lib.stride_tricks.as_strided(weights, a.outputs[0].storage.shape))
    with pytest.raises(BrokenPlan, match=r"Conv\(x, u\) -> a overwrites 'w', which lives on"):
        segment.verify()


@settings(max_examples=100)
@given(random_nets(most_operators=16))
def test_random_nets_are_planned_right(drawn: RandomNet) -> None:
    """Compiling verifies; the results of several runs are the same."""
    executor = Executor(drawn.net, drawn.weights)
    runs = [executor.run(drawn.feed(seed), drawn.net.external_output) for seed in (0, 1, 0)]
    for name in drawn.net.external_output:
        np.testing.assert_array_equal(runs[0][name], runs[2][name])
