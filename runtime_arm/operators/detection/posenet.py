"""Poses of people from the maps of a PoseNet network: Coral's PosenetDecoderOp.

Source: libcoral, coral/posenet/posenet_decoder.cc and posenet_decoder_op.cc; Papandreou et al., PersonLab (2018). Of
equal scores, the first in the map comes first; libcoral does not define their order.
"""

from __future__ import annotations

import heapq
from typing import Any, List, Optional, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.records import NamedTuple
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec

KEYPOINTS, EDGES, MASK = 17, 16, 33
# The edges along which a pose is followed, from a keypoint to another.
_PARENTS = (0, 1, 0, 2, 0, 5, 7, 5, 11, 13, 0, 6, 8, 6, 12, 14)
_CHILDREN = (1, 3, 2, 4, 5, 7, 9, 11, 13, 15, 6, 8, 10, 12, 14, 16)
FORWARD = tuple(zip(_PARENTS, _CHILDREN))
_ALL = FORWARD + tuple((child, parent) for parent, child in FORWARD)
_STEPS, _MASK_STEPS = 5, 2  # refinements of a keypoint, and of a pixel of a mask
_NOWHERE, _UNSEEN = np.float32(-1), np.float32(-1e5)


@operator("PosenetDecoder", domain="tflite", inputs=(3, 4), outputs=(4, 5), dtypes=("float32",))
def posenet_decoder(
    op: OperatorDef, scores: TensorSpec, shorts: TensorSpec, mids: TensorSpec, longs: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """Keypoints (1, D, 17, 2) as y and x in pixels, their scores (1, D, 17), those of poses (1, D), their number (1).

    scores (1, H, W, 17) are log-odds; shorts (1, H, W, 34) lead from a pixel to its keypoint, mids (1, H, W, 64) to the
    neighbours: pixels of the image, ``stride`` of them to one of the maps, all y before x. max_detections: D.
    score_threshold, nms_radius (pixels). With longs (1, 33, 33, 34) also a mask (1, D, 33, 33) for each pose.
    Values after the last pose are 0.
    """
    most, stride = op.get_int("max_detections"), op.get_int("stride")
    if most < 1 or stride < 1:
        raise ArgumentError(op, f"max_detections and stride must be positive, got {most} and {stride}")
    if not 0 <= op.get_float("score_threshold") < 1:
        raise ArgumentError(op, "score_threshold must be 0 to 1")
    size = scores.shape[1:3]
    for what, spec, channels in (("scores", scores, KEYPOINTS), ("shorts", shorts, 34), ("mids", mids, 4 * EDGES)):
        fits = spec.shape == (1, *size, channels) and spec.size > 0 and spec.dtype == np.float32
        require(op, len(size) == 2 and fits, f"{what} must be float32 (1, H, W, {channels})", spec)
    fits = longs is None or (longs.shape == (1, MASK, MASK, 34) and longs.dtype == np.float32)
    require(op, fits, f"longs must be float32 (1, {MASK}, {MASK}, 34)", longs)
    shapes: List[Tuple[int, ...]] = [(1, most, KEYPOINTS, 2), (1, most, KEYPOINTS), (1, most), (1,)]
    shapes += [] if longs is None else [(1, most, MASK, MASK)]
    return [TensorSpec(shape, np.float32) for shape in shapes]


def _sampled(maps: Array, place: Array, channels: Array) -> Array:
    """Values of maps (H, W, C) at places (..., 2) between pixels, y before x, in these channels; bilinear."""
    low, high, share = [], [], []
    for axis in range(2):
        at = np.clip(place[..., axis], np.float32(0), np.float32(maps.shape[axis] - 1))
        low.append(np.floor(at).astype(np.intp))
        high.append(np.ceil(at).astype(np.intp))
        share.append(place[..., axis] - low[-1].astype(np.float32))
    (top, left), (bottom, right), (down, along) = low, high, share
    one = np.float32(1)
    upper = (one - along) * maps[top, left, channels] + along * maps[top, right, channels]
    lower = (one - along) * maps[bottom, left, channels] + along * maps[bottom, right, channels]
    return np.asarray((one - down) * upper + down * lower)


def _moved(maps: Array, place: Array, rows: Any, columns: Any) -> Array:
    """The places after the offsets in the channels ``rows`` and ``columns``, inside the maps."""
    found = [
        np.clip(place[..., axis] + _sampled(maps, place, channels), np.float32(0), np.float32(maps.shape[axis] - 1))
        for axis, channels in enumerate((rows, columns))
    ]
    return np.stack(found, axis=-1)


class _Maps(NamedTuple):
    scores: Array
    shorts: Array
    mids: Array

    def neighbour(self, place: Array, edge: int, child: int) -> Array:
        """Where an edge leads. libcoral takes the channels of edge 16 without the shift of backward edges."""
        first = edge + EDGES if edge > EDGES else edge
        place = _moved(self.mids, place, np.intp(first), np.intp(EDGES + first))
        for _ in range(_STEPS):
            place = _moved(self.shorts, place, np.intp(child), np.intp(KEYPOINTS + child))
        return place

    def score(self, place: Array, keypoint: int) -> Any:
        return np.float32(_sampled(self.scores, place, np.intp(keypoint)))

    def pose(self, root: Array, keypoint: int) -> Tuple[Array, Array]:
        """All keypoints (17, 2) from one of them, and their log-odds; the surest ones are followed first."""
        places, found = np.full((KEYPOINTS, 2), _NOWHERE), np.full(KEYPOINTS, _UNSEEN)
        done = [False] * KEYPOINTS
        waiting: List[Any] = [(-self.score(root, keypoint), 0, keypoint, root)]
        count = 1
        while waiting:
            negated, _, current, place = heapq.heappop(waiting)
            if done[current]:
                continue
            places[current], found[current], done[current] = place, -negated, True
            for edge, (parent, child) in enumerate(_ALL):
                if parent == current and not done[child]:
                    next_ = self.neighbour(place, edge, child)
                    heapq.heappush(waiting, (-self.score(next_, child), count, child, next_))
                    count += 1
        return places, found

    def roots(self, least: np.float32) -> List[Tuple[Array, int]]:
        """Where scores of at least ``least`` are largest among their neighbours, the largest first."""
        padded = np.pad(self.scores, [(1, 1), (1, 1), (0, 0)], mode="constant", constant_values=-np.inf)
        height, width = self.scores.shape[:2]
        around = [padded[i : i + height, j : j + width] for i in range(3) for j in range(3)]
        rows, columns, keypoints = np.nonzero((self.scores >= least) & (self.scores >= np.max(around, axis=0)))
        order = np.argsort(-self.scores[rows, columns, keypoints], kind="stable")
        places = np.stack([rows, columns], axis=-1).astype(np.float32)
        places = _moved(self.shorts, places, keypoints, KEYPOINTS + keypoints)
        return [(places[index], int(keypoints[index])) for index in order]


def _sum(values: Array) -> Any:
    """Added one after the other in float32."""
    total = np.float32(0)
    for value in values:
        total += value
    return total


def _poses(op: OperatorDef, maps: _Maps) -> List[Tuple[np.float32, Array, Array]]:
    """Score, places and scores of keypoints, the surest pose first."""
    threshold, stride = np.float32(op.get_float("score_threshold")), np.float32(op.get_int("stride"))
    radius = np.float32(op.get_float("nms_radius")) / stride
    least, reach = np.float32(-np.log(1.0 / (float(threshold) + 1e-6) - 1.0)), radius * radius
    found: List[Tuple[np.float32, Array, Array]] = []
    for root, keypoint in maps.roots(least):
        if len(found) == op.get_int("max_detections"):
            break
        if any(_squared(root, places[keypoint]) <= reach for _, places, _ in found):
            continue
        places, odds = maps.pose(root, keypoint)
        sure = np.float32(1) / (np.float32(1) + np.exp(-odds))
        score = _sum(np.sort(sure)[::-1]) / np.float32(KEYPOINTS)
        if score >= threshold:
            found.append((score, places, sure))
    ordered = sorted(found, key=lambda pose: -pose[0])
    again = []
    for index, (_, places, sure) in enumerate(ordered):
        hidden = np.zeros(KEYPOINTS, bool)
        for _, before, _ in ordered[:index]:
            hidden |= _squared(places, before) <= reach
        first = np.argsort(-sure, kind="stable")
        again.append((_sum(sure[first][~hidden[first]]) / np.float32(KEYPOINTS), places * stride, sure))
    return sorted((pose for pose in again if pose[0] >= threshold), key=lambda pose: -pose[0])


def _squared(a: Array, b: Array) -> Array:
    difference = b - a
    return np.asarray(difference[..., 0] ** 2 + difference[..., 1] ** 2)


def _masks(longs: Array, poses: List[Any], most: int, stride: int) -> Array:
    """For each pixel the pose that its long offsets are nearest to."""
    masks = np.zeros((1, most, MASK, MASK), np.float32)
    if not poses:
        return masks
    grid = np.stack(np.meshgrid(np.arange(MASK), np.arange(MASK), indexing="ij"), axis=-1).astype(np.float32)
    distances = np.zeros((len(poses), MASK, MASK), np.float32)
    for keypoint in range(KEYPOINTS):
        place = grid
        for _ in range(_MASK_STEPS + 1):
            place = _moved(longs, place, np.intp(keypoint), np.intp(KEYPOINTS + keypoint))
        for pose, total in zip(poses, distances):
            total += _squared(place * np.float32(stride), pose[1][keypoint])
    nearest = np.argmin(distances, axis=0)
    masks[0, : len(poses)] = nearest == np.arange(len(poses))[:, np.newaxis, np.newaxis]
    return masks


@posenet_decoder.reference
def posenet_decoder_reference(
    op: OperatorDef, scores: Array, shorts: Array, mids: Array, longs: Optional[Array] = None
) -> List[Any]:
    most = op.get_int("max_detections")
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        poses = _poses(op, _Maps(scores[0], shorts[0], mids[0]))
    places, sure = np.zeros((1, most, KEYPOINTS, 2), np.float32), np.zeros((1, most, KEYPOINTS), np.float32)
    totals = np.zeros((1, most), np.float32)
    for index, (score, where, each) in enumerate(poses):
        places[0, index], sure[0, index], totals[0, index] = where, each, score
    results = [places, sure, totals, np.array([len(poses)], np.float32)]
    return results if longs is None else [*results, _masks(longs[0], poses, most, op.get_int("stride"))]
