"""Well-known convolutional networks as ONNX models with random weights, for benchmarks and tests.

The layers are those of the papers, arranged as in torchvision; outputs are logits, as there. Every function takes the
options of ``Builder``: image_size, batch (a string makes it dynamic), opset, seed.
"""

from __future__ import annotations

from typing import Any, Callable

import onnx

from device_tests.host.networks.builder import BRANCH_SCALE, Blob, Builder
from device_tests.host.networks.mobile import efficientnet_b0, mobilenet_v3_small
from runtime_arm.errors import UsageError


def build(name: str, **options: Any) -> onnx.ModelProto:
    """The network of that name, with the options of its function. UsageError for an unknown name."""
    if name not in NETWORKS:
        raise UsageError(f"no network {name!r}; there are {', '.join(NETWORKS)}")
    return NETWORKS[name](**options)


def squeezenet1_1(classes: int = 1000, **options: Any) -> onnx.ModelProto:
    """SqueezeNet 1.1 (Iandola et al., 2016; the authors' later revision)."""
    net = Builder("squeezenet1_1", **options)

    def fire(x: Blob, squeeze: int, expand: int) -> Blob:
        x = net.relu(net.conv(x, squeeze, 1))
        return net.concat(net.relu(net.conv(x, expand, 1)), net.relu(net.conv(x, expand, 3, padding=1)))

    x = net.max_pool(net.relu(net.conv(net.data, 64, 3, stride=2)), 3, 2, ceil_mode=True)
    x = fire(fire(x, 16, 64), 16, 64)
    x = net.max_pool(x, 3, 2, ceil_mode=True)
    x = fire(fire(x, 32, 128), 32, 128)
    x = net.max_pool(x, 3, 2, ceil_mode=True)
    for squeeze, expand in ((48, 192), (48, 192), (64, 256), (64, 256)):
        x = fire(x, squeeze, expand)
    x = net.relu(net.conv(x, classes, 1))
    return net.model(net.flatten(net.global_average_pool(x)))


def _vgg16_features(net: Builder) -> Blob:
    x = net.data
    for channels, repeats in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(repeats):
            x = net.relu(net.conv(x, channels, 3, padding=1))
        x = net.max_pool(x, 2, 2)
    return x


def vgg16(classes: int = 1000, **options: Any) -> onnx.ModelProto:
    """VGG-16, configuration D (Simonyan and Zisserman, 2015). 528 MB of weights at 224x224."""
    net = Builder("vgg16", **options)
    x = net.flatten(_vgg16_features(net))
    for _ in range(2):
        x = net.relu(net.linear(x, 4096))
    return net.model(net.linear(x, classes))


def vgg16_conv(**options: Any) -> onnx.ModelProto:
    """The convolutions and poolings of VGG-16, without its classifier."""
    net = Builder("vgg16_conv", **options)
    return net.model(_vgg16_features(net))


def resnet18(classes: int = 1000, **options: Any) -> onnx.ModelProto:
    """ResNet-18 (He et al., 2016)."""
    net = Builder("resnet18", **options)

    def basic_block(x: Blob, width: int, stride: int) -> Blob:
        y = net.relu(net.conv_bn(x, width, 3, stride, padding=1))
        y = net.conv_bn(y, width, 3, padding=1, scale=BRANCH_SCALE)
        shortcut = x if y.channels == x.channels else net.conv_bn(x, width, 1, stride)
        return net.relu(net.add(y, shortcut))

    return _resnet(net, basic_block, (2, 2, 2, 2), classes)


def resnet50(classes: int = 1000, **options: Any) -> onnx.ModelProto:
    """ResNet-50 with the stride in the 3x3 convolution (He et al., 2016; version 1.5)."""
    net = Builder("resnet50", **options)

    def bottleneck(x: Blob, width: int, stride: int) -> Blob:
        y = net.relu(net.conv_bn(x, width, 1))
        y = net.relu(net.conv_bn(y, width, 3, stride, padding=1))
        y = net.conv_bn(y, 4 * width, 1, scale=BRANCH_SCALE)
        shortcut = x if y.channels == x.channels else net.conv_bn(x, 4 * width, 1, stride)
        return net.relu(net.add(y, shortcut))

    return _resnet(net, bottleneck, (3, 4, 6, 3), classes)


def _resnet(
    net: Builder, block: Callable[[Blob, int, int], Blob], depths: tuple[int, int, int, int], classes: int
) -> onnx.ModelProto:
    x = net.max_pool(net.relu(net.conv_bn(net.data, 64, 7, 2, padding=3)), 3, 2, padding=1)
    for stage, depth in enumerate(depths):
        for index in range(depth):
            x = block(x, 64 << stage, 2 if stage and not index else 1)
    return net.model(net.linear(net.flatten(net.global_average_pool(x)), classes))


def mobilenet_v2(classes: int = 1000, **options: Any) -> onnx.ModelProto:
    """MobileNetV2 at width 1.0 (Sandler et al., 2018)."""
    net = Builder("mobilenet_v2", **options)

    def inverted_residual(x: Blob, channels: int, stride: int, expansion: int) -> Blob:
        hidden = x.channels * expansion
        y = net.relu6(net.conv_bn(x, hidden, 1)) if expansion > 1 else x
        y = net.relu6(net.conv_bn(y, hidden, 3, stride, padding=1, groups=hidden))
        y = net.conv_bn(y, channels, 1, scale=BRANCH_SCALE)
        return net.add(x, y) if stride == 1 and channels == x.channels else y

    x = net.relu6(net.conv_bn(net.data, 32, 3, 2, padding=1))
    stages = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for expansion, channels, depth, stride in stages:
        for index in range(depth):
            x = inverted_residual(x, channels, 1 if index else stride, expansion)
    x = net.relu6(net.conv_bn(x, 1280, 1))
    return net.model(net.linear(net.flatten(net.global_average_pool(x)), classes))


def densenet121(classes: int = 1000, **options: Any) -> onnx.ModelProto:
    """DenseNet-121, growth rate 32 (Huang et al., 2017)."""
    net = Builder("densenet121", **options)
    growth = 32

    def dense_layer(x: Blob) -> Blob:
        y = net.relu(net.conv_bn(net.relu(net.batch_norm(x)), 4 * growth, 1))
        return net.concat(x, net.conv(y, growth, 3, padding=1, bias=False))

    x = net.max_pool(net.relu(net.conv_bn(net.data, 64, 7, 2, padding=3)), 3, 2, padding=1)
    for depth in (6, 12, 24, 16):
        if x.channels > 64:
            x = net.average_pool(net.conv(net.relu(net.batch_norm(x)), x.channels // 2, 1, bias=False), 2)
        for _ in range(depth):
            x = dense_layer(x)
    x = net.global_average_pool(net.relu(net.batch_norm(x)))
    return net.model(net.linear(net.flatten(x), classes))


def googlenet(classes: int = 1000, **options: Any) -> onnx.ModelProto:
    """GoogLeNet with batch normalisation (Szegedy et al., 2015), with 3x3 kernels instead of 5x5, as in torchvision."""
    net = Builder("googlenet", **options)

    def conv(x: Blob, channels: int, kernel: int, stride: int = 1) -> Blob:
        y = net.conv(x, channels, kernel, stride, padding=kernel // 2, bias=False)
        return net.relu(net.batch_norm(y, epsilon=1e-3))

    def inception(x: Blob, c1: int, c3_in: int, c3: int, c5_in: int, c5: int, pooled: int) -> Blob:
        return net.concat(
            conv(x, c1, 1),
            conv(conv(x, c3_in, 1), c3, 3),
            conv(conv(x, c5_in, 1), c5, 3),
            conv(net.max_pool(x, 3, 1, padding=1), pooled, 1),
        )

    x = net.max_pool(conv(net.data, 64, 7, 2), 3, 2, ceil_mode=True)
    x = net.max_pool(conv(conv(x, 64, 1), 192, 3), 3, 2, ceil_mode=True)
    x = inception(x, 64, 96, 128, 16, 32, 32)
    x = inception(x, 128, 128, 192, 32, 96, 64)
    x = net.max_pool(x, 3, 2, ceil_mode=True)
    x = inception(x, 192, 96, 208, 16, 48, 64)
    x = inception(x, 160, 112, 224, 24, 64, 64)
    x = inception(x, 128, 128, 256, 24, 64, 64)
    x = inception(x, 112, 144, 288, 32, 64, 64)
    x = inception(x, 256, 160, 320, 32, 128, 128)
    x = net.max_pool(x, 2, 2, ceil_mode=True)
    x = inception(x, 256, 160, 320, 32, 128, 128)
    x = inception(x, 384, 192, 384, 48, 128, 128)
    return net.model(net.linear(net.flatten(net.global_average_pool(x)), classes))


def unet(classes: int = 2, width: int = 16, **options: Any) -> onnx.ModelProto:
    """A small U-Net (Ronneberger et al., 2015): four halvings, padded convolutions; image sizes in multiples of 16.

    The output has the size of the image and a channel for each class.
    """
    net = Builder("unet", **options)

    def double_conv(x: Blob, channels: int) -> Blob:
        for _ in range(2):
            x = net.relu(net.conv_bn(x, channels, 3, padding=1))
        return x

    skips = []
    x = double_conv(net.data, width)
    for level in range(1, 5):
        skips.append(x)
        x = double_conv(net.max_pool(x, 2, 2), width << level)
    for skip in reversed(skips):
        x = double_conv(net.concat(skip, net.conv_transpose(x, skip.channels, 2)), skip.channels)
    return net.model(net.conv(x, classes, 1))


NETWORKS: dict[str, Callable[..., onnx.ModelProto]] = {
    network.__name__: network
    for network in (
        squeezenet1_1,
        vgg16,
        vgg16_conv,
        resnet18,
        resnet50,
        mobilenet_v2,
        mobilenet_v3_small,
        efficientnet_b0,
        densenet121,
        googlenet,
        unet,
    )
}
