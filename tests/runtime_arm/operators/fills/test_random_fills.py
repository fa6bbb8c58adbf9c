"""Random fills: distributions, bounds, seeds, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from device_tests.suite.kernels import run_kernel
from runtime_arm.errors import OperatorError
from runtime_arm.netdef import Array, DeviceOption, OperatorDef
from tests.support.exact import assert_same
from tests.support.onnx_nodes import NodeCase, node_cases
from tests.support.operands import caffe2, onnx


def seeded(type: str, inputs: str = "", seed: int = 5, **arguments: Any) -> OperatorDef:
    return caffe2(type, inputs, **arguments).replace(device_option=DeviceOption(random_seed=seed))


def drawn(type: str, **arguments: Any) -> Array:
    return run_kernel(seeded(type, **arguments), [])[0]


def test_uniform_numbers_lie_between_the_bounds() -> None:
    y = drawn("UniformFill", shape=[1000], min=2.0, max=3.0)
    assert 2 <= y.min() < 2.1 < 2.9 < y.max() <= 3
    assert set(drawn("UniformIntFill", shape=[1000], min=-1, max=1).tolist()) == {-1, 0, 1}
    halves = drawn("Float16UniformFill", shape=[1000])
    assert halves.dtype == np.float16
    assert 0 <= halves.min() < 0.1 < 0.9 < halves.max() <= 1


def test_normal_numbers_have_mean_and_deviation() -> None:
    y = drawn("GaussianFill", shape=[10000], mean=3.0, std=0.5)
    assert abs(y.mean() - 3) < 0.03
    assert abs(y.std() - 0.5) < 0.03


def test_filters_are_scaled_by_their_fan() -> None:
    xavier, msra = drawn("XavierFill", shape=[64, 30, 2, 5]), drawn("MSRAFill", shape=[64, 30, 2, 5])
    assert 0.095 < np.abs(xavier).max() <= 0.1  # sqrt(3 / 300)
    assert abs(msra.std() - np.sqrt(2 / 640)) < 0.001


def test_unique_numbers_avoid_the_given_ones() -> None:
    op = seeded("UniqueUniformFill", "X A", min=0, max=9)
    y = run_kernel(op, [np.zeros((2, 3)), np.array([0, 4, 77], np.int32)])[0]
    assert y.dtype == np.int32
    assert set(y.ravel().tolist()) <= {1, 2, 3, 5, 6, 7, 8, 9}
    assert len(set(y.ravel().tolist())) == 6
    with pytest.raises(OperatorError, match="only 2 numbers to choose from, but 3 are wanted"):
        drawn("UniqueUniformFill", shape=[3])


def test_bounds_may_be_inputs() -> None:
    inputs = [np.zeros((3, 4)), np.array([2], np.float32), np.array([3], np.float32)]
    y = run_kernel(seeded("UniformFill", "X L H"), inputs)[0]
    assert y.shape == (3, 4)
    assert 2 <= y.min() < y.max() <= 3


@pytest.mark.parametrize(
    ("type", "arguments"),
    [
        ("UniformFill", {}),
        ("UniformIntFill", {"max": 99}),
        ("GaussianFill", {}),
        ("XavierFill", {}),
        ("MSRAFill", {}),
        ("UniqueUniformFill", {"max": 99}),
    ],
)
def test_equal_seeds_give_equal_blobs(type: str, arguments: Any) -> None:
    assert_same(drawn(type, shape=[4, 4], **arguments), drawn(type, shape=[4, 4], **arguments))
    other = run_kernel(seeded(type, seed=6, shape=[4, 4], **arguments), [])[0]
    assert (other != drawn(type, shape=[4, 4], **arguments)).any()


@pytest.mark.parametrize(
    ("op", "inputs", "rule"),
    [
        (caffe2("UniformFill", "", shape=[1], min=1.0), [], "min must be less than max, got 1.0 and 1.0"),
        (caffe2("UniformFill", "X L"), [np.ones(1), np.ones(1, "f4")], "both be inputs, or neither"),
        (caffe2("UniformFill", "X L H", min=0.0), [np.ones(1), np.zeros(1, "f4"), np.ones(1, "f4")], "not both"),
        (caffe2("UniformFill", "X L H"), [np.ones(1), np.zeros(1, "i4"), np.ones(1, "i4")], "must each be one float32"),
        (caffe2("GaussianFill", "", shape=[1], std=-1.0), [], "std must not be negative"),
        (caffe2("XavierFill", "", shape=[]), [], "must have a dimension 0"),
        (caffe2("MSRAFill", "", shape=[4]), [], "a dimension 1"),
        (caffe2("UniqueUniformFill", "", shape=[1], dtype=1), [], "dtype must be int32 or int64"),
    ],
)
def test_refuses(op: OperatorDef, inputs: Any, rule: str) -> None:
    with pytest.raises(OperatorError, match=rule):
        run_kernel(op, inputs)


@pytest.mark.parametrize("case", node_cases("Bernoulli"))
def test_bernoulli_has_onnx_shapes_and_dtypes(case: NodeCase) -> None:
    y = run_kernel(case.op, case.inputs)[0]
    assert (y.shape, y.dtype) == (case.outputs[0].shape, case.outputs[0].dtype)
    assert set(y.ravel().tolist()) <= {0, 1}


def test_onnx_distributions() -> None:
    uniform = run_kernel(onnx("RandomUniform", "", shape=[10000], low=2.0, high=4.0, seed=1.0), [])[0]
    like = np.zeros((100, 100), np.int8)
    normal = run_kernel(onnx("RandomNormalLike", "X", mean=2.0, scale=0.5, dtype=13), [like])[0]
    assert 2 <= uniform.min() < 2.1 < 3.9 < uniform.max() < 4
    assert normal.dtype == np.float64
    assert abs(normal.mean() - 2) < 0.05
    assert abs(normal.std() - 0.5) < 0.05
    assert abs(run_kernel(onnx("Bernoulli", "P"), [np.full((100, 100), 0.25, "f4")])[0].mean() - 0.25) < 0.05
    draws = run_kernel(onnx("Multinomial", "X", sample_size=1000), [np.log(np.array([[1, 3], [9, 1]], "f4"))])[0]
    assert draws.dtype == np.int32
    np.testing.assert_allclose(draws.mean(axis=1), [0.75, 0.1], atol=0.06)


@pytest.mark.parametrize("type", ["RandomUniform", "RandomNormal"])
def test_onnx_seeds(type: str) -> None:
    op = onnx(type, "", shape=[9], seed=3.0)
    assert_same(run_kernel(op, [])[0], run_kernel(op, [])[0])
    assert (run_kernel(op.with_args(seed=4.0), [])[0] != run_kernel(op, [])[0]).any()
    assert (run_kernel(op.with_args(seed=None), [])[0] != run_kernel(op.with_args(seed=None), [])[0]).any()


def test_probabilities_are_checked() -> None:
    with pytest.raises(OperatorError, match="must be 0 to 1"):
        run_kernel(onnx("Bernoulli", "P"), [np.array([1.5], np.float32)])
