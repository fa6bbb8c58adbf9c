"""Views: nothing runs for them; NumPy, refusals."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_tests.suite.kernels import run_kernel
from runtime_arm.errors import ArgumentError, OperatorError, ResourceError, ShapeError
from runtime_arm.execution.executor import Executor
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.registry.schema import DataDependent, lookup
from runtime_arm.registry.specs import TensorSpec


@given(st.lists(st.integers(1, 4), max_size=4), st.randoms())
@settings(max_examples=100)
def test_reshape_agrees_with_numpy(shape: List[int], random: Any) -> None:
    x = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    wanted = sorted([n for n in shape if n > 1] + [1] * random.randint(0, 2), key=lambda _: random.random())
    filled = list(wanted)
    if wanted and random.random() < 0.5:
        filled[random.randrange(len(wanted))] = -1
    y, old = run_kernel(OperatorDef.of("Reshape", ["X"], ["Y", "old"], shape=filled), [x])
    np.testing.assert_array_equal(y, x.reshape(wanted))
    assert old.tolist() == shape


def test_nothing_runs_for_a_view() -> None:
    ops = [
        OperatorDef.of("Flatten", ["X"], ["f"]),
        OperatorDef.of("Reshape", ["f"], ["r", "old"], shape=[-1, 2]),
        OperatorDef.of("ExpandDims", ["r"], ["Y"], dims=[0, 2]),
    ]
    executor = Executor(NetDef(op=tuple(ops), external_input=("X",), external_output=("Y",)), {})
    x = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    segment = executor.plan({"X": x}, ["Y", "old"])
    assert segment.runs == []
    assert np.shares_memory(segment.env["Y"].array, segment.env["X"].array)
    results = executor.run({"X": x}, ["Y", "old"])
    np.testing.assert_array_equal(results["Y"], x.reshape(1, 6, 1, 2))
    assert results["old"].tolist() == [2, 6]


def test_a_shape_from_an_unknown_input_raises_data_dependent() -> None:
    op = OperatorDef.of("Reshape", ["X", "s"], ["Y", "old"])
    with pytest.raises(DataDependent):
        lookup(op).infer(op, [TensorSpec((2, 3), np.float32), TensorSpec((2,), np.int64)])
    executor = Executor(NetDef(op=(op,), external_input=("X", "s"), external_output=("Y",)), {})
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for shape in ([3, 2], [6], [0, -1]):
        y = executor.run({"X": x, "s": np.array(shape)}, ["Y"])["Y"]
        np.testing.assert_array_equal(y, x.reshape([2, 3] if shape == [0, -1] else shape))


@pytest.mark.parametrize(
    ("type", "numbers", "error", "rule"),
    [
        ("Tile", [2**40, 2**40], ResourceError, "bytes"),
        ("Tile", [-1, 1], ShapeError, "none negative"),
        ("Expand", [2**50, 1, 1], ResourceError, "bytes"),
        ("Pad", [-2, 0, 0, 0], ShapeError, "remove more elements than there are"),
    ],
)
def test_numbers_in_inputs_are_checked(type: str, numbers: Any, error: Any, rule: str) -> None:
    op = OperatorDef.of(type, ["X", "n"], ["Y"], domain="onnx")
    executor = Executor(NetDef(op=(op,), external_input=("X", "n"), external_output=("Y",)), {})
    with pytest.raises(error, match=rule):
        executor.run({"X": np.zeros((1, 1), np.float32), "n": np.array(numbers)}, ["Y"])


@pytest.mark.parametrize(
    ("type", "arguments", "shape", "rule"),
    [
        ("Reshape", {"shape": [2**60]}, (2, 3), "does not have 6 elements"),
        ("Reshape", {"shape": [2**40, -1, 2**40]}, (2, 3), "cannot hold 6 elements"),
        ("Reshape", {"shape": [-1, -1]}, (2, 3), "more than one -1"),
        ("Reshape", {"shape": [-2, -3]}, (2, 3), "has a negative dimension"),
        ("Reshape", {"shape": [6, 1, 0]}, (2, 3), "copies dimension 2"),
        ("Reshape", {}, (2, 3), "argument 'shape' is required"),
        ("Flatten", {"axis": 3}, (2, 3), "axis 3 is out of range"),
        ("Flatten", {"axis": -1}, (2, 3), "axis -1 is out of range"),
        ("FlattenToVec", {}, (), "must have a dimension"),
        ("MergeDim", {}, (2,), "must have two dimensions"),
        ("PrependDim", {"dim_size": 4}, (6, 2), "divisible by dim_size 4"),
        ("ExpandDims", {}, (2,), "must be a list of dimensions"),
        ("ExpandDims", {"dims": [3]}, (2,), r"dims \[3\] are out of range"),
        ("Squeeze", {"dims": [0]}, (2, 1), "must be 1"),
    ],
)
def test_refuses(type: str, arguments: Any, shape: Any, rule: str) -> None:
    op = OperatorDef.of(type, ["X"], ["Y", "old"] if type == "Reshape" else ["Y"], **arguments)
    with pytest.raises((ShapeError, ArgumentError), match=rule):
        run_kernel(op, [np.zeros(shape, np.float32)])


@pytest.mark.parametrize(
    ("type", "second", "rule"),
    [
        ("Reshape", np.zeros((1, 2), np.int64), "must be a vector"),
        ("Reshape", np.ones(2, np.float32), "vector of integers"),
        ("Unsqueeze", np.array([0, 0]), "contain a dimension twice"),
        ("Unsqueeze", np.array([5]), "axes 5 is out of range"),
        ("Squeeze", np.array([0]), "must be 1"),
    ],
)
def test_onnx_refuses(type: str, second: Any, rule: str) -> None:
    op = OperatorDef.of(type, ["X", "s"], ["Y"], domain="onnx")
    with pytest.raises(OperatorError, match=rule):
        run_kernel(op, [np.zeros((2, 3), np.float32), second], constants=(1,))


def test_absurd_sizes_are_refused_before_allocating() -> None:
    reshape = OperatorDef.of("Reshape", ["X"], ["Y", "old"], shape=[0, 2**62])
    with pytest.raises(ShapeError, match="elements"):
        run_kernel(reshape, [np.zeros((1, 1), np.float32)])
    tile = OperatorDef.of("Tile", ["X"], ["Y"], tiles=2**31 - 1, axis=0)
    with pytest.raises(ResourceError, match="bytes"):
        run_kernel(tile, [np.zeros((2**10, 2**10), np.float32)])
