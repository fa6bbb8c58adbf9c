"""Normalisations: BatchNorm, LRN, MVN."""

from __future__ import annotations

from typing import List

import numpy as np

from runtime_arm.netdef import Array
from training.caffe.layers.layer import Diffs, Layer, layer
from training.caffe.layers.pooling import AVE, Pool, Windows

_WITHIN = 1  # NormRegion


@layer("BatchNorm")
class BatchNorm(Layer):
    """In training by the statistics of the batch, which its blobs sum up; else by those sums.

    Blobs: the sums of means, of variances, and of weights; a solver does not change them.
    """

    def setup(self, x: Array) -> None:
        channels = x.shape[1] if x.ndim > 1 else 1
        for shape in ((channels,), (channels,), (1,)):
            self.add_blob(shape)
        for _ in range(3 - len(self.proto.param)):
            self.proto.param.add()
        for param in self.proto.param:
            self.require(not param.HasField("lr_mult") or param.lr_mult == 0, "its statistics are not learned")
            param.lr_mult = 0

    def forward(self, x: Array) -> List[Array]:
        param = self.param("batch_norm_param")
        self.stored = param.use_global_stats if param.HasField("use_global_stats") else not self.training
        self.axes = tuple(axis for axis in range(x.ndim) if axis != 1) if x.ndim > 1 else (0,)
        shape = [1 if axis in self.axes else n for axis, n in enumerate(x.shape)]
        means, variances, weight = (blob.data for blob in self.blobs)
        if self.stored:
            factor = 0 if weight[0] == 0 else 1 / weight[0]
            mean, variance = (means * factor).reshape(shape), (variances * factor).reshape(shape)
        else:
            self.require(x.ndim > 1, "needs a batch and channels for statistics of the batch")
            mean = x.mean(self.axes, keepdims=True, dtype=np.float64).astype(np.float32)
            variance = ((x - mean) ** 2).mean(self.axes, keepdims=True, dtype=np.float64).astype(np.float32)
            self._sum_up(mean, variance, x.size // means.size)
        self.deviation = np.sqrt(variance + np.float32(param.eps))
        self.y = (x - mean) / self.deviation
        return [self.y]

    def _sum_up(self, mean: Array, variance: Array, count: int) -> None:
        fraction = np.float32(self.param("batch_norm_param").moving_average_fraction)
        means, variances, weight = (blob.data for blob in self.blobs)
        weight[...] = weight * fraction + 1
        means[...] = means * fraction + mean.reshape(-1)
        unbiased = count / (count - 1) if count > 1 else 1.0
        variances[...] = variances * fraction + variance.reshape(-1) * np.float32(unbiased)

    def backward(self, dy: Array) -> Diffs:
        if self.stored:
            return [dy / self.deviation]
        mean = dy.mean(self.axes, keepdims=True)
        along = (dy * self.y).mean(self.axes, keepdims=True)
        return [(dy - mean - along * self.y) / self.deviation]


@layer("LRN")
class LRN(Layer):
    """Across channels, or within a channel over the pixels around."""

    def forward(self, x: Array) -> List[Array]:
        param, self.x = self.param("lrn_param"), x
        size = param.local_size
        self.require(size % 2 == 1, f"local_size must be odd, it is {size}")
        self.alpha, self.beta, self.within = (
            np.float32(param.alpha),
            np.float32(param.beta),
            param.norm_region == _WITHIN,
        )
        if self.within:
            image, half = (x.shape[2], x.shape[3]), (size - 1) // 2
            self.pool = Pool(Windows(image, (size, size), (1, 1), (half, half), image), AVE)
            self.scale = 1 + self.alpha * self.pool.forward(x * x)
        else:
            self.scale = np.float32(param.k) + self.alpha / size * self._around(x * x)
        self.factor = self.scale**-self.beta
        return [x * self.factor]

    def _around(self, values: Array) -> Array:
        """The sums over the channels around each channel."""
        half, channels = self.param("lrn_param").local_size // 2, values.shape[1]
        ends = np.concatenate([np.zeros_like(values[:, :1], np.float64), np.cumsum(values, 1, np.float64)], 1)
        at = np.arange(channels)
        low, high = np.maximum(at - half, 0), np.minimum(at + half + 1, channels)
        return np.asarray(ends[:, high] - ends[:, low], np.float32)

    def backward(self, dy: Array) -> Diffs:
        outer = dy * self.x * self.factor / self.scale * self.beta
        if self.within:
            return [dy * self.factor - 2 * self.alpha * self.x * self.pool.backward(outer)]
        size = self.param("lrn_param").local_size
        return [dy * self.factor - 2 * self.alpha / size * self.x * self._around(outer)]


@layer("MVN")
class MVN(Layer):
    """Less the mean, and divided by the deviation, of each channel or of all. The top has four dimensions."""

    def forward(self, x: Array) -> List[Array]:
        param = self.param("mvn_param")
        self.require(2 <= x.ndim <= 4, f"needs 2 to 4 dimensions, there are {x.ndim}")
        self.shape = x.shape
        rows = x.reshape(x.shape[0] if param.across_channels else x.shape[0] * x.shape[1], -1)
        self.y = rows - rows.mean(1, keepdims=True)
        self.deviation = None
        if param.normalize_variance:
            self.deviation = np.sqrt((self.y**2).mean(1, keepdims=True)) + np.float32(param.eps)
            self.y = self.y / self.deviation
        return [self.y.reshape(*x.shape, *[1] * (4 - x.ndim))]

    def backward(self, dy: Array) -> Diffs:
        rows = dy.reshape(self.y.shape)
        centred = rows - rows.mean(1, keepdims=True)
        if self.deviation is not None:
            centred = (centred - self.y * (rows * self.y).mean(1, keepdims=True)) / self.deviation
        return [centred.reshape(self.shape)]
