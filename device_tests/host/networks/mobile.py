"""Networks for phones whose blocks weigh their channels: squeeze-and-excitation between depthwise and 1x1 convolutions.

The options are those of ``known.py``.
"""

from __future__ import annotations

from typing import Any, Callable

import onnx

from device_tests.host.networks.builder import BRANCH_SCALE, Blob, Builder

Activation = Callable[[Blob], Blob]
GATE = 0.5  # what a factor of squeeze-and-excitation is on average


def mobilenet_v3_small(classes: int = 1000, **options: Any) -> onnx.ModelProto:
    """MobileNetV3-small at width 1.0 (Howard et al., 2019)."""
    net = Builder("mobilenet_v3_small", **options)
    relu, swish = net.relu, net.hard_swish

    def block(
        x: Blob, kernel: int, hidden: int, channels: int, squeezed: int, activation: Activation, stride: int
    ) -> Blob:
        y = _conv(net, x, hidden, 1, activation) if hidden != x.channels else x
        y = _conv(net, y, hidden, kernel, activation, stride, groups=hidden)
        if squeezed:
            y = _excite(net, y, squeezed, relu, net.hard_sigmoid)
        y = net.conv_bn(y, channels, 1, scale=BRANCH_SCALE / (GATE if squeezed else 1), epsilon=1e-3)
        return net.add(x, y) if stride == 1 and channels == x.channels else y

    x = _conv(net, net.data, 16, 3, swish, 2)
    x = block(x, 3, 16, 16, 8, relu, 2)
    x = block(x, 3, 72, 24, 0, relu, 2)
    x = block(x, 3, 88, 24, 0, relu, 1)
    x = block(x, 5, 96, 40, 24, swish, 2)
    for _ in range(2):
        x = block(x, 5, 240, 40, 64, swish, 1)
    x = block(x, 5, 120, 48, 32, swish, 1)
    x = block(x, 5, 144, 48, 40, swish, 1)
    x = block(x, 5, 288, 96, 72, swish, 2)
    for _ in range(2):
        x = block(x, 5, 576, 96, 144, swish, 1)
    x = net.flatten(net.global_average_pool(_conv(net, x, 576, 1, swish)))
    return net.model(net.linear(swish(net.linear(x, 1024)), classes))


def efficientnet_b0(classes: int = 1000, **options: Any) -> onnx.ModelProto:
    """EfficientNet-B0 (Tan and Le, 2019)."""
    net = Builder("efficientnet_b0", **options)

    def block(x: Blob, kernel: int, expansion: int, channels: int, stride: int) -> Blob:
        hidden = x.channels * expansion
        y = _conv(net, x, hidden, 1, net.swish, epsilon=1e-5) if expansion > 1 else x
        y = _conv(net, y, hidden, kernel, net.swish, stride, hidden, epsilon=1e-5)
        y = _excite(net, y, x.channels // 4, net.swish, net.sigmoid)
        y = net.conv_bn(y, channels, 1, scale=BRANCH_SCALE / GATE)
        return net.add(x, y) if stride == 1 and channels == x.channels else y

    x = _conv(net, net.data, 32, 3, net.swish, 2, epsilon=1e-5)
    stages = (
        (3, 1, 16, 1, 1),
        (3, 6, 24, 2, 2),
        (5, 6, 40, 2, 2),
        (3, 6, 80, 2, 3),
        (5, 6, 112, 1, 3),
        (5, 6, 192, 2, 4),
        (3, 6, 320, 1, 1),
    )
    for kernel, expansion, channels, stride, depth in stages:
        for index in range(depth):
            x = block(x, kernel, expansion, channels, 1 if index else stride)
    x = _conv(net, x, 1280, 1, net.swish, epsilon=1e-5)
    return net.model(net.linear(net.flatten(net.global_average_pool(x)), classes))


def _conv(
    net: Builder,
    x: Blob,
    channels: int,
    kernel: int,
    activation: Activation,
    stride: int = 1,
    groups: int = 1,
    epsilon: float = 1e-3,
) -> Blob:
    """Convolution that keeps the image size except for the stride, batch normalisation, activation."""
    return activation(net.conv_bn(x, channels, kernel, stride, kernel // 2, groups, epsilon=epsilon))


def _excite(net: Builder, x: Blob, squeezed: int, inner: Activation, outer: Activation) -> Blob:
    """Squeeze-and-excitation (Hu et al., 2018): every channel times a factor, computed from the means of all
    channels.
    """
    y = inner(net.conv(net.global_average_pool(x), squeezed, 1))
    return net.multiply(x, outer(net.conv(y, x.channels, 1)))
