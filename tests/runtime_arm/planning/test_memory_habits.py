"""A sequence that grows is planned by the decisions of the plan before."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np
import pytest

from runtime_arm.execution.executor import Executor
from runtime_arm.netdef import NetDef
from runtime_arm.planning import plan
from runtime_arm.planning.memory_sharing import MemoryPlan, plan_memory, plan_memory_again

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


@pytest.mark.parametrize("length", [1, 7, 64])
def test_the_same_decisions_make_the_same_plan(length: int) -> None:
    segment = Executor(NET, {}).plan(feeds(length), ["y", "whole"])
    again = plan_memory_again(segment.steps, segment.feeds, segment.layout.decisions)
    assert again == segment.layout
    assert again.elided
