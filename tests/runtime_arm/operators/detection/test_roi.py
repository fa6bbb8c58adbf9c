"""Regions of interest: compared with onnxruntime, identities, refusals."""

from __future__ import annotations

from typing import Any, Tuple

import numpy as np
import pytest

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel
from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import ArgumentError, ShapeError
from runtime_arm.execution.executor import Executor
from runtime_arm.netdef import NetDef, OperatorDef
from tests.support.onnx_nodes import onnxruntime_outputs


def regions(count: int) -> Any:
    corners = np.random.default_rng(0).uniform(-3, 30, (count, 2, 2))
    return np.sort(corners, axis=1).reshape(count, 4).astype(np.float32)


X = np.random.default_rng(1).standard_normal((2, 3, 12, 14)).astype(np.float32)


@pytest.mark.parametrize(
    "attributes",
    [
        {"output_height": 3, "output_width": 4, "sampling_ratio": 2},
        {"spatial_scale": 0.5, "output_height": 2},
        {"output_width": 5, "coordinate_transformation_mode": "output_half_pixel"},
        {"output_height": 3, "output_width": 3, "mode": "max", "sampling_ratio": 2},
    ],
)
def test_roi_align_agrees_with_onnxruntime(attributes: Any) -> None:
    op = OperatorDef.of("RoiAlign", ["X", "rois", "batch"], ["Y"], domain="onnx", **attributes)
    inputs = [X, regions(9), np.array([0, 1] * 4 + [0])]
    assert_close(run_kernel(op, inputs)[0], onnxruntime_outputs(op, inputs, [np.float32])[0], terms=4096)


@pytest.mark.parametrize("samples", [0, 1, 2])
@pytest.mark.parametrize("size", [(1, 1), (7, 7), (3, 5)])
def test_products_agree_with_direct_sums(size: Tuple[int, int], samples: int) -> None:
    boxes = np.vstack([regions(30), [[-9, -9, -5, -4], [50, 50, 60, 60], [3, 3, 3, 3], [2, 9, 2, 1]]]).astype(
        np.float32
    )
    batch = np.arange(len(boxes)) % 2
    for mode in ("half_pixel", "output_half_pixel"):
        arguments: Any = {"output_height": size[0], "output_width": size[1], "coordinate_transformation_mode": mode}
        op = OperatorDef.of("RoiAlign", ["X", "R", "B"], ["Y"], domain="onnx", sampling_ratio=samples, **arguments)
        assert assert_engines_match_reference(op, [X, boxes, batch], terms=4096) == ["PRODUCTS"]
    given = {"pooled_h": size[0], "pooled_w": size[1], "sampling_ratio": samples, "spatial_scale": 0.5}
    rows = np.hstack([batch[:, None].astype(np.float32), boxes])
    op = OperatorDef.of("RoIAlign", ["X", "R"], ["Y"], **given)
    assert assert_engines_match_reference(op, [X, rows], terms=4096) == ["PRODUCTS"]


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
@pytest.mark.parametrize("samples", [0, 1, 2])
@pytest.mark.parametrize("mode", ["half_pixel", "output_half_pixel"])
def test_pixels_that_are_not_finite_spoil_what_reads_them(mode: str, samples: int, wrong: float) -> None:
    """onnxruntime also reads the neighbours of no weight, of samples that lie on a pixel."""
    boxes = np.round(np.vstack([regions(30), [[0, 0, 4, 4], [0.5, 0.5, 4.5, 4.5], [-8, -8, 4, 4]]]) * 2) / 2
    x = X.copy()
    x[:, 1, [0, 5, 5, 11], [0, 3, 9, 13]] = wrong
    op = OperatorDef.of(
        "RoiAlign", ["X", "R", "B"], ["Y"], domain="onnx", coordinate_transformation_mode=mode, sampling_ratio=samples
    )
    op = op.with_args(output_height=4, output_width=4)
    inputs = [x, boxes.astype(np.float32), np.arange(len(boxes)) % 2]
    assert assert_engines_match_reference(op, inputs, terms=4096) == ["PRODUCTS"]
    (y,), (theirs,) = run_kernel(op, inputs), onnxruntime_outputs(op, inputs, [np.float32])
    finite = np.isfinite(theirs)
    assert finite[:, 1].any()
    assert not finite[:, 1].all()
    assert_close(y[finite], theirs[finite], terms=4096)
    share = run_kernel(op, [np.where(np.isfinite(x), 0, 1).astype(np.float32), *inputs[1:]])[0]
    np.testing.assert_array_equal(np.isfinite(y), share == 0)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_regions_that_are_not_finite_have_no_number_of_samples(wrong: float) -> None:
    boxes, batch = np.array([[0, 0, wrong, 4]], np.float32), np.zeros(1, np.int64)
    net = NetDef.from_text('net "": x, r, b -> y\n onnx.RoiAlign(x, r, b) -> y')
    with pytest.raises(ShapeError, match="the regions must be finite"):
        Executor(net, {}).run({"x": X, "r": boxes, "b": batch}, ["y"])


@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_max_roi_pool_agrees_with_onnxruntime(scale: float) -> None:
    op = OperatorDef.of("MaxRoiPool", ["X", "rois"], ["Y"], domain="onnx", pooled_shape=[3, 4], spatial_scale=scale)
    inputs = [X, np.hstack([np.array([[0], [1], [1], [0]], np.float32), regions(4)])]
    assert_close(run_kernel(op, inputs)[0], onnxruntime_outputs(op, inputs, [np.float32])[0])


def test_a_rotated_region_of_angle_0_is_an_ordinary_region() -> None:
    box = np.array([[1, 2, 3, 10, 9]], np.float32)
    turned = np.array([[1, 6, 6, 8, 6, 0]], np.float32)
    arguments = {"pooled_h": 2, "pooled_w": 3, "sampling_ratio": 2}
    straight = run_kernel(OperatorDef.of("RoIAlign", ["X", "R"], ["Y"], **arguments), [X, box])[0]
    y = run_kernel(OperatorDef.of("RoIAlignRotated", ["X", "R"], ["Y"], **arguments), [X, turned])[0]
    assert_close(y, straight, terms=16)


@pytest.mark.parametrize(
    ("op", "rois", "rule"),
    [
        (OperatorDef.of("RoIAlign", ["X", "R"], ["Y"]), [[2, 0, 0, 4, 4]], "batch indices must be 0 to 1"),
        (OperatorDef.of("RoIAlign", ["X", "R"], ["Y"]), [[0, 0, 4, 4]], "need a batch of one"),
        (OperatorDef.of("RoIAlign", ["X", "R"], ["Y"]), [[0, 4, 4]], "rows of 4 or 5 numbers"),
        (OperatorDef.of("RoIPool", ["X", "R"], ["Y"], pooled_h=0), [[0, 0, 0, 4, 4]], "must be at least 1"),
        (
            OperatorDef.of("MaxRoiPool", ["X", "R"], ["Y"], domain="onnx"),
            [[0, 0, 0, 4, 4]],
            "pooled_shape must have two",
        ),
    ],
)
def test_refuses(op: OperatorDef, rois: Any, rule: str) -> None:
    with pytest.raises((ShapeError, ArgumentError), match=rule):
        run_kernel(op, [X, np.array(rois, np.float32)])
