"""Normalisations: NumPy, engines against the reference kernels, refusals."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel
from device_tests.suite.tolerance import assert_close, assert_each_close
from runtime_arm.errors import ArgumentError, ShapeError
from tests.support.operands import caffe2, onnx, random

# Centring leaves errors relative to |X|, at most 8 here; scaling multiplies them by up to 1 / sqrt(epsilon), 3.2.
CENTRED = 8 * 3.2


def batch(channels: int, dtype: Any = np.float32) -> List[Any]:
    """scale, bias, mean, variance"""
    variance = np.abs(random([channels], 4, dtype=dtype)) + dtype(0.1)
    return [*(random([channels], seed, dtype=dtype) for seed in (1, 2, 3)), variance]


images = st.tuples(st.integers(0, 3), st.integers(1, 9), st.integers(1, 8), st.integers(1, 8))
dtypes = st.sampled_from([np.float32, np.float64])


@settings(max_examples=30)
@given(images, dtypes, st.sampled_from(["NCHW", "NHWC"]), st.booleans())
def test_spatial_bn_by_numpy(shape: Any, dtype: Any, order: str, constant: bool) -> None:
    op = caffe2("SpatialBN", "X s b m v", is_test=1, order=order)
    x, parameters = random(shape, dtype=dtype), batch(shape[3 if order == "NHWC" else 1], dtype)
    scale, bias, mean, variance = (np.abs(p) for p in parameters)
    magnitude = ((np.abs(x).max(initial=0) + mean) * scale / np.sqrt(variance) + bias).max()
    constants = range(1, 5) if constant else ()
    assert assert_engines_match_reference(op, [x, *parameters], magnitude=magnitude, constants=constants) == ["NUMPY"]


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_affine_channel_by_numpy(order: str) -> None:
    inputs = [random((2, 3, 4, 3)), *batch(3)[:2]]
    assert assert_engines_match_reference(caffe2("AffineChannel", "X s b", order=order), inputs) == ["NUMPY"]


@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 7), (2, 3, 2, 3, 4)])
def test_spatial_bn_of_any_rank(shape: Any) -> None:
    op = caffe2("SpatialBN", "X s b m v", is_test=1)
    assert assert_engines_match_reference(op, [random(shape), *batch(shape[1])], terms=16) == ["NUMPY"]


def test_spatial_bn_trains_by_a_kernel_of_its_own() -> None:
    op = caffe2("SpatialBN", "X s b m v", "Y m v sm si", is_test=0)
    assert assert_engines_match_reference(op, [random((2, 3, 4, 4)), *batch(3)], terms=32) == ["TRAINING"]


@settings(max_examples=30)
@given(images, dtypes, st.sampled_from(["Y", "Y mean", "Y mean inverse"]))
def test_instance_norm_by_numpy(shape: Any, dtype: Any, outputs: str) -> None:
    op = caffe2("InstanceNorm", "X s b", outputs, epsilon=0.1)
    inputs = [random(shape, offset=3.0, dtype=dtype), *batch(shape[1], dtype)[:2]]
    assert assert_engines_match_reference(op, inputs, terms=shape[2] * shape[3], amplification=CENTRED) == ["NUMPY"]


@settings(max_examples=30)
@given(images, dtypes, st.integers(0, 3), st.booleans())
def test_layer_norm_by_numpy(shape: Any, dtype: Any, axis: int, is_affine: bool) -> None:
    op = caffe2("LayerNorm", "X g b", "Y mean std", axis=axis, elementwise_affine=int(is_affine), epsilon=0.1)
    parameters = [random(shape[axis:], seed, dtype=dtype) for seed in (1, 2)]
    inputs = [random(shape, offset=3.0, dtype=dtype), *parameters]
    assert assert_engines_match_reference(op, inputs, terms=256, amplification=CENTRED) == ["NUMPY"]


@settings(max_examples=30)
@given(images, st.integers(-4, 3), st.integers(0, 4), st.booleans(), st.booleans())
def test_layer_normalization_by_numpy(shape: Any, axis: int, rank: int, biased: bool, observed: bool) -> None:
    op = onnx("LayerNormalization", "X s b" if biased else "X s", "Y M I" if observed else "Y", axis=axis, epsilon=0.1)
    parameters = [random(shape[4 - rank :], seed) for seed in range(1 + biased)]
    inputs = [random(shape, offset=3.0), *parameters]
    assert assert_engines_match_reference(op, inputs, terms=256, amplification=CENTRED) == ["NUMPY"]


@pytest.mark.parametrize("epsilon", [0.0, -1.0, 1e-5])
@pytest.mark.parametrize("row", [[3.0] * 4, [np.nan, 1, 2, 3], [np.inf, 1, 2, 3], [0.0, 1e30, 2e30, 3e30]])
def test_a_row_alone_is_normalised_like_rows_among_others(row: List[float], epsilon: float) -> None:
    op = onnx("LayerNormalization", "X s", epsilon=epsilon)
    alone, pair = (np.asarray([row] * count, np.float32) for count in (1, 2))
    results = [run_kernel(op, [x, np.ones(4, np.float32)], "NUMPY")[0][0] for x in (alone, pair)]
    np.testing.assert_array_equal(*results)


@settings(max_examples=30)
@given(images, dtypes, st.integers(-4, 3))
def test_rms_normalization_by_numpy(shape: Any, dtype: Any, axis: int) -> None:
    op = onnx("RMSNormalization", "X s", axis=axis)
    inputs = [random(shape, dtype=dtype), random(shape[-1:], 1, dtype=dtype)]
    assert assert_engines_match_reference(op, inputs, terms=256, amplification=4) == ["NUMPY"]


@settings(max_examples=30)
@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), st.integers(1, 9), dtypes, st.booleans())
def test_group_norm_by_numpy(images: int, groups: int, width: int, pixels: int, dtype: Any, is_onnx: bool) -> None:
    inputs = [random((images, groups * width, pixels), offset=2.0, dtype=dtype), *batch(groups * width, dtype)[:2]]
    if is_onnx:
        op = onnx("GroupNormalization", "X s b", num_groups=groups, epsilon=0.1)
    else:
        op = caffe2("GroupNorm", "X s b", "Y mean inverse", group=groups, epsilon=0.1)
    assert assert_engines_match_reference(op, inputs, terms=width * pixels, amplification=CENTRED) == ["NUMPY"]


@settings(max_examples=40)
@given(images, st.integers(1, 12), st.sampled_from(["NCHW", "NHWC"]), st.sampled_from([0.0, 0.5, 0.75]), st.booleans())
def test_lrn_by_numpy(shape: Any, size: int, order: str, beta: float, with_scale: bool) -> None:
    op = caffe2("LRN", "X", "Y scale" if with_scale else "Y", size=size, alpha=0.5, beta=beta, bias=2.0, order=order)
    assert assert_engines_match_reference(op, [random(shape)], terms=size) == ["NUMPY"]


def test_an_lrn_wider_than_its_channels_takes_no_longer() -> None:
    huge, wide = (caffe2("LRN", "X", size=size, alpha=size / 3, beta=0.5, bias=2.0) for size in (2**31 - 1, 9))
    x = random((2, 4, 3))
    for engine in ("REFERENCE", "NUMPY"):
        assert_each_close(*(run_kernel(op, [x], engine)[0] for op in (huge, wide)), terms=4)


def test_float16_is_left_to_the_reference_kernel() -> None:
    op = caffe2("InstanceNorm", "X s b")
    inputs = [random((2, 3, 5), dtype=np.float16), random([3], 1, dtype=np.float16), random([3], 2, dtype=np.float16)]
    assert assert_engines_match_reference(op, inputs) == []


def test_planar_yuv_uses_the_first_row() -> None:
    x = np.arange(12, dtype=np.float32).reshape(2, 3, 2, 1)
    mean, deviation = np.float32([[0, 1, 2], [9, 9, 9]]), np.float32([[1, 2, 4], [9, 9, 9]])
    (y,) = run_kernel(caffe2("NormalizePlanarYUV", "X M S"), [x, mean, deviation])
    np.testing.assert_array_equal(y.ravel(), np.float32([0, 1, 0.5, 1, 0.5, 0.75, 6, 7, 3.5, 4, 2, 2.25]))


def test_batch_moments_are_means_of_values_and_squares() -> None:
    x = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    mean, square = run_kernel(caffe2("BatchMoments", "X", "mu var"), [x])
    np.testing.assert_array_equal(mean, np.float32([3.5, 5.5, 7.5]))
    np.testing.assert_array_equal(square, np.float32([21.5, 39.5, 65.5]))


def test_onnx_batch_normalization_of_a_vector_has_one_channel() -> None:
    op = onnx("BatchNormalization", "X s b m v", epsilon=0.0)
    one = [np.float32([value]) for value in (2, 1, 3, 4)]
    (y,) = run_kernel(op, [np.float32([3, 5, 7]), *one])
    np.testing.assert_array_equal(y, np.float32([1, 3, 5]))


BATCH_NORM = caffe2("SpatialBN", "X s b m v", is_test=1)
REFUSALS: Dict[str, Any] = {
    "is_test": (ArgumentError, BATCH_NORM.with_args(is_test=None), [random((2, 3, 4)), *batch(3)]),
    "with is_test=0 there must be 5": (ArgumentError, BATCH_NORM.with_args(is_test=0), [random((2, 3, 4)), *batch(3)]),
    "3 elements": (ShapeError, BATCH_NORM, [random((2, 3, 4)), *batch(4)]),
    "2 dimensions": (ShapeError, BATCH_NORM, [random((3,)), *batch(3)]),
    "floats": (ShapeError, BATCH_NORM, [np.zeros((2, 3), np.int32), *batch(3)]),
    "NCHW or NHWC": (ArgumentError, caffe2("InstanceNorm", "X s b", order="HWC"), [random((2, 3, 4)), *batch(3)[:2]]),
    "negative": (ArgumentError, caffe2("InstanceNorm", "X s b", epsilon=-1.0), [random((2, 3, 4)), *batch(3)[:2]]),
    "be divided into 2 groups": (
        ArgumentError,
        caffe2("GroupNorm", "X s b", group=2),
        [random((2, 3, 4)), *batch(3)[:2]],
    ),
    "be divided into 0 groups": (
        ArgumentError,
        caffe2("GroupNorm", "X s b", group=0),
        [random((2, 3, 4)), *batch(3)[:2]],
    ),
    "out of range": (ArgumentError, caffe2("LayerNorm", "X", "Y m s", axis=3), [random((2, 3, 4))]),
    "needs gamma": (ShapeError, caffe2("LayerNorm", "X", "Y m s", elementwise_affine=1), [random((2, 3))]),
    "must broadcast": (ShapeError, onnx("LayerNormalization", "X s"), [random((2, 3)), random((2,))]),
    "stash_type": (ArgumentError, onnx("LayerNormalization", "X s", stash_type=2), [random((2, 3)), random((3,))]),
    "size must be": (ArgumentError, caffe2("LRN", "X", size=0), [random((2, 3, 4))]),
    "'size' is required": (ArgumentError, caffe2("LRN", "X"), [random((2, 3, 4))]),
    "3 dimensions": (ShapeError, caffe2("LRN", "X", size=3), [random((2, 3))]),
    "p must be 1 or 2": (ArgumentError, caffe2("LpNorm", "X", p=3), [random((3,))]),
    "average of no elements": (ShapeError, caffe2("LpNorm", "X", average=1), [random((0,))]),
    "training_mode": (ShapeError, onnx("BatchNormalization", "X s b m v", "Y M"), [random((2, 3)), *batch(3)]),
}


@pytest.mark.parametrize("message", REFUSALS)
def test_refuses(message: str) -> None:
    error, op, inputs = REFUSALS[message]
    with pytest.raises(error, match=message):
        run_kernel(op, inputs)


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_channel_stats_are_sums(order: str) -> None:
    x = random((2, 3, 4, 5)).astype(np.float32)
    y = run_kernel(caffe2("ChannelStats", "X", "s q", order=order), [x])
    axes = (0, 2, 3) if order == "NCHW" else (0, 1, 2)
    for actual, terms in zip(y, (x, np.square(x))):
        assert_close(actual, terms.astype(np.float64).sum(axes).astype(np.float32), terms=40, magnitude=40)
