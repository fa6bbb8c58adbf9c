"""Runs recorded cases of the real Caffe's training: gradients of layers and nets, and whole runs of its solvers."""

from __future__ import annotations

from typing import Any, Dict, Mapping

import numpy as np
import pytest

from runtime_arm.errors import ArmnetError
from training.caffe import Net, Solver

Case = Dict[str, Any]
NEAR = 1e-4  # of a gradient's largest magnitude, or of a loss
UPDATE = 1e-3  # of the largest: updates divide by roots of gradients, which may be near 0
FINAL = 1e-4  # how far parameters may be off after a run that no ReLU turned off its way
SNAPSHOT = 10  # the iteration of the recorded snapshot


def close(found: Any, wanted: Any, what: str, near: float = NEAR) -> None:
    """AssertionError unless the arrays agree to a part of the largest magnitude; NaN must be in the same places."""
    found, wanted = np.asarray(found, np.float64), np.asarray(wanted, np.float64)
    assert found.size == wanted.size, f"{what}: {found.shape}, recorded is {wanted.shape}"
    found = found.reshape(wanted.shape)
    assert np.array_equal(np.isnan(found), np.isnan(wanted)), f"{what}: NaN elsewhere"
    there = ~np.isnan(wanted)
    difference = float(np.abs(found - wanted)[there].max(initial=0))
    magnitude = float(np.abs(wanted)[there].max(initial=0))
    assert difference <= near * max(magnitude, 1e-3), f"{what}: {difference:.3g} off, the largest is {magnitude:.3g}"


def run_gradients(case: Case) -> None:
    """Runs one case forwards and backwards; what Caffe refused must be refused."""
    if case["status"] != "ok":
        with pytest.raises(ArmnetError):
            _both_passes(case)
        return
    net = Net(case["prototxt"], case["caffemodel"], case["phase"])
    net.forward(**case["in"])
    at_random = case["type"] == "Dropout" and case["phase"] == "TRAIN"
    if at_random:
        _check_dropout(net, case)
        return
    for name, values in case["blob"].items():
        close(net.blobs[name].data, values, f"blob {name}")
    net.backward(**{name: values for name, values in case["topdiff"].items() if name in net.outputs})
    for name, values in case["diff"].items():
        close(net.blobs[name].diff, values, f"gradient of {name}")
    for key, values in case["paramdiff"].items():
        layer, index = key.split("|")
        close(net.params[layer][int(index)].diff, values, f"gradient of parameter {key}")
    for key, values in case["paramafter"].items():
        layer, index = key.split("|")
        close(net.params[layer][int(index)].data, values, f"parameter {key}")


def _both_passes(case: Case) -> None:
    net = Net(case["prototxt"], case.get("caffemodel"), case["phase"])
    net.forward(**case["in"])
    net.backward(**{name: np.ones(net.blobs[name].shape, np.float32) for name in net.outputs})


def _check_dropout(net: Net, case: Case) -> None:
    """Judged with the mask of this run: what is left is scaled alike in both passes."""
    (name,) = case["in"]
    x = case["in"][name]
    factor = np.divide(net.blobs["y"].data, x, out=np.zeros_like(x), where=x != 0)
    net.backward(y=case["topdiff"]["y"])
    close(net.blobs[name].diff, case["topdiff"]["y"] * factor, "gradient through the mask")


def run_solver(case: Case) -> None:
    """Runs a solver from the recorded start, from the recorded snapshot, and from its own."""
    solver = Solver(case["solver_text"], case["net_text"], case["files"]["init_caffemodel"])
    steps = case["float64_replay"]["first_step_beyond_1e_5"]
    compared = case["iterations"] if steps is None else steps - 1
    for step in range(case["iterations"]):
        found = solver.step(feeds(solver, case, step))
        if step < compared:
            assert abs(float(found["loss"]) - case["loss"][step]) < NEAR, f"the loss of step {step}"
        if step == 0:
            for key, values in case["diff_after1"].items():
                close(parameter(solver, key).diff, values, f"update of {key}", UPDATE)
            for key, values in case["after1"].items():
                close(parameter(solver, key).data, values, f"parameter {key} after a step")
        if step + 1 == SNAPSHOT:
            snapshot = solver.snapshot()
    recorded = case["files"]["caffemodel_iter10"], case["files"]["solverstate_iter10"]
    for files, near in ((snapshot, 0.0), (recorded, FINAL)):
        resumed = Solver(case["solver_text"], case["net_text"])
        resumed.restore(*files)
        assert resumed.iteration == SNAPSHOT
        for step in range(SNAPSHOT, case["iterations"]):
            resumed.step(feeds(resumed, case, step))
        if near == 0.0 or steps is None:
            same(resumed, solver.net if near == 0.0 else final(case), near)
    if steps is None:
        same(solver, final(case), FINAL)


def final(case: Case) -> Net:
    """The net with the parameters that Caffe ended with."""
    return Net(case["net_text"], case["files"]["final_caffemodel"], "TRAIN")


def same(solver: Solver, net: Net, near: float) -> None:
    """AssertionError unless all parameters agree."""
    for layer, blobs in net.params.items():
        for index, blob in enumerate(blobs):
            difference = float(np.abs(solver.net.params[layer][index].data - blob.data).max(initial=0))
            assert difference <= near, f"parameter {index} of {layer}: {difference:.3g} off"


def parameter(solver: Solver, key: str) -> Any:
    layer, index = key.split("|")
    return solver.net.params[layer][int(index)]


def feeds(solver: Solver, case: Case, step: int) -> Mapping[str, Any]:
    """The rows of a step: pictures for the first input, labels for the others."""
    rows = case["batches"][step].reshape(-1)
    return {name: case["data"]["x_train" if name == "data" else "y_train"][rows] for name in solver.net.inputs}
