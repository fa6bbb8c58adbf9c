"""Boxes, proposals, suppression: compared with onnxruntime, worked examples, refusals."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest

from device_tests.suite.kernels import run_kernel, specs_of
from runtime_arm.errors import OperatorError
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.detection import tflite
from runtime_arm.registry.schema import DataDependent, lookup
from tests.support.exact import assert_same
from tests.support.onnx_nodes import onnxruntime_outputs


def detections(seed: int, batch: int = 2, classes: int = 3, count: int = 60) -> List[Any]:
    draw = np.random.default_rng(seed)
    corner, size = draw.uniform(0, 20, (batch, count, 2)), draw.uniform(1, 12, (batch, count, 2))
    boxes = np.concatenate([corner, corner + size], axis=2)
    return [boxes.astype(np.float32), draw.uniform(0, 1, (batch, classes, count)).astype(np.float32)]


@pytest.mark.parametrize("center", [0, 1])
@pytest.mark.parametrize("seed", range(5))
def test_suppression_agrees_with_onnxruntime(seed: int, center: int) -> None:
    boxes, scores = detections(seed)
    inputs = [boxes, scores, np.array([9]), np.array([0.3], np.float32), np.array([0.2], np.float32)]
    op = OperatorDef.of("NonMaxSuppression", ["b", "s", "m", "i", "t"], ["Y"], domain="onnx", center_point_box=center)
    assert_same(lookup(op).evaluate(op, inputs)[0], onnxruntime_outputs(op, inputs, ["i8"])[0])


def test_equal_scores_are_taken_in_order_and_nothing_is_kept_by_default() -> None:
    boxes = np.array([[[0, 0, 1, 1], [5, 5, 6, 6], [9, 9, 10, 10]]], np.float32)
    scores = np.full((1, 1, 3), 0.5, np.float32)
    op = OperatorDef.of("NonMaxSuppression", ["b", "s", "m"], ["Y"], domain="onnx")
    assert lookup(op).evaluate(op, [boxes, scores, np.array([2])])[0].tolist() == [[0, 0, 0], [0, 0, 1]]
    assert lookup(op).evaluate(op, [boxes, scores, None])[0].shape == (0, 3)


def test_agnostic_boxes_without_background_serve_every_class() -> None:
    boxes = np.array([[0, 0, 9, 9], [20, 20, 29, 29]], np.float32)
    scores = np.array([[0.9, 0.1, 0], [0.2, 0.8, 0]], np.float32)
    op = OperatorDef.of(
        "BoxWithNMSLimit",
        ["s", "b"],
        ["S", "B", "C"],
        cls_agnostic_bbox_reg=1,
        input_boxes_include_bg_cls=0,
        score_thresh=0.15,
    )
    kept, corners, classes = lookup(op).evaluate(op, [scores, boxes])
    assert kept.tolist() == pytest.approx([0.9, 0.2, 0.8])
    assert corners[:, 0].tolist() == [0, 20, 20]
    assert classes.tolist() == [1, 1, 2]


def test_no_boxes_at_all() -> None:
    op = OperatorDef.of("BoxWithNMSLimit", ["s", "b"], ["S", "B", "C", "N", "K", "Z"])
    outputs = lookup(op).evaluate(op, [np.zeros((0, 3), np.float32), np.zeros((0, 12), np.float32)])
    assert [y.shape for y in outputs] == [(0,), (0, 4), (0,), (1,), (0,), (1, 3)]


def test_proposals_are_distributed_by_size_and_collected_by_score() -> None:
    sides = [56, 112, 224, 448, 1000]
    rois = np.array([[0, 0, 0, side - 1, side - 1] for side in sides], np.float32)
    distribute = OperatorDef.of("DistributeFpnProposals", ["r"], ["f2", "f3", "f4", "f5", "i"])
    *levels, order = lookup(distribute).evaluate(distribute, [rois[::-1]])
    assert [(level[:, 3] + 1).tolist() for level in levels] == [[56], [112], [224], [1000, 448]]
    assert_same(np.concatenate(levels)[order], rois[::-1])
    collect = OperatorDef.of("CollectRpnProposals", ["a", "b", "s", "t"], ["Y"], rpn_max_level=3, rpn_post_nms_topN=2)
    scores = np.array([0.1, 0.9, 0.2, 0.3, 0.8], np.float32)
    (best,) = run_kernel(collect, [rois[:2], rois[2:], scores[:2], scores[2:]])
    assert_same(best, rois[[1, 4]])


def test_a_keypoint_lies_between_pixels() -> None:
    rows, columns = np.mgrid[0:6, 0:6]
    heatmap = -((columns - 2.25) ** 2) - (rows - 3.5) ** 2
    op = OperatorDef.of("HeatmapMaxKeypoint", ["h", "b"], ["Y"], should_output_softmax=1)
    (y,) = run_kernel(op, [heatmap[np.newaxis, np.newaxis].astype(np.float32), np.array([[0, 0, 6, 6]], np.float32)])
    assert y[0, :3, 0].tolist() == pytest.approx([2.75, 4.0, 0.0])
    assert 0 < y[0, 3, 0] < 1


BOXES = OperatorDef.of("BoxWithNMSLimit", ["s", "b"], ["S", "B", "C"])
PROPOSE = OperatorDef.of("GenerateProposals", ["s", "d", "i", "a"], ["r", "p"])
TRANSFORM = OperatorDef.of("BBoxTransform", ["r", "d", "i"], ["Y"])


@pytest.mark.parametrize(
    ("op", "shapes", "rule"),
    [
        (BOXES, [(4, 3), (4, 8)], "must have 12 columns"),
        (BOXES, [(4, 3), (5, 12)], "the same number of rows"),
        (BOXES.with_args(rotated=1, soft_nms_enabled=1), [(4, 3), (4, 15)], "rotated boxes exclude"),
        (TRANSFORM.with_args(rotated=1, angle_bound_hi=45), [(4, 5), (4, 10), (1, 3)], "multiple of 180"),
        (BOXES.with_args(soft_nms_method="hard"), [(4, 3), (4, 12)], "linear or gaussian"),
        (PROPOSE, [(1, 3, 4, 4), (1, 12, 4, 5), (1, 3), (3, 4)], "one channel for each channel"),
        (PROPOSE, [(1, 3, 4, 4), (1, 12, 4, 4), (1, 3), (2, 4)], "one row for each channel"),
        (PROPOSE.with_args(spatial_scale=0.0), [(1, 3, 4, 4), (1, 12, 4, 4), (1, 3), (3, 4)], "must be positive"),
        (TRANSFORM, [(4, 4), (4, 8), (2, 3)], "must start with the image's index"),
        (TRANSFORM, [(4, 4), (4, 7), (1, 3)], "4 columns"),
        (TRANSFORM.with_args(weights=[1.0]), [(4, 4), (4, 8), (1, 3)], "weights must be 4 numbers"),
        (OperatorDef.of("HeatmapMaxKeypoint", ["h", "b"], ["Y"]), [(1, 2, 3, 4), (1, 4)], "must be square"),
        (OperatorDef.of("CollectRpnProposals", ["a", "s"], ["Y"]), [(2, 5), (2,)], "5 levels"),
        (OperatorDef.of("DistributeFpnProposals", ["r"], ["a", "i"]), [(2, 5)], "has 5 outputs with these levels"),
        (
            OperatorDef.of("NonMaxSuppression", ["b", "s"], ["Y"], domain="onnx"),
            [(1, 4, 4), (1, 2, 5)],
            "agree in batch",
        ),
    ],
)
def test_refuses(op: OperatorDef, shapes: Any, rule: str) -> None:
    with pytest.raises(OperatorError, match=rule):
        run_kernel(op, [np.zeros(shape, np.float32) for shape in shapes])


def test_sizes_are_unknown_before_running() -> None:
    boxes, scores = detections(0)
    op = OperatorDef.of("NonMaxSuppression", ["b", "s"], ["Y"], domain="onnx")
    with pytest.raises(DataDependent):
        lookup(op).infer(op, specs_of([boxes, scores]))


def test_boxes_of_a_missing_image_are_refused() -> None:
    rois = np.array([[1, 0, 0, 2, 2]], np.float32)
    with pytest.raises(OperatorError, match="one of 1 images"):
        run_kernel(TRANSFORM, [rois, np.zeros((1, 4), np.float32), np.ones((1, 3), np.float32)])


@pytest.mark.parametrize("regular", [False, True])
def test_boxes_are_suppressed_alike_however_many_are_compared_at_once(
    regular: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(8)
    boxes = rng.normal(0, 1, (1, 300, 4)).astype(np.float32)
    anchors = rng.uniform(0.2, 0.8, (300, 4)).astype(np.float32)
    scores = rng.integers(0, 40, (1, 300, 4)).astype(np.float32) / 40  # with ties
    op = OperatorDef.of(
        "DetectionPostProcess",
        ["boxes", "scores", "anchors"],
        ["y", "classes", "found", "count"],
        domain="tflite",
        max_detections=30,
        max_classes_per_detection=1,
        use_regular_nms=int(regular),
        nms_score_threshold=0.1,
        nms_iou_threshold=0.4,
        num_classes=3,
        y_scale=10.0,
        x_scale=10.0,
        h_scale=5.0,
        w_scale=5.0,
    )
    results = []
    for at_once in (3, 64, 1000):
        monkeypatch.setattr(tflite, "_AT_ONCE", at_once)
        results.append(run_kernel(op, [boxes, scores, anchors]))
    for others in results[1:]:
        for one, other in zip(results[0], others):
            np.testing.assert_array_equal(one, other)
    assert results[0][3][0] > 3
