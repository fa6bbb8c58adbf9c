"""Layers that work element by element."""

from __future__ import annotations

from typing import List

import numpy as np

from runtime_arm.netdef import Array
from training.caffe.layers.layer import Diffs, Layer, layer


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), without overflow."""
    return np.asarray(0.5 * np.tanh(0.5 * x) + 0.5, x.dtype)


@layer("AbsVal")
class AbsVal(Layer):
    def forward(self, x: Array) -> List[Array]:
        self.require(self.proto.top[0] != self.proto.bottom[0], "does not work in place")
        self.sign = np.sign(x)
        return [np.abs(x)]

    def backward(self, dy: Array) -> Diffs:
        return [dy * self.sign]


@layer("ReLU")
class ReLU(Layer):
    """max(x, 0) + negative_slope min(x, 0); its slope at 0 is the negative one."""

    def forward(self, x: Array) -> List[Array]:
        self.slope = np.where(x > 0, np.float32(1), np.float32(self.param("relu_param").negative_slope))
        return [x * self.slope if self.param("relu_param").negative_slope else np.maximum(x, 0)]

    def trial(self, x: Array) -> List[Array]:
        return [x]

    def backward(self, dy: Array) -> Diffs:
        return [dy * self.slope]


@layer("PReLU")
class PReLU(Layer):
    """A slope for each channel, or one for all."""

    def setup(self, x: Array) -> None:
        param = self.param("prelu_param")
        self.require(x.ndim >= 2, "needs channels")
        self.add_blob(() if param.channel_shared else (x.shape[1],), param.filler if param.HasField("filler") else None)
        if not param.HasField("filler") and not self._given:
            self.blobs[0].data[...] = 0.25

    def _slope(self) -> Array:
        slope = self.blobs[0].data
        return slope if slope.size == 1 else slope.reshape(-1, *(1,) * (self.x.ndim - 2))

    def forward(self, x: Array) -> List[Array]:
        self.x = x
        return [np.maximum(x, 0) + self._slope() * np.minimum(x, 0)]

    def backward(self, dy: Array) -> Diffs:
        below = dy * self.x * (self.x <= 0)
        axes = tuple(axis for axis in range(self.x.ndim) if axis != 1)
        self.blobs[0].diff[...] += below.sum() if self.blobs[0].data.ndim == 0 else below.sum(axes)
        return [dy * np.where(self.x > 0, np.float32(1), self._slope())]


@layer("ELU")
class ELU(Layer):
    def forward(self, x: Array) -> List[Array]:
        alpha = np.float32(self.param("elu_param").alpha)
        below = alpha * np.expm1(np.minimum(x, 0))
        self.slope = np.where(x > 0, np.float32(1), below + alpha)
        return [np.maximum(x, 0) + below]

    def backward(self, dy: Array) -> Diffs:
        return [dy * self.slope]


@layer("Sigmoid")
class Sigmoid(Layer):
    def forward(self, x: Array) -> List[Array]:
        self.y = sigmoid(x)
        return [self.y]

    def backward(self, dy: Array) -> Diffs:
        return [dy * self.y * (1 - self.y)]


@layer("TanH")
class TanH(Layer):
    def forward(self, x: Array) -> List[Array]:
        self.y = np.tanh(x)
        return [self.y]

    def backward(self, dy: Array) -> Diffs:
        return [dy * (1 - self.y * self.y)]


@layer("BNLL")
class BNLL(Layer):
    """log(1 + exp(x))"""

    def forward(self, x: Array) -> List[Array]:
        self.slope = sigmoid(np.minimum(x, 50))
        return [np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))]

    def backward(self, dy: Array) -> Diffs:
        return [dy * self.slope]


@layer("Swish")
class Swish(Layer):
    def forward(self, x: Array) -> List[Array]:
        self.beta, self.gate = np.float32(self.param("swish_param").beta), sigmoid(self.param("swish_param").beta * x)
        self.y = x * self.gate
        return [self.y]

    def backward(self, dy: Array) -> Diffs:
        return [dy * (self.beta * self.y + self.gate * (1 - self.beta * self.y))]


@layer("Clip")
class Clip(Layer):
    """The gradient passes at the bounds, too."""

    def forward(self, x: Array) -> List[Array]:
        param = self.param("clip_param")
        self.inside = (x >= np.float32(param.min)) & (x <= np.float32(param.max))
        return [np.maximum(np.float32(param.min), np.minimum(x, np.float32(param.max)))]

    def backward(self, dy: Array) -> Diffs:
        return [dy * self.inside]


@layer("Threshold")
class Threshold(Layer):
    def forward(self, x: Array) -> List[Array]:
        return [(x > np.float32(self.param("threshold_param").threshold)).astype(np.float32)]


@layer("Dropout")
class Dropout(Layer):
    """In training each element is dropped by chance, and what is left is scaled up."""

    def forward(self, x: Array) -> List[Array]:
        ratio = self.param("dropout_param").dropout_ratio
        self.require(0 < ratio < 1, f"dropout_ratio must be between 0 and 1, it is {ratio}")
        self.mask = None
        if self.training:
            self.mask = ((self.random.random_sample(x.shape) >= ratio) / (1 - ratio)).astype(np.float32)
        return [x if self.mask is None else x * self.mask]

    def backward(self, dy: Array) -> Diffs:
        return [dy if self.mask is None else dy * self.mask]


@layer("Power")
class Power(Layer):
    """(shift + scale x) ** power"""

    def forward(self, x: Array) -> List[Array]:
        param = self.param("power_param")
        self.base = np.float32(param.shift) + np.float32(param.scale) * x
        return [np.full_like(x, 1) if param.power == 0 else self.base ** np.float32(param.power)]

    def backward(self, dy: Array) -> Diffs:
        param = self.param("power_param")
        slope = np.float32(param.power * param.scale)
        if slope == 0:
            return [np.zeros_like(dy)]
        return [dy * slope * (1 if param.power == 1 else self.base ** np.float32(param.power - 1))]


@layer("Exp")
class Exp(Layer):
    """base ** (shift + scale x); base -1 is e"""

    def forward(self, x: Array) -> List[Array]:
        param = self.param("exp_param")
        self.require(param.base == -1 or param.base > 0, f"base must be greater than 0, or -1; it is {param.base}")
        log = 1.0 if param.base == -1 else float(np.log(param.base))
        self.slope = np.float32(log * param.scale)
        self.y = np.exp(self.slope * x + np.float32(log * param.shift))
        return [self.y]

    def backward(self, dy: Array) -> Diffs:
        return [dy * self.y * self.slope]


@layer("Log")
class Log(Layer):
    """log to a base of (shift + scale x)"""

    def forward(self, x: Array) -> List[Array]:
        param = self.param("log_param")
        self.require(param.base == -1 or param.base > 0, f"base must be greater than 0, or -1; it is {param.base}")
        self.scale = np.float32(1.0 if param.base == -1 else 1 / np.log(param.base))
        self.inner, self.slope = np.float32(param.shift) + np.float32(param.scale) * x, np.float32(param.scale)
        return [np.log(self.inner) * self.scale]

    def backward(self, dy: Array) -> Diffs:
        return [dy * self.scale * self.slope / self.inner]
