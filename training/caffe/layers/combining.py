"""Layers that combine blobs or sum them up: Eltwise, Scale, Bias, Parameter, Reduction, Softmax."""

from __future__ import annotations

from typing import List

import numpy as np

from runtime_arm.netdef import Array
from training.caffe.layers.layer import Diffs, Layer, Shape, layer


@layer("Eltwise")
class Eltwise(Layer):
    """PROD, SUM with coefficients, or MAX; of equal numbers the later bottom's wins, as in Caffe."""

    def forward(self, *bottoms: Array) -> List[Array]:
        param = self.param("eltwise_param")
        self.operation, coefficients = param.operation, list(param.coeff)
        self.require(len(bottoms) > 1, "needs two bottoms or more")
        self.require(len({x.shape for x in bottoms}) == 1, "the bottoms have different shapes")
        self.require(not coefficients or self.operation == 1, "coefficients are for sums")
        self.require(len(coefficients) in (0, len(bottoms)), f"{len(bottoms)} bottoms need as many coefficients")
        self.coefficients = np.array(coefficients or [1] * len(bottoms), np.float32)
        self.bottoms = bottoms
        if self.operation == 0:
            return [np.prod(bottoms, axis=0)]
        if self.operation == 1:
            return [sum((c * x for c, x in zip(self.coefficients, bottoms)), np.float32(0))]
        self.winner = np.where(bottoms[0] > bottoms[1], 0, 1)
        y = np.maximum(bottoms[0], bottoms[1])
        for index, x in enumerate(bottoms[2:], 2):
            self.winner = np.where(x > y, index, self.winner)
            y = np.maximum(x, y)
        return [y]

    def backward(self, dy: Array) -> Diffs:
        if self.operation == 1:
            return [c * dy for c in self.coefficients]
        if self.operation == 2:
            return [dy * (self.winner == index) for index in range(len(self.bottoms))]
        return [
            dy * np.prod([x for other, x in enumerate(self.bottoms) if other != index], axis=0)
            for index in range(len(self.bottoms))
        ]


class _Broadcasting(Layer):
    """A parameter, or the second bottom, along some dimensions of the first, from ``axis`` on."""

    def shape_of(self, x: Array, axis: int, count: int) -> Shape:
        start = self.axis(axis, x.ndim)
        self.require(count >= -1 and start + max(count, 0) <= x.ndim, f"num_axes {count} is out of range")
        return tuple(x.shape[start:] if count == -1 else x.shape[start : start + count])

    def along(self, value: Array, x: Array, axis: int) -> Array:
        """The operand in a shape that broadcasts to x; remembers over which axes its gradient is summed."""
        start = 0 if value.ndim == 0 else self.axis(axis, x.ndim)
        self.require(
            value.shape == x.shape[start : start + value.ndim], f"shapes {x.shape} and {value.shape} do not fit"
        )
        self.axes = (*range(start), *range(start + value.ndim, x.ndim))
        return np.asarray(value.reshape(value.shape + (1,) * (x.ndim - start - value.ndim)))


@layer("Scale")
class Scale(_Broadcasting):
    def setup(self, *bottoms: Array) -> None:
        param, x = self.param("scale_param"), bottoms[0]
        shape = bottoms[1].shape if len(bottoms) > 1 else self.shape_of(x, param.axis, param.num_axes)
        if len(bottoms) == 1:
            self.add_blob(shape, param.filler if param.HasField("filler") else None)
            if not param.HasField("filler") and not self._given:
                self.blobs[0].data[...] = 1
        if param.bias_term:
            self.add_blob(shape, param.bias_filler)

    def forward(self, *bottoms: Array) -> List[Array]:
        param, self.x = self.param("scale_param"), bottoms[0]
        self.given = len(bottoms) > 1
        self.factor = self.along(bottoms[1] if self.given else self.blobs[0].data, self.x, param.axis).copy()
        y = self.x * self.factor
        return [y + self.along(self.blobs[-1].data, self.x, param.axis) if param.bias_term else y]

    def backward(self, dy: Array) -> Diffs:
        factor = (dy * self.x).sum(self.axes)
        if self.param("scale_param").bias_term:
            self.blobs[-1].diff[...] += dy.sum(self.axes)
        if self.given:
            return [dy * self.factor, factor]
        self.blobs[0].diff[...] += factor
        return [dy * self.factor]


@layer("Bias")
class Bias(_Broadcasting):
    def setup(self, *bottoms: Array) -> None:
        param = self.param("bias_param")
        if len(bottoms) == 1:
            self.add_blob(self.shape_of(bottoms[0], param.axis, param.num_axes), param.filler)

    def forward(self, *bottoms: Array) -> List[Array]:
        self.given = len(bottoms) > 1
        addend = bottoms[1] if self.given else self.blobs[0].data
        return [bottoms[0] + self.along(addend, bottoms[0], self.param("bias_param").axis)]

    def backward(self, dy: Array) -> Diffs:
        addend = dy.sum(self.axes)
        if self.given:
            return [dy, addend]
        self.blobs[0].diff[...] += addend
        return [dy]


@layer("Parameter")
class Parameter(Layer):
    """A parameter as a top; zeros at first."""

    def setup(self) -> None:
        self.add_blob([int(size) for size in self.param("parameter_param").shape.dim])

    def forward(self) -> List[Array]:
        return [self.blobs[0].data.copy()]

    def backward(self, dy: Array) -> Diffs:
        self.blobs[0].diff[...] += dy
        return []


@layer("Reduction")
class Reduction(Layer):
    """SUM, ASUM, SUMSQ or MEAN over the dimensions from ``axis`` on, times a coefficient."""

    def forward(self, x: Array) -> List[Array]:
        param, self.x = self.param("reduction_param"), x
        start = self.axis(param.axis, x.ndim)
        rows = x.reshape(*x.shape[:start], -1)
        self.count = rows.shape[-1]
        prepared = {2: np.abs, 3: np.square}.get(param.operation, np.asarray)(rows)
        y = prepared.sum(-1) * np.float32(param.coeff)
        return [np.asarray(y / self.count if param.operation == 4 else y, np.float32)]

    def backward(self, dy: Array) -> Diffs:
        param = self.param("reduction_param")
        wide = np.asarray(dy).reshape(*dy.shape, *(1,) * (self.x.ndim - dy.ndim)) * np.float32(param.coeff)
        slope = {1: 1, 2: np.sign(self.x), 3: 2 * self.x, 4: 1 / np.float32(self.count)}[param.operation]
        return [np.broadcast_to(wide * slope, self.x.shape).astype(np.float32)]


def softmax(x: Array, axis: int) -> Array:
    """The exponentials, divided by their sum along an axis."""
    powers = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis, keepdims=True))


@layer("Softmax")
class Softmax(Layer):
    def forward(self, x: Array) -> List[Array]:
        self.at = self.axis(self.param("softmax_param").axis, x.ndim)
        self.y = softmax(x, self.at)
        return [self.y]

    def backward(self, dy: Array) -> Diffs:
        return [(dy - (dy * self.y).sum(self.at, keepdims=True)) * self.y]
