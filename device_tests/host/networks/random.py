"""Small random convolutional networks for devices: branches, additions, strides, groups, odd sizes."""

from __future__ import annotations

from typing import Any, Callable, List

import numpy as np
import onnx

from device_tests.host.networks.builder import Blob, Builder

LAYERS = 6
MOST_CHANNELS = 24


def random_network(seed: int) -> onnx.ModelProto:
    """The network for that seed, always the same one, for a square picture of 9 to 16 pixels a side."""
    rng = np.random.default_rng(seed)
    net = Builder(f"random_{seed}", image_size=int(rng.integers(9, 17)), channels=int(rng.integers(1, 5)), seed=seed)
    x = net.conv_bn(net.data, int(rng.integers(4, 9)), 3, padding=1)
    for _ in range(LAYERS):
        layer: Callable[[Builder, Blob, Any], Blob] = _LAYERS[rng.integers(len(_LAYERS))]
        x = layer(net, x, rng)
    return net.model(net.linear(net.flatten(net.global_average_pool(x)), 5))


def _convolution(net: Builder, x: Blob, rng: Any) -> Blob:
    kernel = int(rng.choice([1, 3, 3, 5]))
    stride = int(rng.integers(1, 3)) if x.size > 6 else 1
    groups = int(rng.choice([group for group in (1, 2, x.channels) if x.channels % group == 0]))
    channels = groups * int(rng.integers(1, max(2, MOST_CHANNELS // groups)))
    return net.relu(net.conv(x, channels, kernel, stride, padding=kernel // 2, groups=groups))


def _depthwise(net: Builder, x: Blob, rng: Any) -> Blob:
    return net.relu6(net.conv_bn(x, x.channels, 3, padding=1, groups=x.channels))


def _residual(net: Builder, x: Blob, rng: Any) -> Blob:
    return net.relu(net.add(net.conv_bn(x, x.channels, 3, padding=1), x))


def _branches(net: Builder, x: Blob, rng: Any) -> Blob:
    width = max(1, min(x.channels, MOST_CHANNELS // 2))
    return net.concat(net.relu(net.conv(x, width, 1)), net.relu(net.conv(x, width, 3, padding=1)))


def _max_pool(net: Builder, x: Blob, rng: Any) -> Blob:
    return net.max_pool(x, 3, 2, padding=1, ceil_mode=bool(rng.integers(2))) if x.size > 4 else x


def _enlarge(net: Builder, x: Blob, rng: Any) -> Blob:
    return net.conv_transpose(x, x.channels, 2) if x.size <= 8 else net.average_pool(x, 2)


_LAYERS: List[Callable[[Builder, Blob, Any], Blob]] = [
    _convolution,
    _convolution,
    _depthwise,
    _residual,
    _branches,
    _max_pool,
    _enlarge,
]
