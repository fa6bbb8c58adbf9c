"""Connected regions of a map of flags, and the rectangles around them; without a loop over pixels."""

from __future__ import annotations

from typing import List

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.records import NamedTuple


class Region(NamedTuple):
    """One connected region as runs of pixels: rows (n,), and the columns where each run starts and stops (n,)."""

    rows: Array
    starts: Array
    stops: Array

    def outline(self) -> Array:
        """Points (2 n, 2), x and y, among which are the region's outermost pixels."""
        ends = np.concatenate([self.starts, self.stops - 1])
        return np.stack([ends, np.concatenate([self.rows, self.rows])], axis=-1).astype(np.float64)

    def mean(self, plane: Array) -> float:
        """The mean of a plane's values in the region."""
        sums = np.concatenate([[0.0], np.cumsum(plane[self.rows.min() : self.rows.max() + 1].reshape(-1))])
        offset = (self.rows - self.rows.min()) * plane.shape[1]
        total = (sums[offset + self.stops] - sums[offset + self.starts]).sum()
        return float(total / (self.stops - self.starts).sum())


def regions_of(flags: Array) -> List[Region]:
    """The regions of set flags (H, W) that touch each other by an edge or a corner, the largest first."""
    height = flags.shape[0]
    edges = np.diff(np.pad(flags.astype(np.int8), ((0, 0), (1, 1))), axis=1)
    rows, starts = np.nonzero(edges == 1)
    stops = np.nonzero(edges == -1)[1]
    if not len(rows):
        return []
    names = _joined(rows, starts, stops, np.searchsorted(rows, np.arange(height + 1)))
    order = np.argsort(names, kind="stable")
    borders = np.flatnonzero(np.diff(names[order])) + 1
    groups = [Region(rows[part], starts[part], stops[part]) for part in np.split(order, borders)]
    return sorted(groups, key=lambda region: -int((region.stops - region.starts).sum()))


def _joined(rows: Array, starts: Array, stops: Array, first: Array) -> Array:
    """A number for each run, equal for runs of one region. first: where each row's runs begin, and their number."""
    above, below = [], []
    for row in np.unique(rows[1:]):
        mine = np.arange(first[row], first[row + 1])
        before = slice(first[row - 1], first[row]) if row else slice(0, 0)
        low = np.searchsorted(stops[before], starts[mine], side="left")
        high = np.searchsorted(starts[before], stops[mine], side="right")
        counts = np.maximum(high - low, 0)
        below.append(np.repeat(mine, counts))
        shift = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        above.append(first[row - 1] + np.repeat(low, counts) + shift)
    names = np.arange(len(rows))
    if not above:
        return names
    a, b = np.concatenate(above), np.concatenate(below)
    while True:  # every round at least halves the number of names in a chain
        least = np.minimum(names[a], names[b])
        before_round = names.copy()
        np.minimum.at(names, names[a], least)
        np.minimum.at(names, names[b], least)
        names = names[names]
        if np.array_equal(names, before_round):
            return names


def smallest_rectangle(points: Array) -> Array:
    """The corners (4, 2) of the smallest rectangle, slanted or not, around points (n, 2): the upper left corner first,
    then clockwise on a screen. One of its sides lies along a side of the points' convex hull."""
    hull = convex_hull(points)
    sides = np.roll(hull, -1, axis=0) - hull
    lengths = np.hypot(sides[:, 0], sides[:, 1])
    sides = sides[lengths > 0] / lengths[lengths > 0, None] if lengths.any() else np.asarray([[1.0, 0.0]])
    normals = np.stack([-sides[:, 1], sides[:, 0]], axis=-1)
    along, across = hull @ sides.T, hull @ normals.T  # (points, sides)
    areas = np.ptp(along, axis=0) * np.ptp(across, axis=0)
    best = int(areas.argmin())
    u, v = ((values[:, best].min(), values[:, best].max()) for values in (along, across))
    side, normal = sides[best], normals[best]
    corners = np.asarray([u[i] * side + v[j] * normal for i, j in ((0, 0), (1, 0), (1, 1), (0, 1))])
    return np.roll(corners, -int(corners.sum(axis=1).argmin()), axis=0)


def convex_hull(points: Array) -> Array:
    """The corners (k, 2) of the convex hull of points (n, 2), clockwise on a screen (Andrew's monotone chain)."""
    ordered = np.unique(np.asarray(points, np.float64), axis=0)
    if len(ordered) < 3:
        return ordered
    extremes = np.flatnonzero(np.concatenate([[True], ordered[1:, 0] != ordered[:-1, 0]]))
    last = np.concatenate([extremes[1:] - 1, [len(ordered) - 1]])
    ordered = ordered[np.unique(np.concatenate([extremes, last]))]  # only the ends of each column can be corners
    return np.concatenate([_half(ordered), _half(ordered[::-1])])


def _half(points: Array) -> Array:
    kept: List[Array] = []
    for point in points:
        while len(kept) > 1 and _turn(kept[-2], kept[-1], point) <= 0:
            kept.pop()
        kept.append(point)
    return np.asarray(kept[:-1]).reshape(-1, 2)


def _turn(a: Array, b: Array, c: Array) -> float:
    return float((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]))
