"""Plans of the stand-in for caffe2; the results are Caffe2's."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List

import numpy as np
import pytest

pytest.importorskip("google.protobuf", reason="nets are written as messages")

from armnet.standins.caffe2.python import core, workspace

STOP = core.BlobReference("stop")


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    workspace.ResetWorkspace()
    for name in "ab":
        workspace.FeedBlob(name, np.zeros(1, np.float32))
    workspace.FeedBlob("stop", np.zeros(1, np.bool_))
    yield
    workspace.ResetWorkspace()


def adds(blob: str, by: float = 1.0, limit: float = 0.0) -> Any:
    """A net that adds to a blob, and with a limit says whether it is reached."""
    net = core.Net(f"adds_{blob}")
    net.Add([blob, net.ConstantFill([], f"{net.Name()}_by", shape=[1], value=float(by))], [blob])
    if limit:
        net.GE([blob, net.ConstantFill([], f"{net.Name()}_limit", shape=[1], value=float(limit))], ["stop"])
    return net


def step(what: Any, **arguments: Any) -> Any:
    return core.execution_step("step", what, **arguments)


def found() -> List[float]:
    return [float(workspace.FetchBlob(name)[0]) for name in "ab"]


def test_steps_run_in_turn_as_often_as_they_say() -> None:
    plan = core.Plan("plan")
    plan.AddStep(core.ExecutionStep("init", adds("a")))
    plan.AddStep(core.ExecutionStep("train", [adds("a", 10), adds("b")], 5))
    plan.AddStep(core.ExecutionStep("nothing"))
    plan.AddStep(core.ExecutionStep("never", adds("a"), 0))
    assert workspace.RunPlan(plan)
    assert found() == [51, 5]
    workspace.RunPlan(plan)
    assert found() == [102, 10]
    assert [one.Name() for one in plan.Steps()] == ["init", "train", "never"]


NESTED: Dict[str, Any] = {
    "steps in a step": (lambda: step([step(adds("a"), num_iter=3), step(adds("b"), num_iter=2)], num_iter=4), [12, 8]),
    "side by side": (
        lambda: step([step(adds("a"), num_iter=3), adds("b")], num_iter=2, concurrent_substeps=True),
        [6, 2],
    ),
    "a net that reports": (
        lambda: step(adds("a"), num_iter=3, report_net=adds("b"), report_interval=1000),
        [3, 1],
    ),
    "now and then": (
        lambda: step(
            [step(adds("a"), num_iter=3), step(adds("b"), run_every_ms=100000)], num_iter=2, concurrent_substeps=True
        ),
        [6, 1],
    ),
    "several instances": (lambda: step(adds("a"), num_concurrent_instances=3), [3, 0]),
    "until a blob is true": (lambda: step([adds("a", 1, 4), adds("b")], should_stop_blob=STOP), [4, 3]),
    "a step until a blob is true": (
        lambda: step([step(adds("a", 1, 4)), step(adds("b"))], should_stop_blob=STOP),
        [4, 3],
    ),
    "only once": (
        lambda: step([step(adds("a"), should_stop_blob=STOP, only_once=True), step(adds("b"))], num_iter=4),
        [4, 4],
    ),
    "only the step that asks for it stops": (
        lambda: step([step([adds("a", 1, 3), adds("b")], should_stop_blob=STOP), adds("b", 100)], num_iter=2),
        [4, 202],
    ),
}


@pytest.mark.parametrize("case", NESTED)
def test_steps_of_steps(case: str) -> None:
    make, wanted = NESTED[case]
    workspace.RunPlan(make())
    assert found() == wanted


def test_a_workspace_of_its_own_keeps_what_was_there_before() -> None:
    net = core.Net("net")
    net.ConstantFill([], "new", shape=[1], value=3.0)
    net.Add(["a", "new"], ["a"])
    workspace.RunPlan(step(net, num_iter=2, create_workspace=True))
    assert found() == [6, 0]
    assert not workspace.HasBlob("new")


def test_what_a_step_refuses() -> None:
    one = step([adds("a"), adds("b")])
    assert (one.HasNets(), one.HasSubsteps(), len(one.Nets())) == (True, False, 2)
    with pytest.raises(AssertionError, match="both network and substeps"):
        one.AddSubstep(step(adds("a")))
    core.Plan(one)
    with pytest.raises(AssertionError, match="Cannot mutate"):
        one.SetIter(3)
    with pytest.raises(AssertionError, match="both should_stop_blob and num_iter"):
        step(adds("a"), num_iter=2, should_stop_blob=STOP)
    with pytest.raises(RuntimeError, match="only_once"):
        workspace.RunPlan(step(adds("a"), only_once=True))
    net = core.Net("net")
    net.Add(["a", "missing"], ["a"])
    with pytest.raises(RuntimeError, match="missing"):
        workspace.RunPlan(step(net))
