"""Recorded runs of the real Caffe2, in ../shared/goldens: each case is one net with its inputs and outputs."""

from __future__ import annotations

import base64
from functools import cache
from typing import Any, Collection, Dict, List

import numpy as np
import pytest

from device_tests.suite.tolerance import RECORDED_APPROXIMATELY, assert_close, relative_bound
from runtime_arm.errors import ArmnetError, UnknownOperator
from runtime_arm.execution.workspace import Workspace
from runtime_arm.netdef import NetDef
from runtime_arm.registry.specs import QuantizedTensor
from tests.support.paths import GOLDENS, module_at

TERMS = 1024  # no recorded sum has more terms; Caffe2 also added them in float32

Case = Dict[str, Any]


@cache
def goldens_module() -> Any:
    """The reader in the folder of the recordings."""
    return module_at(GOLDENS / "load_goldens.py")


@cache
def load_cases(kind: str = "ops") -> List[Case]:
    """Every recorded case of ``kind`` ('ops' or 'int8'); none where the recordings are absent."""
    return list(goldens_module().caffe2_cases(kind)) if GOLDENS.is_dir() else []


def golden_cases(kind: str = "ops", status: str = "", types: Collection[str] = ()) -> List[Any]:
    """Parameters for pytest: the cases of a kind with this status ("": any) and one of these types ((): any).

    Where the recordings are absent: a single skipped parameter.
    """
    cases = load_cases(kind)
    if not cases:
        return [pytest.param(None, marks=pytest.mark.skip(reason=f"no recorded runs in {GOLDENS}"))]
    missing = set(types) - {case["op"] for case in cases}
    assert not missing, f"no recorded case of {sorted(missing)}"
    chosen = [case for case in cases if status in ("", case["status"]) and (not types or case["op"] in types)]
    return [pytest.param(case, id=case["id"]) for case in chosen]


def run_case(case: Case, *, engine: str = "", terms: int = TERMS) -> None:
    """Runs the case's net in a Workspace and compares values, shapes and dtypes; it must fail where Caffe2 failed.

    engine: replaces the recorded engine of every operator in a case whose status is ok ("REFERENCE", ...).
    """
    net = NetDef.from_bytes(case["netdef"], case["id"])
    if engine and case["status"] == "ok":
        net = net.replace(op=tuple(op.replace(engine=engine) for op in net.op))
    workspace = Workspace()
    for blob in case["inputs"]:
        workspace.feed(blob["name"], blob_value(blob))
    if case["status"] != "ok":
        assert_refused(workspace, net, case)
        return
    workspace.run_net_once(net)
    for blob in case["outputs"]:
        compare(workspace.fetch(blob["name"]), blob, case, terms)


def assert_refused(workspace: Workspace, net: NetDef, case: Case) -> None:
    """The net is refused with an ArmnetError; with UnknownOperator only if Caffe2 did not know the operator either."""
    with pytest.raises(ArmnetError) as caught:
        workspace.run_net_once(net)
    unknown_there = "Cannot create operator" in case.get("error", "")
    assert unknown_there or not isinstance(caught.value, UnknownOperator), f"{case['id']}: {caught.value}"


def blob_value(blob: Case) -> Any:
    """The value of a recorded blob, to feed or to compare with."""
    if blob["kind"] == "string":
        values = np.array([base64.b64decode(text) for text in blob["values_b64"]], object)
        return values.reshape(blob["shape"])
    if blob["kind"] == "int8":
        return QuantizedTensor(blob["array"], blob["scale"], blob["zero_point"])
    return blob["array"]


def compare(actual: Any, blob: Case, case: Case, terms: int) -> None:
    """Raises AssertionError unless the blob is as recorded, by the case's kind: exact, approx or shape_only."""
    what = f"{case['id']} ({case['tag'].strip()}): {blob['name']}"
    if case["kind"] == "shape_only":
        assert (actual.shape, actual.dtype.name) == (tuple(blob["shape"]), blob["dtype"]), what
        return
    expected = blob_value(blob)
    if isinstance(expected, QuantizedTensor):
        assert isinstance(actual, QuantizedTensor), f"{what} is not quantised"
        assert (np.float32(actual.scale), actual.zero_point) == (np.float32(expected.scale), expected.zero_point), what
        actual, expected = actual.values, expected.values
    amplification = RECORDED_APPROXIMATELY / relative_bound(terms) if case["kind"] == "approx" else 1.0
    assert_close(actual, expected, terms=terms, amplification=amplification, what=what)
