"""A workspace runs the same net again and again: plans are kept, blobs are overwritten, changes are noticed."""

from __future__ import annotations

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_each_close
from runtime_arm.errors import FeedError, NetError
from runtime_arm.execution import net_runner
from runtime_arm.execution.workspace import Workspace
from runtime_arm.netdef import NetDef, OperatorDef

STEP = NetDef(
    "step",
    (
        OperatorDef.of("AtomicIter", ["mutex", "it"], ["it"]),
        OperatorDef.of("LearningRate", ["it"], ["lr"], policy="inv", base_lr=1.0, gamma=1.0, power=1.0),
        OperatorDef.of("MomentumSGDUpdate", ["g", "m", "lr", "p"], ["g", "m", "p"], momentum=0.5),
    ),
    external_input=("mutex", "it", "g", "m", "p"),
)


def test_a_net_updates_its_blobs_in_every_run(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    executor = net_runner.Executor
    monkeypatch.setattr(net_runner, "Executor", lambda *given: made.append(given) or executor(*given))
    workspace = Workspace()
    workspace.run_net_once(NetDef("init", (OperatorDef.of("CreateMutex", [], ["mutex"]),)))
    for name, value in {"it": np.zeros(1, np.int64), "m": np.zeros(3, np.float32), "p": np.ones(3, np.float32)}.items():
        workspace.feed(name, value)
    m, p = np.zeros(3), np.ones(3)
    for t in range(1, 6):
        gradient = np.arange(3, dtype=np.float32) * t
        workspace.feed("g", gradient)
        workspace.run_net_once(STEP)
        m = 0.5 * m + gradient / (1 + t)
        p = p - m
        assert_each_close(workspace.fetch("p"), p, terms=t)
        assert_each_close(workspace.fetch("g"), m, terms=t)
        assert workspace.fetch("it") == [t]
    assert len(made) == 2, "the init net, and one plan for all steps"


def test_labels_may_change_between_runs() -> None:
    net = NetDef("pick", (OperatorDef.of("Gather", ["x", "i"], ["y"]),), external_input=("x", "i")).to_bytes()
    workspace = Workspace()
    workspace.feed("x", np.arange(5, dtype=np.float32))
    indices = np.zeros(2, np.int64)
    for at in range(4):
        indices[:] = [at, at + 1]  # the same array with another content
        workspace.feed("i", indices)
        workspace.run_net_once(net)
        assert workspace.fetch("y").tolist() == [at, at + 1]


def test_a_shape_that_was_known_may_change() -> None:
    net = NetDef("fill", (OperatorDef.of("ConstantFill", ["s"], ["y"], input_as_shape=1),), external_input=("s",))
    workspace = Workspace()
    for size in (3, 5, 4):
        workspace.feed("s", np.array([size], np.int64))
        workspace.run_net_once(net)
        assert workspace.fetch("y").shape == (size,)


def test_iter_without_an_input_counts_on() -> None:
    net = NetDef("count", (OperatorDef.of("Iter", [], ["it"]),))
    workspace = Workspace()
    for t in range(1, 4):
        workspace.run_net_once(net)
        assert workspace.fetch("it") == [t]


def test_a_missing_blob_is_named_even_after_a_good_run() -> None:
    net = NetDef("relu", (OperatorDef.of("Relu", ["x"], ["y"]),))
    workspace = Workspace()
    with pytest.raises(NetError, match="'x'"):
        workspace.run_net_once(net)
    workspace.feed("x", np.array([-1.0], np.float32))
    workspace.run_net_once(net)
    assert workspace.fetch("y") == [0]
    with pytest.raises(FeedError, match="'z'"):
        workspace.fetch("z")
