"""A sequence that grows is planned by the decisions of the plan before."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_close
from runtime_arm.execution.executor import Executor
from runtime_arm.netdef import NetDef
from runtime_arm.planning import plan, trace
from runtime_arm.planning.arena import place, room_for
from runtime_arm.planning.memory_sharing import MemoryPlan, plan_memory, plan_memory_again
from runtime_arm.registry.shape_inference import infer_operator

NET = NetDef.from_text(
    """net "cache": x, past, more -> y, whole
    Relu(x) -> a
    Exp(a) -> b
    Concat(past, b) -> whole, _  axis=1
    Split(whole) -> c, d  axis=2  split=[3, 1]
    Concat(c, more) -> e, _  axis=1
    Add(e, e) -> f
    Relu(f) -> g
    Exp(g) -> y"""
)


def feeds(length: int) -> Dict[str, Any]:
    rng = np.random.default_rng(length)
    shapes = {"x": (1, 1, 4), "past": (1, length, 4), "more": (1, 2, 3)}
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def test_decisions_are_made_again_when_the_blobs_have_grown(monkeypatch: pytest.MonkeyPatch) -> None:
    made: List[int] = []

    def counted(steps: Any, given: Any) -> MemoryPlan:
        made.append(len(steps))
        return plan_memory(steps, given)

    monkeypatch.setattr(plan, "plan_memory", counted)
    executor, names = Executor(NET, {}), ["y", "whole"]
    for length, plans in ((64, 1), (65, 1), (66, 1), (68, 1), (90, 2), (91, 2), (60, 3), (61, 3)):
        given = feeds(length)
        results = executor.run(given, names)
        assert len(made) == plans, length
        for name, expected in Executor(NET, {}).run(given, names).items():
            np.testing.assert_array_equal(results[name], expected)
        made[plans:] = []


def test_blobs_that_grow_a_little_stay_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    placed: List[int] = []
    monkeypatch.setattr(plan, "place", lambda groups: (placed.append(0), place(groups))[1])
    monkeypatch.setattr(plan, "room_for", lambda groups, before: (placed.append(1), room_for(groups, before))[1])
    net = NetDef.from_text('net "grows": x -> y\nExp(x) -> a\nMatMul(a, x) -> b  trans_b=1\nMatMul(b, a) -> y')
    executor, sizes = Executor(net, {}), []
    for length in (256, 257, 258, 259, 262, 264, 261):
        x = np.random.default_rng(length).standard_normal((length, 64)).astype(np.float32)
        wide = x.astype(np.float64)
        exact, magnitude = (np.exp(wide) @ factor.T @ np.exp(wide) for factor in (wide, np.abs(wide)))
        results = executor.run({"x": x}, ["y"])
        assert_close(results["y"], exact.astype(np.float32), terms=64 + length, magnitude=magnitude)
        layout = executor.plans()[-1].layout
        assert layout.least_nbytes <= layout.nbytes
        sizes.append(layout.nbytes)
    assert placed == [0, 1]  # of the first plan by the decisions, and of the one that sees what grows
    assert len(set(sizes[2:])) == 1
    assert sizes[2] <= sizes[0] * 1.15


def test_operators_with_the_same_inputs_are_not_traced_again(monkeypatch: pytest.MonkeyPatch) -> None:
    net = NetDef.from_text(
        """net "mixed": x, past, w -> y, z
        MatMul(x, w) -> a
        Relu(a) -> y
        Shape(past) -> s
        Cast(s) -> t  to=1
        Add(past, t) -> z"""
    )
    traced: List[str] = []
    monkeypatch.setattr(
        trace, "infer_operator", lambda op, specs: (traced.append(op.type), infer_operator(op, specs))[1]
    )
    executor = Executor(net, {"w": np.eye(3, dtype=np.float32)})
    for past, expected in ((2, 5), (3, 3), (3, 0)):
        traced.clear()
        given = {"x": np.ones((1, 3), np.float32), "past": np.zeros(past, np.float32)}
        results = executor.run(given, ["y", "z"])
        assert len(traced) == expected
        np.testing.assert_array_equal(results["z"], np.full(past, past, np.float32))


@pytest.mark.parametrize("length", [1, 7, 64])
def test_the_same_decisions_make_the_same_plan(length: int) -> None:
    segment = Executor(NET, {}).plan(feeds(length), ["y", "whole"])
    again = plan_memory_again(segment.steps, segment.feeds, segment.layout.decisions)
    assert again == segment.layout
    assert again.elided
