"""Caffe2's region proposals: GenerateProposals, and their collection and distribution over a feature pyramid."""

from __future__ import annotations

from typing import Any, List, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common import boxes as box
from runtime_arm.operators.detection.caffe2 import moved_and_clipped, plus_one, require_float32, suppressed
from runtime_arm.operators.detection.introsort import best_first
from runtime_arm.registry.schema import DataDependent, operator, require
from runtime_arm.registry.specs import TensorSpec


@operator("GenerateProposals", inputs=4, outputs=2)
def generate_proposals(
    op: OperatorDef, scores: TensorSpec, deltas: TensorSpec, images: TensorSpec, anchors: TensorSpec
) -> List[TensorSpec]:
    """The best boxes of a region proposal network, (n, 5), each starting with the image's index, and their scores.

    scores: (images, A, H, W); deltas: (images, 4 * A, H, W); images: (height, width, scale) each; anchors: (A, 4),
    repeated every 1 / ``spatial_scale`` (1/16) pixels. The ``pre_nms_topN`` (6000) best anchors are transformed and
    clipped. Boxes are kept whose sides are at least ``min_size`` (16) times scale, and of these the ones that
    suppression by ``nms_thresh`` (0.7) leaves, at most ``post_nms_topN`` (300). Anchors and deltas of 5 columns are
    rotated boxes (common/rotated_boxes.py). Source: Ren et al., Faster R-CNN, NIPS 2015, section 3.
    """
    require_float32(op, scores, deltas, images, anchors)
    require(op, scores.ndim == 4, "scores must have four dimensions", scores)
    count, shapes, height, width = scores.shape
    require(
        op,
        anchors.shape in ((shapes, 4), (shapes, 5)),
        "anchors must have 4 or 5 columns and one row for each channel of the scores",
        scores,
        anchors,
    )
    require(
        op,
        deltas.shape == (count, anchors.shape[1] * shapes, height, width),
        "deltas must have one channel for each channel of the scores and column of the anchors",
        scores,
        deltas,
    )
    require(op, images.shape == (count, 3), "images must have 3 columns and one row for each image", scores, images)
    if not op.get_float("spatial_scale", 1 / 16) > 0:
        raise ArgumentError(op, "spatial_scale must be positive")
    raise DataDependent("the boxes proposed")


@generate_proposals.reference
def generate_proposals_reference(
    op: OperatorDef, scores: Array, deltas: Array, images: Array, anchors: Array
) -> List[Any]:
    stride = np.float32(1 / op.get_float("spatial_scale", 1 / 16))
    columns, rows = np.meshgrid(np.arange(scores.shape[3]), np.arange(scores.shape[2]))
    size = anchors.shape[1]
    moves = [columns, rows, columns, rows] if size == 4 else [columns, rows, *[np.zeros_like(rows)] * 3]
    shifts = np.stack(moves, axis=-1).astype(np.float32) * stride
    everywhere = (shifts + anchors[:, np.newaxis, np.newaxis]).reshape(-1, size)
    rois, probabilities = [], []
    for i, image in enumerate(images):
        by_anchor = deltas[i].reshape(len(anchors), size, -1).swapaxes(1, 2).reshape(-1, size)
        found, probability = _propose(op, image, everywhere, by_anchor, scores[i].reshape(-1))
        rois.append(np.column_stack([np.full(len(found), i, np.float32), found]))
        probabilities.append(probability)
    return [
        np.concatenate([np.zeros((0, 1 + size), np.float32), *rois]),
        np.concatenate([np.zeros(0, np.float32), *probabilities]),
    ]


def _propose(op: OperatorDef, image: Array, anchors: Array, deltas: Array, scores: Array) -> Tuple[Array, Array]:
    """The boxes and scores of one image."""
    plus, (height, width, scale) = plus_one(op), image
    before, after = op.get_int("pre_nms_topN", 6000), op.get_int("post_nms_topN", 300)
    order = best_first(scores, before)
    scores = scores[order]
    image_size = [int(np.nan_to_num(side)) for side in (height, width)]
    found = moved_and_clipped(op, anchors[order], deltas[order], (1.0,) * 4, image_size)
    upright = found.shape[1] == 4
    widths, heights = box.sides(found, plus) if upright else (found[:, 2], found[:, 3])
    middle_x, middle_y = found[:, 0], found[:, 1]
    if upright:
        middle_x, middle_y = middle_x + widths / 2, middle_y + heights / 2
    least = np.float32(op.get_float("min_size", 16.0)) * scale
    inside = (middle_x < width) & (middle_y < height)
    large = np.flatnonzero((widths >= least) & (heights >= least) & inside)
    kept = suppressed(found, large, op.get_float("nms_thresh", 0.7), plus, after)
    return found[kept], scores[kept]


generate_proposals.alias("GenerateProposalsCPP")


def _levels(op: OperatorDef, kind: str, low: int, high: int) -> range:
    first, last = op.get_int(f"{kind}_min_level", low), op.get_int(f"{kind}_max_level", high)
    if first > last:
        raise ArgumentError(op, f"{kind}_min_level {first} must not exceed {kind}_max_level {last}")
    return range(first, last + 1)


def _require_rois(op: OperatorDef, *rois: TensorSpec) -> None:
    require_float32(op, *rois)
    require(op, all(spec.ndim == 2 and spec.shape[1] == 5 for spec in rois), "boxes must have 5 columns", *rois)


@operator("CollectAndDistributeFpnRpnProposals", inputs=(2, None), outputs=(3, None))
def collect_and_distribute(op: OperatorDef, *inputs: TensorSpec) -> List[TensorSpec]:
    """CollectRpnProposals, then DistributeFpnProposals of the collected boxes, which are the first output."""
    _check_collected(op, inputs)
    _check_outputs(op, len(_levels(op, "roi", 2, 5)) + 2)
    raise DataDependent("the levels of the boxes")


@collect_and_distribute.reference
def collect_and_distribute_reference(op: OperatorDef, *inputs: Array) -> List[Any]:
    rois = _collected(op, inputs)
    return [rois, *_distributed(op, rois)]


@operator("CollectRpnProposals", inputs=(2, None), outputs=1)
def collect_rpn_proposals(op: OperatorDef, *inputs: TensorSpec) -> List[TensorSpec]:
    """The ``rpn_post_nms_topN`` (2000) best boxes of the levels ``rpn_min_level`` (2) to ``rpn_max_level`` (6).

    Best first. Inputs: the boxes (n, 5) of each level, then their scores. Source: Lin et al., Feature Pyramid Networks,
    CVPR 2017, section 4.1.
    """
    _check_collected(op, inputs)
    total, most = sum(spec.shape[0] for spec in inputs[: len(inputs) // 2]), _most(op)
    return [TensorSpec((min(total, most) if most > 0 else total, 5), np.float32)]


@collect_rpn_proposals.reference
def collect_rpn_proposals_reference(op: OperatorDef, *inputs: Array) -> List[Any]:
    return [_collected(op, inputs)]


def _most(op: OperatorDef) -> int:
    return op.get_int("rpn_post_nms_topN", 2000)


def _check_collected(op: OperatorDef, inputs: Sequence[TensorSpec]) -> None:
    count = len(_levels(op, "rpn", 2, 6))
    require(op, len(inputs) == 2 * count, f"takes boxes and scores of {count} levels, got {len(inputs)} inputs")
    rois, scores = inputs[:count], inputs[count:]
    _require_rois(op, *rois)
    require_float32(op, *scores)
    require(
        op, all(one.shape[0] == other.size for one, other in zip(rois, scores)), "every box must have a score", *inputs
    )


def _collected(op: OperatorDef, inputs: Sequence[Array]) -> Array:
    count = len(inputs) // 2
    rois = np.concatenate(inputs[:count])
    order = box.best_first(np.concatenate([scores.reshape(-1) for scores in inputs[count:]]))
    return rois[order[: _most(op) if _most(op) > 0 else None]]


@operator("DistributeFpnProposals", outputs=(2, None))
def distribute_fpn_proposals(op: OperatorDef, rois: TensorSpec) -> List[TensorSpec]:
    """The boxes of each level ``roi_min_level`` (2) to ``roi_max_level`` (5), then each box's position in these, int32.

    A box with the area of ``roi_canonical_scale`` (224) squared belongs to ``roi_canonical_level`` (4), a box half as
    long to the level below. Source: Lin et al., Feature Pyramid Networks, CVPR 2017, equation 1.
    """
    _require_rois(op, rois)
    _check_outputs(op, len(_levels(op, "roi", 2, 5)) + 1)
    raise DataDependent("the levels of the boxes")


@distribute_fpn_proposals.reference
def distribute_fpn_proposals_reference(op: OperatorDef, rois: Array) -> List[Any]:
    return _distributed(op, rois)


def _check_outputs(op: OperatorDef, count: int) -> None:
    require(op, len(op.output) == count, f"has {count} outputs with these levels, got {len(op.output)}")


def _distributed(op: OperatorDef, rois: Array) -> List[Any]:
    levels = _levels(op, "roi", 2, 5)
    widths, heights = box.sides(rois[:, 1:], plus_one(op))
    areas = widths * heights
    require(op, bool(np.all(areas >= 0)), "boxes must not have negative areas")
    scale, level = op.get_int("roi_canonical_scale", 224), op.get_int("roi_canonical_level", 4)
    target = np.floor(level + np.log2(np.sqrt(areas) / np.float32(scale) + np.float32(1e-6)))
    target = np.clip(target, levels[0], levels[-1])
    rows = [np.flatnonzero(target == one) for one in levels]
    return [*(rois[index] for index in rows), np.argsort(np.concatenate(rows), kind="stable").astype(np.int32)]
