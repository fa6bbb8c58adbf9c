"""Slices: NumPy, engines, refusals."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel
from runtime_arm.errors import OperatorError
from runtime_arm.execution.executor import Executor
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.registry.schema import lookup
from runtime_arm.registry.specs import Quantization, TensorSpec


@st.composite
def cuts(draw: Any) -> List[Any]:
    """Data, starts, ends, axes, steps; some bounds are far beyond the ends."""
    shape = draw(st.lists(st.integers(0, 6), min_size=1, max_size=3))
    axes = draw(st.permutations(range(len(shape))))[: draw(st.integers(1, len(shape)))]
    bound = st.one_of(st.integers(-9, 9), st.sampled_from([-(2**63), 2**63 - 1]))
    starts, ends = ([draw(bound) for _ in axes] for _ in range(2))
    steps = [draw(st.sampled_from([1, 2, 5, -1, -3, 2**40, -(2**40)])) for _ in axes]
    named = [axis - len(shape) if draw(st.booleans()) else axis for axis in axes]
    numbers = [np.array(numbers, np.int64) for numbers in (starts, ends, named, steps)]
    return [np.arange(np.prod(shape)).reshape(shape), *numbers]


@given(cuts())
@settings(max_examples=200)
def test_onnx_slice_agrees_with_numpy(inputs: List[Any]) -> None:
    x, starts, ends, axes, steps = inputs
    index = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes.tolist(), starts.tolist(), ends.tolist(), steps.tolist()):
        start = max(start, -x.shape[axis])
        stop = None if step < 0 and end + (x.shape[axis] if end < 0 else 0) < 0 else end
        index[axis] = slice(start, stop, step)
    op = OperatorDef.of("Slice", ["X", "s", "e", "a", "t"], ["Y"], domain="onnx")
    np.testing.assert_array_equal(run_kernel(op, inputs, constants=(1, 2, 3, 4))[0], x[tuple(index)])
    assert assert_engines_match_reference(op, inputs, constants=(1, 2, 3, 4)) == ["NUMPY"]


@pytest.mark.parametrize(
    ("starts", "ends", "rule"),
    [
        ([0, 1], [-1, 3, -1], "must have the same length"),
        ([0, 0, 0, 0], [-1] * 4, "no more numbers than dimensions"),
        ([0, 3], [-1, 2], "must not exceed"),
        ([0, -9], [-1, 2], "must not exceed"),
        ([1, 1], [2, 2], "only one dimension may be cut"),
    ],
)
def test_refuses(starts: List[int], ends: List[int], rule: str) -> None:
    with pytest.raises(OperatorError, match=rule):
        run_kernel(OperatorDef.of("Slice", ["X"], ["Y"], starts=starts, ends=ends), [np.zeros((3, 4, 5), np.float32)])


@pytest.mark.parametrize(
    ("numbers", "rule"),
    [
        (([0], [1], [3]), "axes 3 is out of range"),
        (([0, 0], [1, 1], [0, -3]), "must differ"),
        (([0], [1], [0], [0]), "not be 0"),
        (([0, 0], [1]), "must have the same length"),
    ],
)
def test_onnx_refuses(numbers: Any, rule: str) -> None:
    op = OperatorDef.of("Slice", ["X", "s", "e", "a", "t"][: len(numbers) + 1], ["Y"], domain="onnx")
    with pytest.raises(OperatorError, match=rule):
        run_kernel(op, [np.zeros((3, 4, 5)), *(np.array(n, np.int64) for n in numbers)], constants=(1, 2, 3, 4))


@given(cuts())
@settings(max_examples=100)
def test_bounds_that_are_data_cut_as_constant_ones_do(inputs: List[Any]) -> None:
    """Behind a border: the shape function, which sees what is cut, does all the work."""
    names = ["X", "s", "e", "a", "t"]
    op = OperatorDef.of("Slice", names, ["Y"], domain="onnx")
    feeds = dict(zip(names, inputs))
    net = NetDef(op=(op,), external_input=tuple(names), external_output=("Y",))
    y = Executor(net, {}).run(feeds, ["Y"])["Y"]
    np.testing.assert_array_equal(y, run_kernel(op, inputs, constants=(1, 2, 3, 4))[0])
    assert y.flags.c_contiguous
    assert not np.shares_memory(y, inputs[0])


def test_what_is_cut_of_a_quantised_blob_keeps_its_scale() -> None:
    op = OperatorDef.of("Slice", ["X"], ["Y"], starts=[1], ends=[-1])
    known = TensorSpec((3,), np.uint8, np.array([1, 2, 3], np.uint8), Quantization(0.5, 7))
    y = lookup(op).infer(op, [known])[0]
    assert y == TensorSpec((2,), np.uint8, quantization=Quantization(0.5, 7))
    assert y.value is not None
    np.testing.assert_array_equal(y.value, [2, 3])
