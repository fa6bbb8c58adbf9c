"""Normalisations."""

from __future__ import annotations

import numpy as np

from exporter.caffe.layer import Layer
from exporter.caffe.rules import rule


@rule("BatchNorm")
def batch_norm(layer: Layer) -> None:
    """With trained statistics, stored as sums and the factor to divide them by; a factor of 0 makes them 0.

    With the batch's statistics if use_global_stats is false; by default it is false in the phase TRAIN.
    """
    layer.counts()
    param = layer.param("batch_norm_param")
    if not (param.use_global_stats if param.HasField("use_global_stats") else not layer.training):
        layer.require(layer.rank() != 1, "needs a batch and channels for statistics of the batch")
        layer.caffe("BatchNorm", eps=param.eps)
        return
    layer.require_blobs(3)
    dims = layer.dims()
    channels = (dims[1] if len(dims) > 1 else 1) if dims else None
    (total,) = layer.trained(2, [1])
    factor = np.float32(0 if total == 0 else 1 / total)
    mean, variance = layer.trained(0, [channels]) * factor, layer.trained(1, [channels]) * factor
    layer.require(
        bool(np.all(np.isfinite(variance)) and np.all(variance + param.eps > 0)),
        "blob 1, the variances, must be numbers and not negative",
    )
    ones, zeros = np.ones_like(mean), np.zeros_like(mean)
    constants = [
        layer.constant(stem, value)
        for stem, value in (("scale", ones), ("bias", zeros), ("mean", mean), ("var", variance))
    ]
    type, domain = ("BatchNormalization", "onnx") if dims is not None and len(dims) == 1 else ("SpatialBN", "")
    layer.add(type, [*layer.bottoms, *constants], domain=domain, is_test=None if domain else 1, epsilon=param.eps)


@rule("LRN")
def local_response(layer: Layer) -> None:
    """Across channels as in Caffe2; within a channel over a square of pixels, where k is ignored."""
    layer.counts()
    param = layer.param("lrn_param")
    size = param.local_size
    layer.require(size % 2 == 1, f"local_size must be odd, got {size}")
    if param.norm_region == param.ACROSS_CHANNELS:
        layer.add("LRN", size=size, alpha=param.alpha, beta=param.beta, bias=param.k)
        return
    squares, means, factors = (layer.fresh(stem) for stem in ("squares", "means", "factors"))
    layer.add("Sqr", outputs=[squares])
    layer.onnx("AveragePool", [squares], [means], kernel_shape=[size, size], pads=[size // 2] * 4, count_include_pad=1)
    layer.caffe("Power", [means], [factors], power=-param.beta, scale=param.alpha, shift=1.0)
    layer.add("Mul", [layer.bottoms[0], factors])


@rule("MVN")
def mean_variance(layer: Layer) -> None:
    layer.counts()
    param, rank = layer.param("mvn_param"), layer.rank() or 4
    layer.require(2 <= rank <= 4, f"needs 2 to 4 dimensions, there are {rank}")
    tops = list(layer.tops) if rank == 4 else [layer.fresh("normalised")]
    layer.caffe(
        "MVN",
        outputs=tops,
        normalize_variance=int(param.normalize_variance),
        across_channels=int(param.across_channels),
        eps=param.eps,
    )
    if rank < 4:
        layer.add("Reshape", tops, [layer.tops[0], layer.fresh("shape")], shape=[0] * rank + [1] * (4 - rank))


@rule("Normalize")
def normalize(layer: Layer) -> None:
    """From the SSD fork: each pixel's channels are normalised to length 1 and multiplied by a trained scale."""
    layer.counts()
    layer.require_blobs(1)
    param, dims = layer.param("norm_param"), layer.dims()
    count = 1 if param.channel_shared else dims[1] if dims and len(dims) > 1 else None
    scale = layer.trained(0).reshape(-1)
    layer.require(count in (None, len(scale)), f"blob 0 has {len(scale)} scales, {count} are needed")
    layer.caffe(
        "Normalize",
        [*layer.bottoms, layer.constant("scale", scale)],
        eps=param.eps,
        across_spatial=int(param.across_spatial),
    )


@rule("BN")
def segmentation_batch_norm(layer: Layer) -> None:
    """From SegNet's and PSPNet's forks: scale, shift and trained statistics, or a scale and shift that include them."""
    layer.counts()
    dims = layer.dims()
    channels = dims[1] if dims and len(dims) > 1 else None
    if layer.blob_count() == 2:
        scale, shift = (layer.weight(stem, index, [1, channels, 1, 1]) for index, stem in enumerate(("scale", "shift")))
        product = layer.fresh("product")
        layer.add("Mul", [layer.bottoms[0], scale], [product])
        layer.add("Add", [product, shift])
        return
    layer.require_blobs(4)
    constants = [
        layer.constant(stem, layer.trained(index).reshape(-1))
        for index, stem in enumerate(("scale", "shift", "mean", "var"))
    ]
    layer.require(
        all(layer.trained(index).size in (channels or layer.trained(0).size,) for index in range(4)),
        f"blobs 0 to 3 must have a number for each channel, {channels}",
    )
    layer.add("SpatialBN", [*layer.bottoms, *constants], is_test=1, epsilon=layer.param("bn_param").eps)
