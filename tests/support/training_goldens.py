"""Recorded training of the real Caffe2 and OneFlow, in ../shared/goldens/training."""

from __future__ import annotations

import importlib.util
from functools import cache
from typing import Any, Dict, List

import pytest

from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import ArmnetError
from runtime_arm.execution.workspace import Workspace
from runtime_arm.netdef import NetDef
from tests.support.paths import GOLDENS

FOLDER = GOLDENS / "training"
LOSS = 1e-4  # how far a loss of a recorded run may be off
TERMS = 1024  # as for the recorded operators: Caffe2 adds in float32

Case = Dict[str, Any]


@cache
def training_module() -> Any:
    """The reader in the folder of the recordings."""
    spec = importlib.util.spec_from_file_location("load_training_goldens", FOLDER / "load_training_goldens.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def training_cases(reader: str) -> List[Case]:
    """The cases that a function of the reader yields; none where the recordings are absent."""
    return list(getattr(training_module(), reader)()) if FOLDER.is_dir() else []


def parameters(reader: str) -> List[Any]:
    """Parameters for pytest, one a case; a single skipped one with the reason where the recordings are absent."""
    cases = training_cases(reader)
    if not cases:
        return [pytest.param(None, marks=pytest.mark.skip(reason=f"no recorded runs in {FOLDER}"))]
    return [pytest.param(case, id=case["id"]) for case in cases]


def run_optimiser(case: Case, engine: str = "") -> None:
    """Runs the operators step by step in a Workspace and compares every blob after every step."""
    net = NetDef.from_bytes(case["net"], case["id"])
    net = net.replace(op=tuple(op.replace(engine=engine) for op in net.op))
    workspace = Workspace()
    for blob, array in case["init"].items():
        workspace.feed(blob, array)
    if case["status"] != "ok":
        with pytest.raises(ArmnetError):
            _step(workspace, net, case, 0)
        return
    for at in range(len(next(iter(case["out"].values())))):
        _step(workspace, net, case, at)
        for blob, expected in case["out"].items():
            assert_close(workspace.fetch(blob), expected[at], terms=TERMS, what=f"{case['id']}: {blob}, step {at}")


def _step(workspace: Workspace, net: NetDef, case: Case, at: int) -> None:
    for blob, arrays in case["feed"].items():
        workspace.feed(blob, arrays[at])
    workspace.run_net_once(net)


def run_training(case: Case) -> None:
    """Runs the recorded train net, as it stands, on the recorded batches in a Workspace, and compares every loss.

    From the step ``first_step_beyond_1e_5`` on, rounding has switched a ReLU, and losses are no longer compared.
    """
    workspace = Workspace()
    workspace.run_net_once(case["nets"]["init_values_net"])
    reliable = case["float64_replay"]["first_step_beyond_1e_5"]
    for at, rows in enumerate(case["batches"][:reliable]):
        workspace.feed("data", case["data"]["x_train"][rows])
        workspace.feed("label", case["data"]["y_train"][rows])
        workspace.run_net_once(case["nets"]["train_net"])
        loss = float(workspace.fetch(case["loss_blob"]))
        assert abs(loss - case["loss"][at]) <= LOSS, (
            f"{case['id']}, step {at}: loss {loss}, recorded {case['loss'][at]}"
        )
