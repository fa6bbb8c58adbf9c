"""Recorded gradients of the real Caffe2, in ../shared/goldens/training: a forward net, the gradient net, every blob."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping

import numpy as np
import pytest

from optimize.gradients import add_gradient_operators
from runtime_arm.errors import ArmnetError
from runtime_arm.execution.workspace import Workspace
from runtime_arm.netdef import NetDef, OperatorDef
from tests.optimize.gradients.checks import check_net

RELATIVE = 1e-4  # of the largest magnitude
NOISE = 1e-5  # of the largest magnitude of all blobs: what rounding leaves of a gradient that is 0
APPROXIMATELY = 1e-3  # where NNPACK computed

Case = Dict[str, Any]

# Where Caffe2's gradient is wrong: what armnet does instead. "refused" is an error; what differs is held against finite
# differences.
FAULTS: Mapping[str, str] = {
    "in-place operator has overwritten": "refused",
    "not the sign of X when alpha <= 0": "refused",
    "test-mode gradient runs the training formula": "differs",
    "outputs without a gradient are left out of the Concat": "differs",
    "the gradient given for the softmax output is ignored": "refused",
    "the loss ignores the argument scale": "differs",
    "scales the gradient blob it is given in place": "differs",
}


def treatment(case: Case) -> str:
    """What armnet does about a fault of Caffe2: "refused" or "differs"; "" where Caffe2 is right."""
    if case.get("verdict") != "fault":
        return ""
    (found,) = {what for note, what in FAULTS.items() if note in case["note"]}
    return found


def run_case(case: Case) -> None:
    """Makes the gradient operators and runs the net: operators and values must be the recorded ones.

    It must fail where Caffe2 failed.
    """
    if case["status"] != "ok" or treatment(case) == "refused":
        with pytest.raises(ArmnetError):
            differentiated(case)
        return
    net, gradients, values = differentiated(case)
    if treatment(case) == "differs":
        _check_by_differences(case, net)
        return
    assert gradients == {blob: of_json(gradient) for blob, gradient in case["grad_map"].items()}
    recorded = NetDef.from_bytes(case["net"], case["id"]).op
    assert [comparable(op) for op in sorted_sums(net.op)] == [comparable(op) for op in sorted_sums(recorded)]
    if any(op.type == "Dropout" and not op.get_bool("is_test") for op in net.op):
        values = after_recorded_forward(case, net)
    for blob, expected in case["out"].items():
        compare(values[blob], expected, case, blob)


def _check_by_differences(case: Case, net: NetDef) -> None:
    """The gradients of what was fed are the quotients of differences."""
    feeds = {name: x.astype(np.float64) if x.dtype.kind == "f" else x for name, x in case["ins"].items()}
    to = [name for name in case["grad_map"] if name in feeds]
    check_net(net.replace(op=net.op[: case["n_forward"]]), feeds, case["ys"], to)


def after_recorded_forward(case: Case, net: NetDef) -> Dict[str, Any]:
    """The blobs after the gradient operators ran on what Caffe2's forward operators left, random masks among it."""
    workspace = Workspace()
    for name, value in {**case["ins"], **case["top_gradients"], **case["out"]}.items():
        workspace.feed(name, value)
    workspace.run_net_once(NetDef(op=net.op[case["n_forward"] :]))
    return {name: workspace.fetch(name) for name in workspace.blobs()}


def differentiated(case: Case) -> Any:
    """The net with its gradient operators, the gradient map, and the blobs after a run."""
    forward = NetDef.from_bytes(case["forward"], case["id"])
    ys = {y: None if case["loss"] else f"{y}_top" for y in case["ys"]}
    net, gradients = add_gradient_operators(forward, ys)
    workspace = Workspace()
    for name, value in {**case["ins"], **case["top_gradients"]}.items():
        workspace.feed(name, value)
    workspace.run_net_once(net)
    return net, gradients, {name: workspace.fetch(name) for name in workspace.blobs()}


def of_json(gradient: Any) -> Any:
    return (gradient["indices"], gradient["values"]) if isinstance(gradient, dict) else gradient


def sorted_sums(ops: Any) -> List[OperatorDef]:
    """The operators, neighbouring sums by name: Caffe2 emits those of one operator in the order of a set."""
    result: List[OperatorDef] = []
    run: List[OperatorDef] = []
    for op in [*ops, OperatorDef()]:
        if is_sum(op):
            run.append(op)
        else:
            result += [*sorted(run, key=lambda op: op.output), op]
            run = []
    return result


def is_sum(op: OperatorDef) -> bool:
    return op.device_option is not None and "is_auto_gen_sum_ops:1" in op.device_option.extra_info


def comparable(op: OperatorDef) -> Any:
    """What counts of an operator; arguments in any order, each once."""
    return op.type, op.input, op.output, {arg.name: arg for arg in op.arg}, op.is_gradient_op, op.device_option


def compare(actual: Any, expected: Any, case: Case, blob: str) -> None:
    """AssertionError unless the blob is as recorded, up to a share of its largest magnitude, or of all blobs'."""
    what = f"{case['id']} ({case['tag']}): {blob}"
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype), what
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(actual, expected, err_msg=what)
        return
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(actual[~finite], expected[~finite], err_msg=what)
    relative = RELATIVE if case["kind"] == "exact" else APPROXIMATELY
    allowed = max(relative * largest(expected), NOISE * max(map(largest, case["out"].values())))
    error = np.abs(actual[finite].astype(np.float64) - expected[finite]).max(initial=0.0)
    assert error <= allowed, f"{what}: error {error:.3g}, allowed {allowed:.3g}"


def largest(array: Any) -> float:
    """The largest finite magnitude of an array of numbers."""
    numbers = np.asarray(array, np.float64)
    return float(np.abs(numbers[np.isfinite(numbers)]).max(initial=0.0))
