"""Writing by index: compared with onnxruntime, engines, refusals."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel
from runtime_arm.errors import OperatorError
from runtime_arm.execution.workspace import Workspace
from runtime_arm.netdef import NetDef, OperatorDef
from tests.support.exact import assert_same
from tests.support.onnx_nodes import onnxruntime_outputs


@given(st.lists(st.integers(0, 4), max_size=6), st.sampled_from(["i4", "i8"]))
@settings(max_examples=60)
def test_scatter_assign_engines_agree(indices: List[int], dtype: str) -> None:
    draw = np.random.default_rng(len(indices))
    data, slices = draw.standard_normal((5, 2, 3)), draw.standard_normal((len(indices), 6))
    op = OperatorDef.of("ScatterAssign", ["X", "i", "s"], ["Y"])
    assert assert_engines_match_reference(op, [data, np.array(indices, dtype), slices]) == ["NUMPY"]


def test_scatter_assign_writes_in_place_and_the_last_of_equal_indices_counts() -> None:
    workspace = Workspace()
    workspace.feed("X", np.zeros((3, 2), np.float32))
    workspace.feed("i", np.array([2, 0, 2], np.int32))
    workspace.feed("s", np.arange(6, dtype=np.float32).reshape(3, 2))
    workspace.run_net_once(NetDef(op=(OperatorDef.of("ScatterAssign", ["X", "i", "s"], ["X"]),)))
    assert workspace.fetch("X").tolist() == [[2, 3], [0, 0], [4, 5]]


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("type", ["ScatterElements", "ScatterND"])
def test_reductions_agree_with_onnxruntime(type: str, reduction: str) -> None:
    draw = np.random.default_rng(1)
    data = draw.integers(1, 9, (4, 3)).astype(np.float32)
    if type == "ScatterElements":
        indices = np.array([[0, 3, -1], [2, 1, -1]] if reduction != "none" else [[0, 3, -1], [2, 1, 0]])
    else:
        indices = np.array([[[0], [-1]], [[2], [0]]] if reduction != "none" else [[[0], [-1]], [[2], [1]]])
    updates = draw.integers(1, 9, (2, 3) if type == "ScatterElements" else (2, 2, 3)).astype(np.float32)
    op = OperatorDef.of(type, ["X", "i", "u"], ["Y"], domain="onnx", reduction=reduction)
    assert_same(
        run_kernel(op, [data, indices, updates])[0], onnxruntime_outputs(op, [data, indices, updates], ["f4"])[0]
    )


@pytest.mark.parametrize(
    ("op", "inputs", "rule"),
    [
        (OperatorDef.of("ScatterAssign", ["X", "i", "u"], ["Y"]), [(4, 2), [4], (1, 2)], "index 4 is out of range"),
        (OperatorDef.of("ScatterAssign", ["X", "i", "u"], ["Y"]), [(4, 2), [-1], (1, 2)], "index -1 is out of range"),
        (
            OperatorDef.of("ScatterAssign", ["X", "i", "u"], ["Y"]),
            [(4, 2), [0], (2, 2)],
            "1 slices must have 2 elements",
        ),
        (OperatorDef.of("ScatterElements", ["X", "i", "u"], ["Y"], domain="onnx"), [(4, 2), [[4]], (1, 1)], "index 4"),
        (
            OperatorDef.of("ScatterElements", ["X", "i", "u"], ["Y"], domain="onnx"),
            [(4, 2), [[0]], (1, 2)],
            "one shape",
        ),
        (
            OperatorDef.of("ScatterElements", ["X", "i", "u"], ["Y"], domain="onnx", reduction="mean"),
            [(4, 2), [[0]], (1, 1)],
            "reduction must be",
        ),
        (OperatorDef.of("ScatterND", ["X", "i", "u"], ["Y"], domain="onnx"), [(4, 2), [[4]], (1, 2)], "index 4"),
        (OperatorDef.of("ScatterND", ["X", "i", "u"], ["Y"], domain="onnx"), [(4, 2), [[0]], (1, 1)], "the shape"),
        (
            OperatorDef.of("ScatterND", ["X", "i", "u"], ["Y"], domain="onnx"),
            [(4, 2), [[0, 0, 0]], (1,)],
            "must be 1 to the number of data's dimensions",
        ),
    ],
)
def test_refuses(op: OperatorDef, inputs: Any, rule: str) -> None:
    data, indices, updates = inputs
    with pytest.raises(OperatorError, match=rule):
        run_kernel(op, [np.zeros(data, np.float32), np.array(indices), np.zeros(updates, np.float32)])


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_scatter_writes_along_an_axis(axis: int) -> None:
    draw = np.random.default_rng(abs(axis))
    data, updates = draw.standard_normal((3, 4, 5)), draw.standard_normal((2, 2, 2))
    indices = draw.integers(0, 3, (2, 2, 2)).astype(np.int32)
    expected = data.copy()
    for place in np.ndindex(2, 2, 2):
        target = list(place)
        target[axis] = indices[place]
        expected[tuple(target)] = updates[place]
    op = OperatorDef.of("Scatter", ["d", "i", "u"], ["Y"], axis=axis)
    assert_same(run_kernel(op, [data, indices, updates])[0], expected)
    with pytest.raises(OperatorError, match="index -1"):
        run_kernel(op, [data, indices - 1 - indices, updates])
