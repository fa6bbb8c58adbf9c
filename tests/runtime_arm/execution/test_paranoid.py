"""A paranoid run accepts sound plans, and finds unsound ones and kernels that rely on former content of memory."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Sequence

import numpy as np
import pytest
from hypothesis import given, settings

from device_tests.suite.tolerance import assert_each_close
from runtime_arm.errors import UsageError
from runtime_arm.execution.paranoid import run_paranoid
from runtime_arm.execution.predictor import Predictor
from runtime_arm.netdef import NetDef
from runtime_arm.pair.fills import fill
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from runtime_arm.planning import plan
from runtime_arm.planning.memory_sharing import MemoryPlan, plan_memory
from runtime_arm.planning.steps import Step, Value
from runtime_arm.planning.verify import BrokenPlan
from runtime_arm.registry.kernel import Call, Kernel, Run
from runtime_arm.registry.schema import lookup
from runtime_arm.registry.specs import TensorSpec
from tests.support.random_nets import TILED, RandomNet, random_nets
from tests.support.tiles import tiles_everywhere

CHAIN = 'net "": x -> y\n Exp(x) -> a\n Transpose(a) -> b\n Exp(b) -> c\n Transpose(c) -> d\n Add(d, a) -> y'
X = {"x": np.arange(6, dtype=np.float32).reshape(2, 3) / 6}


def pair_of(text: str) -> Pair:
    return Pair(NetDef(), NetDef.from_text(text), (TensorInfo("x", (2, 3), "float32"),)).check()


@settings(max_examples=100)
@given(random_nets())
def test_sound_plans_pass(drawn: RandomNet) -> None:
    assert_stands(drawn)


@settings(max_examples=50)
@given(random_nets(20, TILED))
def test_sound_plans_with_slices_pass(drawn: RandomNet) -> None:
    with tiles_everywhere():
        assert_stands(drawn)


def assert_stands(drawn: RandomNet) -> None:
    result = run_paranoid(drawn.pair(), drawn.feed())
    assert list(result.outputs) == list(drawn.net.external_output)
    assert all(np.isfinite(output).all() for output in result.outputs.values())


def test_it_poisons_what_is_free_and_says_how_much() -> None:
    result = run_paranoid(pair_of(CHAIN), X)
    assert_each_close(result.outputs["y"], np.exp(np.exp(X["x"]).T).T + np.exp(X["x"]))
    assert result.steps == 5
    assert result.nbytes > 0
    assert "before 5 steps; the outputs equal those of a run without a memory plan" in str(result)


def test_a_plan_that_frees_too_early_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_early(steps: Sequence[Step], feeds: Sequence[Value]) -> MemoryPlan:
        layout = plan_memory(steps, feeds)
        for a in (value for step in steps for value in step.outputs if value.name == "a" and value.last < len(steps)):
            a.last -= 1
        return layout

    monkeypatch.setattr(plan, "plan_memory", too_early)
    with pytest.raises(BrokenPlan, match="output 'y' in poisoned memory differs"):
        run_paranoid(pair_of(CHAIN), X)


def test_a_kernel_that_relies_on_the_content_of_its_scratch_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = pair_of('net "": x -> y\n Relu(x) -> y')

    def bind(call: Call) -> Run:
        def run() -> None:
            np.maximum(call.inputs[0], 0, out=call.outputs[0])
            np.add(call.outputs[0], call.scratch[0], out=call.outputs[0])
            call.scratch[0].fill(0)

        return run

    def scratch(op: Any, inputs: Any, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
        return outputs

    kernels = lookup(pair.predict_net.op[0]).kernels
    monkeypatch.setitem(kernels, "NUMPY", Kernel("NUMPY", bind, scratch=scratch))
    with pytest.raises(BrokenPlan, match="output 'y'"):
        run_paranoid(pair, X)


def test_state_is_carried_and_other_segments_are_poisoned_too() -> None:
    state = Pair.from_nets(
        NetDef("init", (fill("s", np.ones((2, 3), np.float32)),)),
        NetDef.from_text('net "": x, s -> y\n Add(x, s) -> a\n Exp(a) -> y\n Copy(a) -> s'),
    )
    assert_each_close(run_paranoid(state, X).outputs["y"], np.exp(2 * X["x"] + 1))
    border = pair_of('net "": x -> y\n Exp(x) -> a\n onnx.NonZero(a) -> b\n Cast(b) -> c  to=1\n Exp(c) -> y')
    assert run_paranoid(border, X).outputs["y"].shape == (2, 6)


def test_parts_and_views_of_an_earlier_segments_values_are_not_poisoned() -> None:
    net = pair_of("""net "": x -> y, v
        Exp(x) -> a
        onnx.NonZero(a) -> b
        Cast(b) -> c  to=1
        Split(a) -> d, e  axis=0  split=[1, 1]
        Reshape(a) -> v, _  shape=[3, 2]
        Exp(c) -> f
        Add(d, e) -> y""")
    assert_each_close(run_paranoid(net, X).outputs["y"], np.exp(X["x"]).sum(axis=0, keepdims=True), terms=2)


def test_a_scalar_may_lie_where_tiles_lay() -> None:
    net = NetDef.from_text("""net "": x, w -> y
        Conv(x, w) -> a  kernel=3  pad=1
        Conv(a, w) -> b  kernel=3  pad=1
        ResizeNearest(b) -> c  width_scale=4.0  height_scale=4.0
        ReduceSum(c) -> d  axes=[0, 1, 2, 3]  keepdims=0
        Add(c, d) -> y  broadcast=1""")
    weights = NetDef("init", (fill("w", np.full((16, 16, 3, 3), 1e-3, np.float32)),))
    pair = Pair(weights, net, (TensorInfo("x", (1, 16, 4, 4), "float32"),)).check()
    with tiles_everywhere():
        result = run_paranoid(pair, {"x": np.ones((1, 16, 4, 4), np.float32)})
    assert result.outputs["y"].shape == (1, 16, 16, 16)


@pytest.mark.parametrize(
    "net",
    [
        'net "": x -> y\n UniformFill() -> y  shape=[2, 3]',
        """net "": x -> z
        onnx.IsNaN(x) -> which
        ReduceMax(which) -> any  axes=[0, 1]  keepdims=0
        If(any) -> z  then_net={
        net "": -> x
        }  else_net={
        net "": -> y
        UniformFill() -> y  shape=[2, 3]
        }""",
    ],
)
def test_a_net_that_draws_random_numbers_is_refused(net: str) -> None:
    with pytest.raises(UsageError, match=r"UniformFill\(\) -> y: its results differ from run to run"):
        run_paranoid(pair_of(net), X)


def test_sequences_and_optional_values_are_the_same_in_each_run() -> None:
    result = run_paranoid(
        pair_of("""net "": x -> y, none, z
        Exp(x) -> a
        onnx.SequenceConstruct(a, x) -> y
        onnx.Optional() -> none
        onnx.Optional(y) -> some
        onnx.OptionalGetElement(some) -> same
        onnx.ConcatFromSequence(same) -> joined  axis=0
        Dropout(joined) -> kept  is_test=1
        onnx.Dropout(kept) -> z"""),
        X,
    )
    assert_each_close(result.outputs["z"], np.concatenate([np.exp(X["x"]), X["x"]]))
    assert len(result.outputs["y"]) == 2
    assert result.outputs["none"] is None


@pytest.mark.parametrize(
    ("outputs", "same"),
    [
        (([X["x"]], [X["x"]]), True),
        (([X["x"]], [X["x"] + 1]), False),
        (([X["x"]], [X["x"], X["x"]]), False),
        (([X["x"]], X["x"]), False),
        ((None, None), True),
        ((None, X["x"]), False),
    ],
)
def test_sequences_and_optional_values_are_compared(
    monkeypatch: pytest.MonkeyPatch, outputs: Sequence[Any], same: bool
) -> None:
    poisoned, unplanned = outputs
    monkeypatch.setattr(Predictor, "run", lambda self, feeds, keep=None: {"y": poisoned if keep is None else unplanned})
    with nullcontext() if same else pytest.raises(BrokenPlan, match="output 'y' in poisoned memory differs"):
        run_paranoid(pair_of(CHAIN), X)
