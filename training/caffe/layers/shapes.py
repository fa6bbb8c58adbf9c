"""Layers that move elements: their backward passes move them back."""

from __future__ import annotations

from typing import List, Tuple

import numpy as np

from runtime_arm.netdef import Array
from training.caffe.layers.layer import Diffs, Layer, Shape, layer


class _Reshaping(Layer):
    """The elements in another shape."""

    def shape_of(self, x: Array) -> Shape:
        raise NotImplementedError

    def setup(self, x: Array) -> None:
        self.require(
            self.proto.bottom[:] != self.proto.top[:], "cannot work in place, as in Caffe: give it another top"
        )

    def forward(self, x: Array) -> List[Array]:
        self.shape = x.shape
        return [x.reshape(self.shape_of(x))]

    def backward(self, dy: Array) -> Diffs:
        return [dy.reshape(self.shape)]


@layer("Flatten")
class Flatten(_Reshaping):
    def shape_of(self, x: Array) -> Shape:
        param = self.param("flatten_param")
        start, end = self.axis(param.axis, x.ndim), self.axis(param.end_axis, x.ndim, "end_axis")
        return (*x.shape[:start], int(np.prod(x.shape[start : end + 1])), *x.shape[end + 1 :])


@layer("Reshape")
class Reshape(_Reshaping):
    """A 0 copies the size at its place, one -1 takes what is left."""

    def shape_of(self, x: Array) -> Shape:
        param, ndim = self.param("reshape_param"), x.ndim
        start = param.axis if param.axis >= 0 else param.axis + ndim + 1
        count = ndim - start if param.num_axes == -1 else param.num_axes
        self.require(0 <= start <= ndim and 0 <= count <= ndim - start, "axis and num_axes are out of range")
        sizes: List[int] = []
        for place, size in enumerate(param.shape.dim):
            self.require(size != 0 or start + place < ndim, f"there is no dimension {start + place} to copy")
            sizes.append(x.shape[start + place] if size == 0 else int(size))
        self.require(sizes.count(-1) <= 1, "at most one size may be -1")
        shape = [*x.shape[:start], *sizes, *x.shape[start + count :]]
        if -1 in shape:
            rest = int(np.prod([n for n in shape if n != -1]))
            self.require(rest > 0 and x.size % rest == 0, f"{x.size} elements do not fit the shape {shape}")
            shape[shape.index(-1)] = x.size // rest
        self.require(int(np.prod(shape)) == x.size, f"{x.size} elements do not fit the shape {shape}")
        return tuple(shape)


@layer("Split")
class Split(Layer):
    def forward(self, x: Array) -> List[Array]:
        return [x] * len(self.proto.top)

    def backward(self, *diffs: Array) -> Diffs:
        return [np.sum(diffs, axis=0)]


@layer("Concat")
class Concat(Layer):
    def forward(self, *bottoms: Array) -> List[Array]:
        param = self.param("concat_param")
        axis = param.concat_dim if param.HasField("concat_dim") else param.axis
        self.at = self.axis(axis, bottoms[0].ndim)
        others = {(x.ndim, x.shape[: self.at], x.shape[self.at + 1 :]) for x in bottoms}
        self.require(len(others) == 1, f"the bottoms differ in other dimensions than {self.at}")
        self.ends = np.cumsum([x.shape[self.at] for x in bottoms])[:-1]
        return [np.concatenate(bottoms, self.at)]

    def backward(self, dy: Array) -> Diffs:
        return np.split(dy, self.ends, self.at)


@layer("Slice")
class Slice(Layer):
    def forward(self, x: Array) -> List[Array]:
        param, tops = self.param("slice_param"), len(self.proto.top)
        axis = param.slice_dim if param.HasField("slice_dim") else param.axis
        self.at = self.axis(axis, x.ndim)
        points = list(param.slice_point)
        if points:
            self.require(len(points) == tops - 1, f"{tops} tops need {tops - 1} slice_points")
            inside = [0, *points, x.shape[self.at]]
            self.require(all(a < b for a, b in zip(inside, inside[1:])), f"slice_points {points} do not rise inside")
            return [part.copy() for part in np.split(x, points, self.at)]
        self.require(x.shape[self.at] % tops == 0, f"{x.shape[self.at]} cannot be cut into {tops} equal parts")
        return [part.copy() for part in np.split(x, tops, self.at)]

    def backward(self, *diffs: Array) -> Diffs:
        return [np.concatenate(diffs, self.at)]


@layer("Crop")
class Crop(Layer):
    """The first bottom cut to the size of the second, from ``axis`` on."""

    def forward(self, x: Array, like: Array) -> List[Array]:
        param, offsets = self.param("crop_param"), list(self.param("crop_param").offset)
        start = self.axis(param.axis, x.ndim)
        self.require(len(offsets) in (0, 1, x.ndim - start), f"offset needs one number or {x.ndim - start}")
        offsets = (offsets or [0]) * (x.ndim - start) if len(offsets) < 2 else offsets
        cuts: List[slice] = [slice(None)] * start
        for at, offset in enumerate(offsets, start):
            self.require(offset + like.shape[at] <= x.shape[at], f"dimension {at} is too small for the offset {offset}")
            cuts.append(slice(offset, offset + like.shape[at]))
        self.cuts: Tuple[slice, ...] = tuple(cuts)
        self.shapes = x.shape, like.shape
        return [x[self.cuts].copy()]

    def backward(self, dy: Array) -> Diffs:
        dx = np.zeros(self.shapes[0], np.float32)
        dx[self.cuts] = dy
        return [dx, None]


@layer("Tile")
class Tile(Layer):
    def forward(self, x: Array) -> List[Array]:
        param = self.param("tile_param")
        self.at, self.tiles = self.axis(param.axis, x.ndim), param.tiles
        return [np.concatenate([x] * self.tiles, self.at)]

    def backward(self, dy: Array) -> Diffs:
        return [np.sum(np.split(dy, self.tiles, self.at), axis=0)]


@layer("Filter")
class Filter(Layer):
    """The items of each bottom but the last for which the last is not 0."""

    def forward(self, *bottoms: Array) -> List[Array]:
        self.kept = np.flatnonzero(bottoms[-1].reshape(-1))
        self.shapes = [x.shape for x in bottoms]
        return [x[self.kept] for x in bottoms[:-1]]

    def backward(self, *diffs: Array) -> Diffs:
        self.require(not self.propagate[-1], "the last bottom has no gradient")
        found: List[Array] = []
        for dy, shape in zip(diffs, self.shapes):
            dx = np.zeros(shape, np.float32)
            dx[self.kept] = dy
            found.append(dx)
        return [*found, None]


@layer("BatchReindex")
class BatchReindex(Layer):
    """The items of the first bottom at the indices in the second."""

    def forward(self, x: Array, index: Array) -> List[Array]:
        self.index, self.shape = index.astype(np.int64), x.shape
        self.require(bool(((self.index >= 0) & (self.index < len(x))).all()), "an index is out of range")
        return [x[self.index]]

    def backward(self, dy: Array) -> Diffs:
        self.require(not self.propagate[-1], "the indices have no gradient")
        dx = np.zeros(self.shape, np.float32)
        np.add.at(dx, self.index, dy)
        return [dx, None]


@layer("Silence")
class Silence(Layer):
    """Reads blobs and gives nothing."""

    def forward(self, *bottoms: Array) -> List[Array]:
        self.shapes = [x.shape for x in bottoms]
        return []

    def backward(self) -> Diffs:
        return [np.zeros(shape, np.float32) for shape in self.shapes]


@layer("ArgMax")
class ArgMax(Layer):
    def forward(self, x: Array) -> List[Array]:
        param = self.param("argmax_param")
        rows = x if param.HasField("axis") else x.reshape(len(x), -1)
        at = self.axis(param.axis, x.ndim) if param.HasField("axis") else 1
        order = np.flip(np.argsort(rows, axis=at, kind="stable"), at)
        self.require(1 <= param.top_k <= order.shape[at], f"top_k must be 1 to {order.shape[at]}, it is {param.top_k}")
        places = np.take(order, range(param.top_k), at)
        values = np.take_along_axis(rows, places, at)
        if param.HasField("axis"):
            return [values if param.out_max_val else places.astype(np.float32)]
        both = [places.astype(np.float32), values] if param.out_max_val else [places.astype(np.float32)]
        y = np.stack(both, 1)
        return [y.reshape(*y.shape, *(1,) * (x.ndim - y.ndim))]
