"""Tiny networks as ONNX models with random weights, as in benchmarks of microcontrollers and in first lessons. Their
batch normalisation is folded.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, Sequence, Tuple

import numpy as np
import onnx

from scripts.benchmarks.sequence_networks import Graph, Network

DIGITS = Path(__file__).parents[2] / "demo" / "digits.onnx"
SAME = (1, 1, 1, 1)


class _Chain:
    """A graph in which each node reads the one before. shape: of the input, (channels, height, width)."""

    def __init__(self, *shape: int):
        self._graph, self._channels = Graph(), shape[0]
        self._last = self._graph.feed("data", 1, *shape)

    def node(self, type: str, *weights: str, **attributes: Any) -> _Chain:
        self._last = self._graph.node(type, self._last, *weights, **attributes)
        return self

    def conv(
        self, channels: int, kernel: Tuple[int, int], stride: int = 1, pads: Sequence[int] = (0,) * 4, group: int = 1
    ) -> _Chain:
        depth, self._channels = self._channels // group, channels
        deviation = (2 / (depth * kernel[0] * kernel[1])) ** 0.5
        weights = self._graph.normal(channels, depth, *kernel, deviation=deviation)
        bias = self._graph.normal(channels, deviation=0.1)
        return self.node("Conv", weights, bias, group=group, kernel_shape=kernel, strides=[stride] * 2, pads=pads)

    def separable(self, channels: int, stride: int = 1) -> _Chain:
        """A depthwise convolution, then a 1x1 convolution, each with ReLU."""
        before = self._channels
        return self.conv(before, (3, 3), stride, SAME, before).node("Relu").conv(channels, (1, 1)).node("Relu")

    def max_pool(self, size: int) -> _Chain:
        return self.node("MaxPool", kernel_shape=[size] * 2, strides=[size] * 2)

    def linear(self, terms: int, width: int) -> _Chain:
        self._last = self._graph.linear(self._last, terms, width)
        return self

    def network(self) -> Network:
        return self.node("Softmax")._graph.network(self._last)


def digits() -> Network:
    """The demo's network, with its own weights."""
    image = np.random.default_rng(0).random((1, 1, 8, 8), np.float32)
    return Network(onnx.load(DIGITS), {"image": image})


def lenet() -> Network:
    """LeNet as in Caffe's examples."""
    net = _Chain(1, 28, 28).conv(20, (5, 5)).max_pool(2).conv(50, (5, 5)).max_pool(2).node("Flatten")
    return net.linear(800, 500).node("Relu").linear(500, 10).network()


def mnist() -> Network:
    """CNTK's network for MNIST, as in ONNX's model zoo."""
    wide = (2, 2, 2, 2)
    net = _Chain(1, 28, 28).conv(8, (5, 5), pads=wide).node("Relu").max_pool(2)
    return net.conv(16, (5, 5), pads=wide).node("Relu").max_pool(3).node("Flatten").linear(256, 10).network()


def kws() -> Network:
    """DS-CNN, the keyword spotter of MLPerf Tiny."""
    net = _Chain(1, 49, 10).conv(64, (10, 4), 2, (4, 1, 5, 1)).node("Relu")
    for _ in range(4):
        net = net.separable(64)
    return net.node("GlobalAveragePool").node("Flatten").linear(64, 12).network()


def vww() -> Network:
    """MobileNetV1 of width 0.25 on 96x96 pixels, the visual wake words of MLPerf Tiny."""
    net = _Chain(3, 96, 96).conv(8, (3, 3), 2, SAME).node("Relu")
    for channels, strides in ((16, (1,)), (32, (2, 1)), (64, (2, 1)), (128, (2, 1, 1, 1, 1, 1)), (256, (2, 1))):
        for stride in strides:
            net = net.separable(channels, stride)
    return net.node("GlobalAveragePool").node("Flatten").linear(256, 2).network()


NETWORKS: Dict[str, Callable[[], Network]] = {network.__name__: network for network in (digits, lenet, mnist, kws, vww)}
