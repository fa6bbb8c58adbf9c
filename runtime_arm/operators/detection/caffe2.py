"""Caffe2's operators on boxes and scores: BBoxTransform, BoxWithNMSLimit, HeatmapMaxKeypoint, RMACRegions."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common import boxes as box
from runtime_arm.operators.common import rotated_boxes as rotated
from runtime_arm.operators.common.multiply_adds import of_terms
from runtime_arm.operators.common.rotated_boxes import angles_of
from runtime_arm.operators.detection.introsort import best_first
from runtime_arm.records import NamedTuple
from runtime_arm.registry.schema import DataDependent, operator, require
from runtime_arm.registry.specs import TensorSpec


def plus_one(op: OperatorDef) -> int:
    """1 if boxes count pixels (``legacy_plus_one``, the default), else 0."""
    return int(op.get_bool("legacy_plus_one", True))


def require_float32(op: OperatorDef, *specs: Optional[TensorSpec]) -> None:
    """ShapeError unless every blob holds float32."""
    require(op, all(spec is None or spec.dtype == np.float32 for spec in specs), "inputs must be float32", *specs)


def _box_size(op: OperatorDef) -> int:
    """The number of columns of a box."""
    if op.get_bool("rotated"):
        angles_of(op)
        return 5
    return 4


@operator("BBoxTransform", inputs=3, outputs=(1, 2))
def bbox_transform(op: OperatorDef, rois: TensorSpec, deltas: TensorSpec, images: TensorSpec) -> List[TensorSpec]:
    """Boxes (x1, y1, x2, y2), moved by deltas (dx, dy, dw, dh) for each class and clipped to their image.

    Boxes may start with the image's index. The third input is (height, width, scale) of each image. Boxes are divided
    by the scale, and with ``apply_scale`` (1) multiplied by it at the end. ``weights`` divide the deltas. The second
    output is the number of boxes of each image, float32. ``rotated`` boxes and deltas end with an angle: see
    common/rotated_boxes.py.
    """
    require_float32(op, rois, deltas, images)
    size = _box_size(op)
    require(
        op, rois.ndim == 2 and rois.shape[1] in (size, size + 1), f"boxes must have {size} or {size + 1} columns", rois
    )
    require(
        op,
        deltas.ndim == 2 and deltas.shape[0] == rois.shape[0] and deltas.shape[1] % size == 0,
        f"deltas must have a row for each box and {size} columns for each class",
        rois,
        deltas,
    )
    require(op, images.ndim == 2 and images.shape[1] == 3, "images must have 3 columns", images)
    require(
        op,
        rois.shape[1] > size or images.shape[0] == 1,
        "boxes of several images must start with the image's index",
        rois,
        images,
    )
    if len(op.get_floats("weights", (1.0,) * 4)) != 4:
        raise ArgumentError(op, f"weights must be 4 numbers, got {op.get_floats('weights')}")
    return [deltas, TensorSpec((images.shape[0],), np.float32)]


@bbox_transform.reference
def bbox_transform_reference(op: OperatorDef, rois: Array, deltas: Array, images: Array) -> List[Any]:
    boxes_at = _box_size(op)
    index = rois[:, 0] if rois.shape[1] > boxes_at else np.zeros(len(rois), np.float32)
    require(op, bool(np.all((index >= 0) & (index < len(images)))), f"boxes must belong to one of {len(images)} images")
    weights, scales_back = op.get_floats("weights", (1.0,) * 4), op.get_bool("apply_scale", True)
    y, counts = np.empty(deltas.shape, np.float32), []
    start = 0
    for i, (height, width, scale) in enumerate(images):
        count = int(np.count_nonzero(np.floor(index) == i))
        rows = slice(start, start + count)
        size = [int(np.nan_to_num(side / scale) + 0.5) for side in (height, width)]
        own = rois[rows, -boxes_at:].copy()
        own[:, :4] /= scale
        for column in range(0, deltas.shape[1], boxes_at):
            columns = slice(column, column + boxes_at)
            moved = moved_and_clipped(op, own, deltas[rows, columns], weights, size)
            moved[:, :4] *= scale if scales_back else np.float32(1)
            y[rows, columns] = moved
        counts.append(count)
        start += count
    return [y, np.array(counts, np.float32)]


def moved_and_clipped(
    op: OperatorDef, boxes: Array, deltas: Array, weights: Sequence[float], size: Sequence[int]
) -> Array:
    """The boxes, transformed and clipped to (height, width). Boxes of 5 columns are rotated."""
    plus = plus_one(op)
    if boxes.shape[1] == 4:
        return box.clip(box.transform(boxes, deltas, weights, plus), size[0], size[1], plus)
    angles = angles_of(op)
    return rotated.clip(rotated.transform(boxes, deltas, weights, angles), size[0], size[1], plus, angles)


class _Limits(NamedTuple):
    """The arguments of BoxWithNMSLimit."""

    score: float
    overlap: float
    most: int
    plus: int
    background: bool
    agnostic: bool
    size: int

    def box_columns(self, category: int) -> slice:
        """The columns of a class's boxes. Classes count from 1; 0 is the background."""
        at = 0 if self.agnostic else category if self.background else category - 1
        return slice(self.size * at, self.size * at + self.size)

    def score_column(self, category: int) -> int:
        return category if self.background else category - 1


def _limits(op: OperatorDef) -> _Limits:
    return _Limits(
        op.get_float("score_thresh", 0.05),
        op.get_float("nms", 0.3),
        op.get_int("detections_per_im", 100),
        plus_one(op),
        op.get_bool("input_boxes_include_bg_cls", True),
        op.get_bool("cls_agnostic_bbox_reg"),
        _box_size(op),
    )


@operator("BoxWithNMSLimit", inputs=(2, 3), outputs=(3, 6))
def box_with_nms_limit(
    op: OperatorDef, scores: TensorSpec, boxes: TensorSpec, splits: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """Suppresses overlapping boxes in each class and keeps the best ``detections_per_im`` (100) of each image.

    Inputs: scores (N, classes), the first class being the background; boxes (N, 4 * classes); the number of rows of
    each image. ``score_thresh`` (0.05), ``nms`` (0.3); ``soft_nms_enabled`` with ``soft_nms_method`` linear or
    gaussian, ``soft_nms_sigma`` (0.5), ``soft_nms_min_score_thres`` (0.001). Outputs, class by class: scores, boxes,
    classes, float32; the number of boxes per image, float32; the rows that are kept (within their image) and how many
    of each class, int32. ``rotated`` boxes have 5 columns (common/rotated_boxes.py) and no soft suppression.
    """
    require_float32(op, scores, boxes)
    limits = _limits(op)
    if op.get_str("soft_nms_method", "linear") not in ("linear", "gaussian"):
        raise ArgumentError(op, f"soft_nms_method must be linear or gaussian, got {op.get_str('soft_nms_method')!r}")
    if op.get_bool("soft_nms_enabled") and limits.size == 5:
        raise ArgumentError(op, "rotated boxes exclude soft_nms_enabled")
    matrices = all(spec.ndim == 2 or (spec.ndim == 4 and spec.shape[2:] == (1, 1)) for spec in (scores, boxes))
    require(
        op,
        matrices and scores.shape[0] == boxes.shape[0] and scores.shape[1] > 0,
        "scores and boxes must be matrices with the same number of rows",
        scores,
        boxes,
    )
    columns = limits.box_columns(scores.shape[1] - 1).stop
    require(
        op, boxes.shape[1] == columns, f"boxes must have {columns} columns for {scores.shape[1]} classes", scores, boxes
    )
    require(op, splits is None or splits.ndim == 1, "the numbers of rows must be a vector", splits)
    raise DataDependent("the boxes kept")


@box_with_nms_limit.reference
def box_with_nms_limit_reference(
    op: OperatorDef, scores: Array, boxes: Array, splits: Optional[Array] = None
) -> List[Any]:
    limits = _limits(op)
    scores, boxes = scores.reshape(scores.shape[:2]), boxes.reshape(boxes.shape[:2])
    counts = [len(scores)] if splits is None else [int(np.nan_to_num(n)) for n in splits]
    require(
        op,
        min(counts, default=0) >= 0 and sum(counts) == len(scores),
        f"the numbers of rows {counts} must add up to {len(scores)}",
    )
    images = []
    start = 0
    for count in counts:
        rows = slice(start, start + count)
        images.append(_keep_best(op, limits, scores[rows], boxes[rows]))
        start += count
    first = int(op.get_bool("output_classes_include_bg_cls", True))
    found = [(score, corners, category - 1 + first, row) for image in images for category, row, score, corners in image]
    per_class = [[sum(category == c for category, *_ in image) for c in range(scores.shape[1])] for image in images]
    return [
        np.array([score for score, *_ in found], np.float32),
        np.array([corners for _, corners, *_ in found], np.float32).reshape(-1, limits.size),
        np.array([category for _, _, category, _ in found], np.float32),
        np.array([len(image) for image in images], np.float32),
        np.array([row for *_, row in found], np.int32),
        np.array(per_class, np.int32).reshape(len(images), scores.shape[1]),
    ]


def suppressed(boxes: Array, order: Array, threshold: float, plus: int, limit: int) -> List[int]:
    """The indices of the boxes, upright or rotated, that suppression keeps; at most ``limit`` if that is positive."""
    most = limit if limit > 0 else -1
    if boxes.shape[1] == 4:
        return box.nms(boxes, order, threshold, plus, most)
    return rotated.nms(boxes, order, threshold, most)


Found = Tuple[int, int, Any, Array]  # class, row, score, box


def _keep_best(op: OperatorDef, limits: _Limits, scores: Array, boxes: Array) -> List[Found]:
    """What is kept of one image, by class."""
    found: List[Found] = []
    for category in range(1, scores.shape[1]):
        own, corners = scores[:, limits.score_column(category)], boxes[:, limits.box_columns(category)]
        candidates = np.flatnonzero(own > np.float32(limits.score))
        if op.get_bool("soft_nms_enabled"):
            rows, own = box.soft_nms(
                corners,
                own,
                candidates,
                lambda overlap: _weights(op, limits, overlap),
                op.get_float("soft_nms_min_score_thres", 0.001),
                limits.plus,
            )
        else:
            order = candidates[best_first(own[candidates])]
            rows = suppressed(corners, order, limits.overlap, limits.plus, limits.most)
        found += [(category, row, own[row], corners[row]) for row in rows]
    if 0 < limits.most < len(found):
        best = best_first(np.array([score for _, _, score, _ in found]))[: limits.most]
        found = sorted((found[i] for i in best), key=lambda one: one[0])
    return found


def _weights(op: OperatorDef, limits: _Limits, overlap: Array) -> Array:
    if op.get_str("soft_nms_method", "linear") == "linear":
        return np.where(overlap > np.float32(limits.overlap), 1 - overlap, np.float32(1))
    return np.asarray(np.exp(-overlap * overlap / np.float32(op.get_float("soft_nms_sigma", 0.5))))


@operator("HeatmapMaxKeypoint", inputs=2, multiply_adds=of_terms(3))
def heatmap_max_keypoint(op: OperatorDef, heatmaps: TensorSpec, boxes: TensorSpec) -> List[TensorSpec]:
    """(boxes, 4, keypoints): x, y (in coordinates of the box), score and probability of each heatmap's maximum.

    The maximum lies between pixels: at the top of the paraboloid through the highest pixel and its eight neighbours
    (reflected at the border), at most 1.5 pixels away. The probability is 0 unless ``should_output_softmax`` is set.
    heatmaps: (boxes, keypoints, size, size); boxes: (x1, y1, x2, y2, ...).
    """
    require_float32(op, heatmaps, boxes)
    require(
        op,
        heatmaps.ndim == 4 and heatmaps.shape[2] == heatmaps.shape[3] >= 2,
        "heatmaps must be squares of 2 pixels or more",
        heatmaps,
    )
    require(
        op,
        boxes.ndim == 2 and boxes.shape[0] == heatmaps.shape[0] and boxes.shape[1] >= 4,
        "there must be one box for each set of heatmaps",
        heatmaps,
        boxes,
    )
    return [heatmaps.with_shape((heatmaps.shape[0], 4, heatmaps.shape[1]))]


@heatmap_max_keypoint.reference
def heatmap_max_keypoint_reference(op: OperatorDef, heatmaps: Array, boxes: Array) -> List[Any]:
    count, keypoints, size, _ = heatmaps.shape
    y = np.zeros((count, 4, keypoints), np.float32)
    for i, j in np.ndindex(count, keypoints):
        heatmap = heatmaps[i, j].astype(np.float64)
        row, column = np.unravel_index(int(np.argmax(heatmap)), heatmap.shape)
        near = np.pad(heatmap, 1, mode="reflect")[row : row + 3, column : column + 3]
        dx, dy, score = _summit(near)
        x1, y1, x2, y2 = boxes[i, :4].astype(np.float64)
        y[i, 0, j] = x1 + (0.5 + column + dx) * max(x2 - x1, 1.0) / size
        y[i, 1, j] = y1 + (0.5 + row + dy) * max(y2 - y1, 1.0) / size
        y[i, 2, j] = score
        if op.get_bool("should_output_softmax"):
            y[i, 3, j] = np.exp(heatmap[row, column]) / np.exp(heatmap).sum()
    return [y]


def _summit(near: Array) -> Tuple[float, float, float]:
    """Offset and height of the extremum of the quadratic Taylor expansion at the middle of 3 x 3 pixels."""
    gradient = np.array([near[1, 2] - near[1, 0], near[2, 1] - near[0, 1]]) / 2
    mixed = (near[2, 2] - near[2, 0] - near[0, 2] + near[0, 0]) / 4
    across, down = near[1, 0] - 2 * near[1, 1] + near[1, 2], near[0, 1] - 2 * near[1, 1] + near[2, 1]
    hessian = np.array([[across, mixed], [mixed, down]])
    determinant = across * down - mixed * mixed
    if not abs(determinant) >= 1e-4:
        return 0.0, 0.0, float(near[1, 1])
    inverse = np.array([[down, -mixed], [-mixed, across]]) / determinant
    offset = -inverse @ gradient
    offset *= 1.5 / max(float(np.abs(offset).max()), 1.5)
    return float(offset[0]), float(offset[1]), float(near[1, 1] + gradient @ offset + offset @ hessian @ offset / 2)


@operator("RMACRegions")
def rmac_regions(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """(regions, 5): image, x1, y1, x2, y2 of square regions at ``scales`` (3) sizes, spread evenly over an NCHW image.

    Along the longer side there are as many more regions as bring the overlap of neighbours closest to ``overlap``
    (0.4). Source: Tolias et al., Particular object retrieval with integral max-pooling of CNN activations, ICLR 2016,
    section 3.2.
    """
    require(op, x.ndim == 4, "the input must have four dimensions", x)
    return [TensorSpec.known(_regions(op, x.shape))]


def _regions(op: OperatorDef, shape: Sequence[int]) -> Array:
    images, _, height, width = shape
    short = min(height, width)
    if 0 in shape:
        return np.zeros((0, 5), np.float32)
    more = {"x": 0, "y": 0}
    if height != width:
        gaps = [(max(height, width) - short) / steps for steps in range(1, 7)]
        misses = [abs(float(np.float32(1 - gap / short - op.get_float("overlap", 0.4)))) for gap in gaps]
        more["x" if width > height else "y"] = 1 + misses.index(min(misses))
    rows = []
    for scale in range(1, op.get_int("scales", 3) + 1):
        size = 2 * short // (scale + 1)
        if size == 0:
            break
        lefts, tops = (_starts(length, size, scale + more[side]) for length, side in ((width, "x"), (height, "y")))
        rows += [(left, top, left + size - 1, top + size - 1) for left in lefts for top in tops]
    corners = np.array(rows, np.float32).reshape(-1, 4)
    index = np.repeat(np.arange(images, dtype=np.float32), len(corners))
    return np.column_stack([index, np.tile(corners, (images, 1))])


def _starts(length: int, size: int, count: int) -> List[int]:
    step = np.float32((length - size) / (count - 1)) if count > 1 else np.float32(0)
    return [min(int(step * np.float32(i)), length - size) for i in range(count)]


@rmac_regions.reference
def rmac_regions_reference(op: OperatorDef, x: Array) -> List[Any]:
    return [_regions(op, x.shape)]
