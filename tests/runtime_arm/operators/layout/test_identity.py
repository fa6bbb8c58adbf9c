"""Copies, checks and Dropout: engines, what is refused while running."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel
from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import ArgumentError, OperatorError, ShapeError
from runtime_arm.execution.workspace import Workspace
from runtime_arm.netdef import DeviceOption, NetDef
from tests.support.exact import assert_same
from tests.support.in_place import run_in_place
from tests.support.operands import caffe2, onnx, random

YES = np.array(True)


@pytest.mark.parametrize(
    "op", [caffe2("Dropout", "X", "Y M", is_test=1), onnx("Dropout", "X", "Y M"), onnx("Dropout", "X", "Y")]
)
def test_nothing_is_dropped_at_inference(op: Any) -> None:
    x = random((3, 4))
    assert assert_engines_match_reference(op, [x]) == ["NUMPY"]
    y, *masks = run_kernel(op, [x], "NUMPY")
    assert_same(y, x)
    assert all(mask.all() for mask in masks)
    assert_same(run_in_place(op, [x], "NUMPY"), x)


@pytest.mark.parametrize(
    "op",
    [
        caffe2("Dropout", "X", "Y M", ratio=0.25).replace(device_option=DeviceOption(random_seed=7)),
        onnx("Dropout", "X R T", "Y M", seed=7),
    ],
)
def test_training_drops_a_share_and_scales_the_rest(op: Any) -> None:
    x = np.ones((100, 100), np.float32)
    inputs = [x, np.array(0.25, "f4"), YES][: len(op.input)]
    assert assert_engines_match_reference(op, inputs) == []
    y, mask = run_kernel(op, inputs)
    assert 0.2 < 1 - mask.mean() < 0.3
    assert_close(y, mask / np.float32(0.75))
    assert_same(run_kernel(op, inputs)[1], mask)


def test_nan_check_names_the_elements_it_found() -> None:
    x = np.array([1, np.inf, np.nan], np.float32)
    assert_same(run_kernel(caffe2("NanCheck", "X Z"), [x[:1], x])[0], x[:1])
    with pytest.raises(OperatorError, match="2 of 3 elements of 'X' are not finite; first: inf"):
        run_kernel(caffe2("NanCheck", "X"), [x])


@pytest.mark.parametrize(
    ("op", "rule"),
    [
        (caffe2("Dropout", "X"), "there must be a second output"),
        (caffe2("Dropout", "X", "Y M", ratio=1.0), "ratio must be"),
        (caffe2("Copy", "X", "X"), "must not overwrite"),
    ],
)
def test_refuses(op: Any, rule: str) -> None:
    with pytest.raises((ArgumentError, ShapeError), match=rule):
        run_kernel(op, [random((3,))])


def run_in_a_net(op: Any, **blobs: Any) -> Workspace:
    """The workspace after a net of that operator, followed by a copy of X."""
    workspace = Workspace()
    for name, value in blobs.items():
        workspace.feed(name, value)
    workspace.run_net_once(NetDef(op=(op, caffe2("Copy", "X", "Y"))))
    return workspace


@pytest.mark.parametrize(
    "op",
    [
        caffe2("Print", "X", ""),
        caffe2("ZeroGradient", "X", ""),
        caffe2("EnforceFinite", "X", ""),
        caffe2("AliasWithName", "X", "Z", name="z"),
        caffe2("CopyOnDeviceLike", "X L", "Z"),
    ],
    ids=lambda op: str(op.type),
)
def test_checks_pass_their_input_on(op: Any) -> None:
    workspace = run_in_a_net(op, X=random((2, 3)), L=random((1,)))
    assert_same(workspace.fetch("Y"), random((2, 3)))
    if op.output:
        assert_same(workspace.fetch("Z"), random((2, 3)))


@pytest.mark.parametrize(
    ("op", "x", "rule"),
    [
        (caffe2("EnforceFinite", "X", ""), np.array([1, np.inf], np.float32), "1 of 2 elements of 'X' are not finite"),
        (caffe2("Assert", "X", "", error_msg="no boxes"), np.array([True, False]), "no boxes"),
        (caffe2("Assert", "X", ""), np.array([2, 0], np.int32), "is not true everywhere"),
    ],
)
def test_failed_checks_raise_an_error(op: Any, x: Any, rule: str) -> None:
    with pytest.raises(OperatorError, match=rule):
        run_in_a_net(op, X=x)
    run_in_a_net(op, X=np.ones_like(x))
