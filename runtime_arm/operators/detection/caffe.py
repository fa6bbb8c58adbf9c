"""Operators of Caffe's SSD fork: PriorBox, and DetectionOutput, which selects boxes from what the net predicts."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.registry.schema import operator, require, value_of
from runtime_arm.registry.specs import TensorSpec


def _sizes(op: OperatorDef) -> List[Tuple[float, float]]:
    """Width and height, in pixels, of the boxes at each place."""
    least, most = op.get_floats("min_size"), op.get_floats("max_size", ())
    ratios = [1.0]
    for ratio in op.get_floats("aspect_ratio", ()):
        if not any(abs(ratio - known) < 1e-6 for known in ratios):
            ratios += [ratio, 1 / ratio] if op.get_bool("flip", True) else [ratio]
    sizes: List[Tuple[float, float]] = []
    for index, side in enumerate(least):
        sizes.append((side, side))
        if most:
            sizes.append((math.sqrt(side * most[index]),) * 2)
        sizes += [(side * math.sqrt(ratio), side / math.sqrt(ratio)) for ratio in ratios if abs(ratio - 1) >= 1e-6]
    return sizes


def _variances(op: OperatorDef) -> Sequence[float]:
    given = op.get_floats("variance", ())
    return given if len(given) == 4 else [given[0] if given else 0.1] * 4


@operator("PriorBox", domain="caffe", inputs=2)
def prior_box(op: OperatorDef, x: TensorSpec, image: TensorSpec) -> List[TensorSpec]:
    """Boxes around every pixel of X, relative to the image: (1, 2, H * W * boxes * 4), corners and their variances.

    min_size, max_size: sides of squares in pixels; aspect_ratio, with flip also its inverse; step_h, step_w (default:
    image / X), offset (0.5), img_h, img_w (default: those of the second input), clip. Source: prior_box_layer.cpp of
    Caffe's SSD fork; Liu et al., SSD (2016).
    """
    require(op, x.ndim == 4 and image.ndim == 4 and min(x.shape[2:]) > 0, "both must be (N, C, H, W)", x, image)
    least, most = op.get_floats("min_size", ()), op.get_floats("max_size", ())
    if not least or min(least) <= 0 or (most and (len(most) != len(least) or any(a >= b for a, b in zip(least, most)))):
        raise ArgumentError(
            op, f"min_size {list(least)} must be positive, and max_size {list(most)} larger, one for each"
        )
    if any(ratio <= 0 for ratio in op.get_floats("aspect_ratio", ())):
        raise ArgumentError(op, f"aspect_ratio must be positive, got {list(op.get_floats('aspect_ratio'))}")
    if len(op.get_floats("variance", ())) not in (0, 1, 4) or any(v <= 0 for v in _variances(op)):
        raise ArgumentError(op, "variance must be one or four positive numbers")
    return [x.with_shape((1, 2, x.shape[2] * x.shape[3] * len(_sizes(op)) * 4))]


@prior_box.reference
def prior_box_reference(op: OperatorDef, x: Array, image: Array) -> List[Any]:
    rows, columns = x.shape[2:]
    height, width = op.get_int("img_h", image.shape[2]), op.get_int("img_w", image.shape[3])
    offset = op.get_float("offset", 0.5)
    y = (np.arange(rows) + offset) * op.get_float("step_h", height / rows)
    along = (np.arange(columns) + offset) * op.get_float("step_w", width / columns)
    half = np.array(_sizes(op)) / 2
    boxes = np.empty((rows, columns, len(half), 4))
    boxes[..., 0] = (along[None, :, None] - half[:, 0]) / width
    boxes[..., 1] = (y[:, None, None] - half[:, 1]) / height
    boxes[..., 2] = (along[None, :, None] + half[:, 0]) / width
    boxes[..., 3] = (y[:, None, None] + half[:, 1]) / height
    corners = np.clip(boxes, 0, 1) if op.get_bool("clip") else boxes
    variances = np.broadcast_to(_variances(op), boxes.shape)
    return [np.stack([corners.reshape(-1), variances.reshape(-1)])[None].astype(x.dtype)]


@operator("DetectionOutput", domain="caffe", inputs=3)
def detection_output(op: OperatorDef, loc: TensorSpec, conf: TensorSpec, prior: TensorSpec) -> List[TensorSpec]:
    """The detections: (1, 1, M, 7), rows of image, label, score and corners; for an image without any, one row of -1.

    loc: (N, P * 4), or with share_location=0 (N, P * classes * 4); conf: (N, P * classes); prior: (1, 2, P * 4).
    num_classes, background_label_id (0), code_type (CORNER, CENTER_SIZE, CORNER_SIZE), variance_encoded_in_target,
    confidence_threshold, nms_threshold, top_k, eta, keep_top_k (-1 keeps all). Source: detection_output_layer.cpp of
    Caffe's SSD fork.
    """
    classes = op.get_int("num_classes", 0)
    if classes < 1:
        raise ArgumentError(op, f"num_classes must be positive, got {classes}")
    if op.get_str("code_type", "CORNER") not in _DECODERS:
        raise ArgumentError(op, f"code_type must be one of {', '.join(_DECODERS)}")
    require(
        op,
        prior.ndim == 3 and prior.shape[:2] == (1, 2) and prior.shape[2] % 4 == 0,
        "the priors must be (1, 2, P * 4)",
        prior,
    )
    count, batch = prior.shape[2] // 4, loc.shape[0] if loc.ndim else 0
    sets = 1 if op.get_bool("share_location", True) else classes
    require(op, loc.size == batch * count * 4 * sets, f"locations must be {count * 4 * sets} per image", loc, prior)
    require(
        op,
        conf.ndim >= 1 and conf.shape[0] == batch and conf.size == batch * count * classes,
        f"confidences must be {count * classes} per image",
        conf,
        prior,
    )
    found = _detected(
        op, *(value_of(op, spec, name) for spec, name in ((loc, "loc"), (conf, "conf"), (prior, "prior")))
    )
    return [loc.with_shape((1, 1, len(found), 7))]


@detection_output.reference
def detection_output_reference(op: OperatorDef, loc: Array, conf: Array, prior: Array) -> List[Any]:
    return [_detected(op, loc, conf, prior).reshape(1, 1, -1, 7).astype(loc.dtype)]


def _corner(loc: Array, prior: Array, variance: Array) -> Array:
    return np.asarray(prior + variance * loc)


def _center_size(loc: Array, prior: Array, variance: Array) -> Array:
    size, centre = prior[..., 2:] - prior[..., :2], (prior[..., 2:] + prior[..., :2]) / 2
    middle = variance[..., :2] * loc[..., :2] * size + centre
    with np.errstate(over="ignore", invalid="ignore"):
        half = np.exp(variance[..., 2:] * loc[..., 2:]) * size / 2
    return np.concatenate([middle - half, middle + half], -1)


def _corner_size(loc: Array, prior: Array, variance: Array) -> Array:
    size = prior[..., 2:] - prior[..., :2]
    return np.asarray(prior + variance * loc * np.concatenate([size, size], -1))


_DECODERS = {"CORNER": _corner, "CENTER_SIZE": _center_size, "CORNER_SIZE": _corner_size}


def _detected(op: OperatorDef, loc: Array, conf: Array, prior: Array) -> Array:
    """The rows of the result, float64 (M, 7)."""
    priors, variances = prior.astype(np.float64).reshape(2, -1, 1, 4)
    if op.get_bool("variance_encoded_in_target"):
        variances = np.ones_like(variances)
    batch, classes, count = len(loc), op.get_int("num_classes"), len(priors)
    decode = _DECODERS[op.get_str("code_type", "CORNER")]
    boxes = decode(loc.astype(np.float64).reshape(batch, count, -1, 4), priors, variances)
    scores = conf.astype(np.float64).reshape(batch, count, classes)
    rows = [row for index in range(batch) for row in _of_image(op, index, boxes[index], scores[index])]
    if not rows:
        rows = [[index, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0] for index in range(batch)]
    return np.array(rows, np.float64).reshape(-1, 7)


def _of_image(op: OperatorDef, image: int, boxes: Array, scores: Array) -> List[List[float]]:
    shared, background = boxes.shape[1] == 1, op.get_int("background_label_id", 0)
    kept: Dict[int, List[int]] = {}
    for label in range(scores.shape[1]):
        if label != background:
            kept[label] = _suppressed(op, boxes[:, 0 if shared else label], scores[:, label])
    keep = op.get_int("keep_top_k", -1)
    if -1 < keep < sum(map(len, kept.values())):
        pairs = [(label, index) for label, indices in kept.items() for index in indices]
        pairs.sort(key=lambda pair: -scores[pair[1], pair[0]])
        kept = {label: [index for other, index in pairs[:keep] if other == label] for label in kept}
    return [
        [image, label, scores[index, label], *boxes[index, 0 if shared else label]]
        for label, indices in kept.items()
        for index in indices
    ]


def _suppressed(op: OperatorDef, boxes: Array, scores: Array) -> List[int]:
    """The boxes above the confidence threshold that no better one overlaps too much, best first."""
    candidates = np.flatnonzero(scores > op.get_float("confidence_threshold", -np.inf))
    candidates = candidates[np.argsort(-scores[candidates], kind="stable")]
    top_k, threshold, eta = op.get_int("top_k", -1), op.get_float("nms_threshold", 0.3), op.get_float("eta", 1.0)
    kept: List[int] = []
    for index in candidates[: top_k if top_k > -1 else None]:
        if not kept or _overlaps(boxes[index], boxes[kept]).max() <= threshold:
            kept.append(int(index))
            if eta < 1 and threshold > 0.5:
                threshold *= eta
    return kept


def _overlaps(box: Array, others: Array) -> Array:
    """Intersection over union of one box with others. Corners are relative to the image."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    shared = np.where((sides > 0).all(1), sides.prod(1), 0.0)
    union = _area(box) + _area(others) - shared
    return np.asarray(np.where(union > 0, shared / np.where(union > 0, union, 1), 0.0))


def _area(boxes: Array) -> Array:
    """The areas of boxes whose corners are in order; 0 for the others."""
    sides = boxes[..., 2:] - boxes[..., :2]
    return np.asarray(np.where((sides >= 0).all(-1), sides.prod(-1), 0.0))
