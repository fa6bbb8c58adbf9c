"""Recorded training of the real Caffe2 and OneFlow, in ../shared/goldens/training."""

from __future__ import annotations

from functools import cache
from typing import Any, Dict, Iterator, List

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_close
from optimize.gradients import add_gradient_operators
from runtime_arm.errors import ArmnetError
from runtime_arm.execution.workspace import Workspace
from runtime_arm.netdef import NetDef, OperatorDef
from tests.support.paths import GOLDENS, module_at

FOLDER = GOLDENS / "training"
ONEFLOW = 2e-3  # how far OneFlow's arrays are from float64 formulas, relative to the largest magnitude
LOSS = 1e-4  # how far a loss of a recorded run may be off
TERMS = 1024  # as for the recorded operators: Caffe2 adds in float32

Case = Dict[str, Any]


@cache
def training_module() -> Any:
    """The reader in the folder of the recordings."""
    return module_at(FOLDER / "load_training_goldens.py")


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


def run_oneflow(case: Case) -> None:
    """Runs a recorded batch normalisation of OneFlow both ways, in a Workspace, and compares every array."""
    a, channels = case["a"], case["shape"][1]
    feeds = {"x": a["x"], "dy": a["dy"]}
    if case["status"] == "ok" and not case["affine"]:
        feeds.update(gamma=np.ones(channels, np.float32), beta=np.zeros(channels, np.float32))
    for name in ("gamma", "beta", "addend"):
        feeds.update({name: a[name]} if name in a else {})
    feeds["mean"] = a.get("running_mean_in", np.zeros(channels, np.float32))
    feeds["variance"] = a.get("running_var_in", np.ones(channels, np.float32))
    workspace = Workspace()
    for name, value in feeds.items():
        workspace.feed(name, value)
    forward = NetDef("forward", tuple(_normalisation(case)))
    if case["status"] != "ok":
        with pytest.raises(ArmnetError):
            workspace.run_net_once(forward)
        return
    net, gradients = add_gradient_operators(forward, {"y": "dy"})
    workspace.run_net_once(net)
    found = {"y": "y", "running_mean_out": "mean", "running_var_out": "variance"}
    found.update((f"d{name}", gradients[name]) for name in ("x", "gamma", "beta", "addend") if name in gradients)
    for name, blob in found.items():
        if name in a:
            compare_oneflow(case, name, workspace.fetch(blob))


def compare_oneflow(case: Case, name: str, actual: Any) -> None:
    """AssertionError unless the array is within 2e-3 of the recorded one, relative to its largest magnitude.

    Where OneFlow's dX is further than that from the formula in float64, because it cancels to rounding noise, it may be
    as far from ours.
    """
    expected = case["a"][name]
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype), f"{case['id']}: {name}"
    own = case.get("difference_from_float64_formula", {}).get(name, 0.0)
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(expected), err_msg=f"{case['id']}: {name}")
    known = ~np.isnan(expected)
    scale = max(np.abs(expected[known]).max(initial=0.0), 1e-3)
    error = np.abs(actual - expected)[known].max(initial=0.0) / scale
    assert error <= max(ONEFLOW, 2 * own), f"{case['id']}: {name} is off by {error:.3g} of the largest"


def _normalisation(case: Case) -> Iterator[OperatorDef]:
    """The operators of a case, by kind; plain SpatialBN gets a third dimension where the backward pass needs one."""
    arguments = {"is_test": int(not case["training"]), "epsilon": case["eps"], "momentum": 1 - case["momentum"]}
    parameters = ["gamma", "beta", "mean", "variance"]
    kept = ["mean", "variance", "used_mean", "used_inverse"]
    if case["kind"] in ("bn_relu", "bn_add_relu"):
        adds = case["kind"] == "bn_add_relu"
        inputs = ["x", *parameters, *["addend"] * adds]
        yield OperatorDef.of("SpatialBNAddRelu" if adds else "SpatialBNRelu", inputs, ["y", *kept, "mask"], **arguments)
        return
    flat, plain = len(case["shape"]) == 2, case["kind"] == "bn"
    x, y = ("wide", "normalised") if flat else ("x", "y" if plain else "normalised")
    if flat:
        yield OperatorDef.of("ExpandDims", ["x"], [x], dims=[2])
    yield OperatorDef.of("SpatialBN", [x, *parameters], [y, *kept] if case["training"] else [y], **arguments)
    if flat:
        yield OperatorDef.of("Squeeze", [y], ["y" if plain else "narrow"], dims=[2])
    if not plain:
        yield OperatorDef.of("Relu", ["narrow" if flat else y], ["y"])


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
