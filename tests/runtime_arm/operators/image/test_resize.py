"""Resizing: NumPy, compared with onnxruntime, engines against reference kernels, refusals."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel
from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import ArgumentError, ResourceError, ShapeError
from runtime_arm.registry.schema import DataDependent
from runtime_arm.registry.shape_inference import infer_operator
from runtime_arm.registry.specs import TensorSpec
from tests.support.onnx_nodes import onnxruntime_outputs
from tests.support.operands import caffe2, onnx, random

MODES = ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"]
NEAREST = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
RESIZED = onnx("Resize", "X - - sizes")
SCALED = onnx("Resize", "X - scales")


images = st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(1, 40), st.integers(1, 40))
factors = st.sampled_from([0.1, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0])


@settings(max_examples=40)
@given(images, factors, factors, st.sampled_from(["NCHW", "NHWC"]), st.sampled_from([np.float32, np.uint8, np.float16]))
def test_resize_nearest_by_numpy(shape: Any, height: float, width: float, order: str, dtype: Any) -> None:
    op = caffe2("ResizeNearest", "X", height_scale=height, width_scale=width, order=order)
    x = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    assert assert_engines_match_reference(op, [x]) == ["NUMPY"]


@settings(max_examples=30)
@given(images, factors, factors, st.sampled_from([np.float32, np.float64]))
def test_upsample_bilinear_by_numpy(shape: Any, height: float, width: float, dtype: Any) -> None:
    op = caffe2("UpsampleBilinear", "X", height_scale=height, width_scale=width)
    x = random(shape, dtype=dtype)
    empty = any(int(np.float32(n) * np.float32(f)) == 0 for n, f in zip(shape[2:], (height, width)))
    assert assert_engines_match_reference(op, [x], terms=4, magnitude=np.abs(x).max()) == ([] if empty else ["NUMPY"])


sizes = st.tuples(st.integers(1, 50), st.integers(1, 50))


@settings(max_examples=150)
@given(
    images,
    sizes,
    st.sampled_from(["nearest", "linear", "cubic"]),
    st.sampled_from(MODES),
    st.sampled_from(NEAREST),
    st.booleans(),
    st.booleans(),
)
def test_resize_by_numpy(
    shape: Any, size: Any, mode: str, where: str, rounding: str, antialias: bool, exclude: bool
) -> None:
    op = RESIZED.with_args(
        axes=[2, 3],
        mode=mode,
        coordinate_transformation_mode=where,
        nearest_mode=rounding,
        antialias=int(antialias),
        exclude_outside=int(exclude),
    )
    x = random(shape)
    inputs = [x, None, None, np.array(size)]
    magnitude = 2 * np.abs(x).max()
    assert assert_engines_match_reference(op, inputs, terms=256, magnitude=magnitude, constants=[3]) == ["NUMPY"]


@settings(max_examples=60)
@given(images, factors, factors, st.sampled_from(["nearest", "linear", "cubic"]))
def test_resize_of_all_axes_by_numpy(shape: Any, height: float, width: float, mode: str) -> None:
    scales = np.array([1, 1, height, width], np.float32)
    inputs = [random(shape), None, scales]
    empty = not np.all(np.floor(np.float32(shape) * scales))
    op = SCALED.with_args(mode=mode)
    engines = assert_engines_match_reference(op, inputs, terms=16, amplification=4, constants=[2])
    assert engines == ([] if empty else ["NUMPY"])


@pytest.mark.parametrize("where", [mode for mode in MODES if mode != "half_pixel_symmetric"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("size", [(1, 1), (3, 7), (10, 10), (13, 4), (20, 33)])
def test_resize_agrees_with_onnxruntime(size: Any, mode: str, where: str) -> None:
    op = RESIZED.with_args(mode=mode, coordinate_transformation_mode=where)
    inputs = [random((1, 2, 10, 11)), None, None, np.array([1, 2, *size])]
    (expected,) = onnxruntime_outputs(op, inputs, [np.float32])
    assert_close(run_kernel(op, inputs, constants=[3])[0], expected, terms=256, magnitude=np.abs(inputs[0]).max())


def test_three_dimensions_and_channels_last() -> None:
    for axes, size in [([2, 3, 4], [3, 9, 4]), ([1, 2], [11, 5]), ([1], [7])]:
        inputs = [random((2, 5, 6, 7, 8)[: max(axes) + 2]), None, None, np.array(size)]
        op = RESIZED.with_args(axes=axes, mode="linear")
        assert assert_engines_match_reference(op, inputs, terms=16, magnitude=4.0, constants=[3]) == ["NUMPY"]


def test_cropping_fills_what_lies_outside() -> None:
    x = np.arange(1, 5, dtype=np.float32).reshape(1, 1, 1, 4)
    op = onnx(
        "Resize",
        "X roi - sizes",
        mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize",
        extrapolation_value=9.0,
        axes=[3],
    )
    inputs = [x, np.array([-0.5, 1], np.float32), None, np.array([5])]
    (y,) = run_kernel(op, inputs, constants=[1, 3])
    np.testing.assert_array_equal(y.ravel(), [9, 9, 1.75, 2.875, 4])
    assert assert_engines_match_reference(op, inputs, constants=[1, 3]) == ["NUMPY"]


def test_integers_are_rounded_and_saturate() -> None:
    x = np.array([[[[0, 255, 0, 255]]]], np.uint8)
    op = RESIZED.with_args(mode="cubic", axes=[3])
    (y,) = run_kernel(op, [x, None, None, np.array([8])], constants=[3])
    (exact,) = run_kernel(op, [x.astype(np.float64), None, None, np.array([8])], constants=[3])
    assert exact.min() < 0
    assert exact.max() > 255
    np.testing.assert_array_equal(y, np.clip(np.rint(exact), 0, 255))


def test_axes_that_keep_their_size_are_copied() -> None:
    inputs = [random((1, 2, 3, 4)), None, None, np.array([1, 2, 3, 4])]
    np.testing.assert_array_equal(run_kernel(RESIZED.with_args(mode="cubic"), inputs, "NUMPY", [3])[0], inputs[0])


def test_planning_stops_at_sizes_that_are_only_known_when_running() -> None:
    with pytest.raises(DataDependent):
        run_kernel(RESIZED, [random((1, 1, 2, 2)), None, None, np.array([1, 1, 4, 4])])


CUBE = caffe2("ResizeNearest3D", "X", temporal_scale=2.0, height_scale=2.0, width_scale=2.0)
PICTURE = random((1, 1, 2, 2))
WIDER = [PICTURE, None, None, np.array([1, 1, 4, 4])]
REFUSALS: Dict[str, Any] = {
    "scales must be positive": (ArgumentError, caffe2("ResizeNearest", "X", height_scale=0.0), [PICTURE]),
    "4 dimensions": (ShapeError, caffe2("ResizeNearest", "X"), [random((2, 3, 4))]),
    "2 float32": (ShapeError, caffe2("ResizeNearest", "X s"), [PICTURE, np.ones(3, np.float32)]),
    "order must be": (ArgumentError, caffe2("ResizeNearest", "X", order="foo"), [PICTURE]),
    "temporal_scale must be 1 or 2": (ArgumentError, CUBE.with_args(temporal_scale=3.0), [random((1, 1, 2, 2, 2))]),
    "5 dimensions": (ShapeError, CUBE, [PICTURE]),
    "must be floats": (ShapeError, caffe2("UpsampleBilinear", "X"), [PICTURE.astype(np.int32)]),
    "either scales or sizes": (ShapeError, onnx("Resize", "X -"), [PICTURE, None]),
    "sizes must have 4 elements, got 2": (ShapeError, RESIZED, [PICTURE, None, None, np.array([4, 4])]),
    "sizes must be positive": (ShapeError, RESIZED, [PICTURE, None, None, np.array([1, 1, 0, 4])]),
    r"positive, got \[1.0, 1.0, -1.0": (ShapeError, SCALED, [PICTURE, None, np.array([1, 1, -1, 1], np.float32)]),
    "mode must be one of nearest, linear, cubic, got 'area'": (ArgumentError, RESIZED.with_args(mode="area"), WIDER),
    "must be one of half_pixel": (ArgumentError, RESIZED.with_args(coordinate_transformation_mode="x"), WIDER),
    "must be one of stretch": (ArgumentError, RESIZED.with_args(keep_aspect_ratio_policy="x"), WIDER),
    "needs numbers": (ShapeError, RESIZED.with_args(mode="linear"), [PICTURE > 0, *WIDER[1:]]),
    "axis 2 is empty and cannot be resized to 4": (ShapeError, RESIZED, [PICTURE[:, :, :0], *WIDER[1:]]),
}


@pytest.mark.parametrize("message", REFUSALS)
def test_refuses(message: str) -> None:
    error, op, inputs = REFUSALS[message]
    with pytest.raises(error, match=message):
        run_kernel(op, inputs, constants=[1, 2, 3])


def test_an_axis_too_large_for_memory_is_refused_before_it_is_computed() -> None:
    scales = TensorSpec.known(np.array([1, 1, 1e11, 1], np.float32))
    with pytest.raises(ResourceError, match=r"Resize\(X, , scales\).*: an axis of \d{12} elements needs"):
        infer_operator(SCALED, [TensorSpec((1, 1, 2, 2), np.uint8), None, scales])


def test_upsample_nearest_repeats_pixels() -> None:
    x = random((2, 3, 4, 5))
    op = caffe2("UpsampleNearest", "X", scale=3)
    expected = np.repeat(np.repeat(x, 3, axis=2), 3, axis=3)
    np.testing.assert_array_equal(run_kernel(op, [x])[0], expected)
    assert assert_engines_match_reference(op, [x]) == ["NUMPY"]
    with pytest.raises(ArgumentError, match="scale must be positive"):
        run_kernel(op.with_args(scale=0), [x])
