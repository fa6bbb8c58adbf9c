"""Caffe's own operators: the fast kernel, properties, refusals. Recorded runs are in tests/exporter/caffe."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np
import pytest

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel
from device_tests.suite.tolerance import assert_close, assert_each_close
from runtime_arm.errors import ArmnetError
from runtime_arm.netdef import Argument, OperatorDef
from tests.support.operands import random


def caffe(type: str, inputs: int = 1, **arguments: Any) -> OperatorDef:
    args = tuple(Argument.of(name, value) for name, value in arguments.items())
    return OperatorDef(type, tuple(f"X{index}" for index in range(inputs)), ("Y",), args, domain="caffe")


def run(op: OperatorDef, *inputs: Any) -> Any:
    return run_kernel(op, inputs)[0]


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"power": 2.0, "shift": 1.0},
        {"power": 0.5, "scale": 2.0, "shift": 9.0},
        {"power": 0.0},
        {"scale": 0.0, "shift": 3.0},
        {"scale": 0.0, "power": -1.0},
    ],
)
def test_every_engine_of_power_matches_the_reference(arguments: Dict[str, float]) -> None:
    assert assert_engines_match_reference(caffe("Power", **arguments), [random((3, 40))]) == ["NUMPY"]


def test_of_equal_elements_the_last_comes_first() -> None:
    x = np.array([[1, 3, 3, 2]], np.float32)
    np.testing.assert_array_equal(run(caffe("ArgMax", axis=1, top_k=3), x), [[2, 1, 3]])
    np.testing.assert_array_equal(run(caffe("ArgMax", top_k=2, out_max_val=1), x), [[[2, 1], [3, 3]]])


def test_interp_keeps_corners_and_is_linear_between() -> None:
    x = np.array([[[[0, 3], [6, 9]]]], np.float32)
    y = run(caffe("Interp", height=2, width=4), x)
    np.testing.assert_array_equal(y[0, 0], [[0, 1, 2, 3], [6, 7, 8, 9]])
    np.testing.assert_array_equal(run(caffe("Interp", zoom_factor=3), x)[0, 0, 0], [0, 1, 2, 3])
    assert run(caffe("Interp", shrink_factor=2), np.ones((1, 1, 5, 5), np.float32)).shape == (1, 1, 3, 3)


def test_normalize_gives_every_pixel_the_norm_of_its_scale() -> None:
    x = random((2, 3, 4, 5))
    y = run(caffe("Normalize", 2), x, np.array([2], np.float32))
    assert_each_close(np.sqrt((y**2).sum(1)), np.full((2, 4, 5), 2), terms=3)
    whole = run(caffe("Normalize", 2, across_spatial=1), x, np.ones(3, np.float32))
    assert_each_close((whole**2).sum((1, 2, 3)), np.ones(2), terms=3 * 4 * 5)


def test_prior_boxes_lie_around_pixels() -> None:
    op = caffe("PriorBox", 2, min_size=[2.0], max_size=[8.0], aspect_ratio=[4.0], flip=1, variance=[0.5])
    boxes, variances = run(op, np.zeros((1, 1, 1, 1), np.float32), np.zeros((1, 3, 8, 8), np.float32))[0]
    sizes = [(0.25, 0.25), (0.5, 0.5), (0.5, 0.125), (0.125, 0.5)]
    wanted: List[float] = [edge for w, h in sizes for edge in (0.5 - w / 2, 0.5 - h / 2, 0.5 + w / 2, 0.5 + h / 2)]
    assert_each_close(boxes, wanted)
    assert (variances == 0.5).all()


def test_softmax_loss_leaves_ignored_labels_out() -> None:
    x = np.log(np.array([[1, 3], [1, 1], [3, 1]], np.float32))
    label = np.array([1, 0, 255], np.float32)
    loss = run(caffe("SoftmaxWithLoss", 2, ignore_label=255), x, label)
    assert_each_close(loss, -(np.log(0.75) + np.log(0.5)) / 2, terms=2)


@pytest.mark.parametrize(
    ("op", "shapes"),
    [
        (caffe("Interp", pad_beg=1), [(1, 1, 2, 2)]),
        (caffe("Interp", pad_beg=-2), [(1, 1, 2, 2)]),
        (caffe("Crop", 2, axis=2, offset=[3]), [(1, 1, 4, 4), (1, 1, 2, 2)]),
        (caffe("ArgMax", top_k=5), [(2, 4)]),
        (caffe("Reshape", shape=[-1, -1]), [(4,)]),
        (caffe("Reshape", shape=[3]), [(4,)]),
        (caffe("SPP", pyramid_height=11), [(1, 1, 4, 4)]),
        (caffe("Exp", base=-2.0), [(1,)]),
        (caffe("Reduction", operation="MAX"), [(2,)]),
        (caffe("BatchReindex", 2), [(2, 2), (2, 2)]),
        (caffe("PriorBox", 2), [(1, 1, 1, 1), (1, 1, 8, 8)]),
        (caffe("DetectionOutput", 3), [(1, 4), (1, 2), (1, 2, 4)]),
    ],
)
def test_mistakes_are_refused(op: OperatorDef, shapes: Any) -> None:
    with pytest.raises(ArmnetError, match=op.type):
        run(op, *[np.zeros(shape, np.float32) for shape in shapes])


def mean_of_cell(x: Any, roi: Any, scale: float, output: int, group: int, h: int, w: int) -> float:
    """One output of PSROIPooling, pixel by pixel."""
    n, left, top, right, bottom = roi.tolist()
    edges = [
        np.round(left) * scale,
        np.round(top) * scale,
        (np.round(right) + 1) * scale,
        (np.round(bottom) + 1) * scale,
    ]
    steps = [max(edges[2 + axis] - edges[axis], 0.1) / group for axis in range(2)]
    columns, rows = (
        [
            pixel
            for pixel in range(x.shape[3 - axis])
            if np.floor(edges[axis] + cell * steps[axis]) <= pixel < np.ceil(edges[axis] + (cell + 1) * steps[axis])
        ]
        for axis, cell in ((0, w), (1, h))
    )
    values = [x[int(n), (output * group + h) * group + w, row, column] for row in rows for column in columns]
    return float(np.mean(values)) if values else 0.0


def test_every_cell_pools_its_own_channel() -> None:
    x = random((2, 3 * 4, 9, 7))
    rois = np.array([[0, 1, 2, 11, 14], [1, 0, 0, 3, 3], [1, 20, 20, 30, 30], [0, 4, 4, 2, 2]], np.float32)
    y = run(caffe("PSROIPooling", 2, output_dim=3, group_size=2, spatial_scale=0.5), x, rois)
    expected = [
        [[[mean_of_cell(x, roi, 0.5, c, 2, h, w) for w in range(2)] for h in range(2)] for c in range(3)]
        for roi in rois
    ]
    assert_close(y, np.array(expected, np.float32), terms=4 * 4)


def test_a_mask_puts_pixels_back_in_place() -> None:
    x = np.array([[[[5, 7]], [[6, 8]]]], np.float32)
    mask = np.array([[[[1, 3]], [[0, 6]]]], np.float32)
    y = run(caffe("Upsample", 2), x, mask)
    np.testing.assert_array_equal(y, [[[[0, 5, 0, 7], [0, 0, 0, 0]], [[6, 0, 0, 0], [0, 0, 8, 0]]]])
    assert run(caffe("Upsample", 2, scale_w=3, pad_out_h=1, upsample_w=7), x, mask).shape == (1, 2, 1, 7)
    with pytest.raises(ArmnetError, match="beyond the 1 x 4"):
        run(caffe("Upsample", 2, scale_h=1), x, mask)
