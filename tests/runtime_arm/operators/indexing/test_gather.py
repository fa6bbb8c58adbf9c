"""Gathering by index: ONNX's cases, NumPy, engines, indices out of range."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel
from runtime_arm.errors import OperatorError
from runtime_arm.netdef import OperatorDef
from tests.support.exact import assert_same
from tests.support.onnx_nodes import NodeCase, node_cases


@pytest.mark.parametrize("case", node_cases("Gather"))
def test_gather_with_wrapping_is_onnxs_gather(case: NodeCase) -> None:
    axis = case.op.get_int("axis", 0)
    op = OperatorDef.of("Gather", case.op.input, case.op.output, axis=axis, wrap_indices=1)
    assert_same(run_kernel(op, case.inputs, "NUMPY")[0], case.outputs[0])


@st.composite
def gathers(draw: Any) -> List[Any]:
    """Data, indices of either sign, and the axis."""
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    index = st.integers(-shape[axis], shape[axis] - 1)
    counts = draw(st.lists(st.integers(0, 3), max_size=2))
    values = [draw(index) for _ in range(int(np.prod(counts)))]
    data = np.arange(np.prod(shape)).reshape(shape).astype(draw(st.sampled_from(["f4", "i8", "?"])))
    return [data, np.array(values).reshape(counts).astype(draw(st.sampled_from(["i4", "i8"]))), axis]


@given(gathers())
@settings(max_examples=100)
def test_gather_agrees_with_numpy(problem: List[Any]) -> None:
    data, indices, axis = problem
    for op in (
        OperatorDef.of("Gather", ["X", "i"], ["Y"], axis=axis, wrap_indices=1),
        OperatorDef.of("Gather", ["X", "i"], ["Y"], axis=axis, domain="onnx"),
    ):
        assert assert_engines_match_reference(op, [data, indices]) == ["NUMPY"]
        assert_same(run_kernel(op, [data, indices], "NUMPY")[0], np.take(data, indices, axis))


def test_each_batch_picks_by_its_own_indices() -> None:
    data, indices = np.arange(24).reshape(2, 4, 3), np.array([[3, 0], [1, 1]], np.int32)
    expected = np.stack([data[0][[3, 0]], data[1][[1, 1]]])
    for op in (
        OperatorDef.of("BatchGather", ["X", "i"], ["Y"], match_outer=1),
        OperatorDef.of("Gather", ["X", "i"], ["Y"], axis=1, match_outer=1),
    ):
        assert_same(run_kernel(op, [data, indices])[0], expected)
    op = OperatorDef.of("BatchGather", ["X", "i"], ["Y"])
    assert_same(run_kernel(op, [data, indices], "NUMPY")[0], data[:, indices])


def test_data_without_elements_give_their_own_shape() -> None:
    op = OperatorDef.of("Gather", ["X", "i"], ["Y"])
    assert run_kernel(op, [np.zeros((0, 3), np.float32), np.zeros((2, 2), np.int32)])[0].shape == (0, 3)


@pytest.mark.parametrize(("indices", "shape"), [(np.zeros((2, 0), np.int32), (2, 0, 3)), (np.zeros(0, int), (0, 3))])
def test_onnx_picks_nothing_from_data_without_elements(indices: Any, shape: Any) -> None:
    op, data = OperatorDef.of("Gather", ["X", "i"], ["Y"], domain="onnx"), np.zeros((0, 3), np.float32)
    assert assert_engines_match_reference(op, [data, indices]) == ["NUMPY"]
    assert run_kernel(op, [data, indices])[0].shape == shape


@pytest.mark.parametrize("engine", ["NUMPY", "REFERENCE"])
def test_onnx_refuses_an_index_into_data_without_elements(engine: str) -> None:
    op = OperatorDef.of("Gather", ["X", "i"], ["Y"], domain="onnx", axis=1)
    with pytest.raises(OperatorError, match="index -1 is out of range"):
        run_kernel(op, [np.zeros((2, 0), np.float32), np.array([-1])], engine)


@pytest.mark.parametrize("engine", ["NUMPY", "REFERENCE"])
@pytest.mark.parametrize(
    ("op", "indices", "rule"),
    [
        (OperatorDef.of("Gather", ["X", "i"], ["Y"]), [0, 3], "index 3 is out of range: it must be -3 to 2"),
        (OperatorDef.of("Gather", ["X", "i"], ["Y"]), [-4], "index -4 is out of range"),
        (
            OperatorDef.of("Gather", ["X", "i"], ["Y"], axis=1),
            [-1],
            "index -1 is out of range: it must be 0 to 1",
        ),
        (OperatorDef.of("BatchGather", ["X", "i"], ["Y"]), [2], "index 2 is out of range"),
    ],
)
def test_indices_out_of_range_are_refused(op: OperatorDef, indices: List[int], rule: str, engine: str) -> None:
    with pytest.raises(OperatorError, match=rule):
        run_kernel(op, [np.zeros((3, 2), np.float32), np.array(indices)], engine)


@pytest.mark.parametrize(
    ("op", "shapes", "rule"),
    [
        (OperatorDef.of("Gather", ["X", "i"], ["Y"], axis=2), [(3, 2), (1,)], "axis 2 is out of range"),
        (OperatorDef.of("Gather", ["X", "i"], ["Y"]), [(), (1,)], "must have a dimension"),
        (OperatorDef.of("Gather", ["X", "i"], ["Y"], axis=1, match_outer=1), [(3, 2), (2, 1)], "first 1 dimensions"),
        (
            OperatorDef.of("GatherElements", ["X", "i"], ["Y"], domain="onnx"),
            [(3, 2), (1, 3)],
            "none longer except dimension 0",
        ),
        (
            OperatorDef.of("GatherElements", ["X", "i"], ["Y"], domain="onnx"),
            [(3, 2), (1,)],
            "must have as many dimensions as data",
        ),
        (
            OperatorDef.of("GatherND", ["X", "i"], ["Y"], domain="onnx"),
            [(3, 2), (1, 3)],
            "do not fit data's dimensions",
        ),
        (
            OperatorDef.of("GatherND", ["X", "i"], ["Y"], domain="onnx", batch_dims=1),
            [(3, 2), (2, 1)],
            "in their first 1",
        ),
    ],
)
def test_refuses(op: OperatorDef, shapes: Any, rule: str) -> None:
    with pytest.raises(OperatorError, match=rule):
        run_kernel(op, [np.zeros(shapes[0], np.float32), np.zeros(shapes[1], np.int64)])


def test_indices_must_be_integers() -> None:
    with pytest.raises(OperatorError, match="int32 or int64"):
        run_kernel(OperatorDef.of("Gather", ["X", "i"], ["Y"]), [np.zeros(3, np.float32), np.zeros(1, np.float32)])


@pytest.mark.parametrize("type", ["GatherElements", "GatherND"])
def test_onnx_indices_out_of_range_are_refused(type: str) -> None:
    op = OperatorDef.of(type, ["X", "i"], ["Y"], domain="onnx")
    for index in (3, -4):
        with pytest.raises(OperatorError, match=f"index {index} is out of range"):
            run_kernel(op, [np.zeros((3, 2), np.float32), np.array([[index]])])
