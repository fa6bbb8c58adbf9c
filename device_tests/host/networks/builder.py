"""Builds ONNX models with random weights, with a method for each operator."""

from __future__ import annotations

from typing import Any, NamedTuple, Union

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from runtime_arm.errors import UsageError

OLDEST_OPSET = 11  # in which Clip takes its limits as inputs; MaxPool has ceil_mode since 10
BIAS_DEVIATION = 0.05

# The last normalisation of a residual branch has a small scale, as after training: it keeps activations in range when
# many branches are added up.
BRANCH_SCALE = 0.5


class Blob(NamedTuple):
    """A blob of the graph: (N, channels, size, size), or (N, channels) if size is 0."""

    name: str
    channels: int
    size: int


class Builder:
    """An ONNX graph to which each method call appends a node; the call returns the node's output blob.

    The input blob is ``data``, (batch, channels, image_size, image_size) float32; if ``batch`` is a string, it names a
    dynamic dimension. Weights are drawn from ``seed`` in the order of the calls. They are scaled so that activations
    stay near 1 in deep networks, and centred so that different pictures give different answers. UsageError for an opset
    that is not supported, or an image that is too small for the network.
    """

    def __init__(
        self,
        name: str,
        *,
        image_size: int = 224,
        channels: int = 3,
        batch: Union[int, str] = 1,
        opset: int = 17,
        seed: int = 0,
    ) -> None:
        newest = onnx.defs.onnx_opset_version()
        if not OLDEST_OPSET <= opset <= newest:
            raise UsageError(f"{name}: opset must be {OLDEST_OPSET} to {newest}, got {opset}")
        self.name = name
        self.batch = batch
        self.data = Blob("data", channels, image_size)
        self._opset = helper.make_opsetid("", opset)
        self._random = np.random.default_rng(seed)
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []

    def conv(
        self, x: Blob, channels: int, kernel: int, stride: int = 1, padding: int = 0, groups: int = 1, bias: bool = True
    ) -> Blob:
        """Convolution with a square kernel and the same padding on every side."""
        size = self._window(x, kernel, stride, padding)
        inputs = [self._filters((channels, x.channels // groups, kernel, kernel))]
        if bias:
            inputs.append(self._normal((channels,), BIAS_DEVIATION))
        window = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [padding] * 4}
        return Blob(self._node("Conv", [x.name, *inputs], group=groups, **window), channels, size)

    def conv_transpose(self, x: Blob, channels: int, factor: int) -> Blob:
        """Transposed convolution that enlarges the image by ``factor``, with windows that do not overlap."""
        weight = self._normal((x.channels, channels, factor, factor), x.channels**-0.5)
        bias = self._normal((channels,), BIAS_DEVIATION)
        window = {"kernel_shape": [factor] * 2, "strides": [factor] * 2}
        return Blob(self._node("ConvTranspose", [x.name, weight, bias], **window), channels, x.size * factor)

    def batch_norm(self, x: Blob, scale: float = 1.0, epsilon: float = 1e-5) -> Blob:
        """Batch normalisation with statistics and parameters spread around mean 0, variance 1 and ``scale``."""
        shape = (x.channels,)
        weights = [
            self._uniform(shape, 0.75 * scale, 1.25 * scale),
            self._normal(shape, 0.1 * scale),
            self._normal(shape, 0.1),
            self._uniform(shape, 0.75, 1.25),
        ]
        return x._replace(name=self._node("BatchNormalization", [x.name, *weights], epsilon=epsilon))

    def conv_bn(
        self,
        x: Blob,
        channels: int,
        kernel: int,
        stride: int = 1,
        padding: int = 0,
        groups: int = 1,
        scale: float = 1.0,
        epsilon: float = 1e-5,
    ) -> Blob:
        """Convolution without bias, then batch normalisation."""
        return self.batch_norm(self.conv(x, channels, kernel, stride, padding, groups, bias=False), scale, epsilon)

    def relu(self, x: Blob) -> Blob:
        return x._replace(name=self._node("Relu", [x.name]))

    def relu6(self, x: Blob) -> Blob:
        """Clip to 0..6."""
        limits = [self._weight(np.asarray(limit, np.float32)) for limit in (0, 6)]
        return x._replace(name=self._node("Clip", [x.name, *limits]))

    def sigmoid(self, x: Blob) -> Blob:
        return x._replace(name=self._node("Sigmoid", [x.name]))

    def swish(self, x: Blob) -> Blob:
        return self.multiply(x, self.sigmoid(x))

    def hard_sigmoid(self, x: Blob) -> Blob:
        return x._replace(name=self._node("HardSigmoid", [x.name], alpha=1 / 6, beta=0.5))

    def hard_swish(self, x: Blob) -> Blob:
        return self.multiply(x, self.hard_sigmoid(x))

    def max_pool(self, x: Blob, kernel: int, stride: int, padding: int = 0, ceil_mode: bool = False) -> Blob:
        size = self._window(x, kernel, stride, padding, ceil_mode)
        window = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [padding] * 4}
        return Blob(self._node("MaxPool", [x.name], ceil_mode=int(ceil_mode), **window), x.channels, size)

    def average_pool(self, x: Blob, kernel: int) -> Blob:
        """Average pooling with windows that do not overlap."""
        size = self._window(x, kernel, kernel)
        name = self._node("AveragePool", [x.name], kernel_shape=[kernel] * 2, strides=[kernel] * 2)
        return Blob(name, x.channels, size)

    def global_average_pool(self, x: Blob) -> Blob:
        return Blob(self._node("GlobalAveragePool", [x.name]), x.channels, 1)

    def flatten(self, x: Blob) -> Blob:
        return Blob(self._node("Flatten", [x.name], axis=1), x.channels * x.size**2, 0)

    def linear(self, x: Blob, features: int) -> Blob:
        """Fully connected layer over a flattened blob."""
        weights = [self._filters((features, x.channels)), self._normal((features,), BIAS_DEVIATION)]
        return Blob(self._node("Gemm", [x.name, *weights], transB=1), features, 0)

    def add(self, a: Blob, b: Blob) -> Blob:
        return a._replace(name=self._node("Add", [a.name, b.name]))

    def multiply(self, a: Blob, b: Blob) -> Blob:
        """The product; b may have one pixel for each channel."""
        return a._replace(name=self._node("Mul", [a.name, b.name]))

    def concat(self, *blobs: Blob) -> Blob:
        """Concatenation along the channels."""
        if len({blob.size for blob in blobs}) > 1:
            described = ", ".join(f"{blob.name} {blob.size}x{blob.size}" for blob in blobs)
            raise UsageError(f"{self.name}: Concat needs images of one size, got {described}; change the image size")
        name = self._node("Concat", [blob.name for blob in blobs], axis=1)
        return Blob(name, sum(blob.channels for blob in blobs), blobs[0].size)

    def model(self, output: Blob) -> onnx.ModelProto:
        """The model that computes ``output`` from ``data``."""
        values = [
            helper.make_tensor_value_info(
                blob.name, TensorProto.FLOAT, [self.batch, blob.channels] + [blob.size] * (2 if blob.size else 0)
            )
            for blob in (self.data, output)
        ]
        graph = helper.make_graph(self._nodes, self.name, values[:1], values[1:], self._weights)
        ir_version = helper.find_min_ir_version_for([self._opset])
        return helper.make_model(graph, opset_imports=[self._opset], ir_version=ir_version, producer_name="armnet")

    def _node(self, op_type: str, inputs: list[str], **attributes: Any) -> str:
        name = f"{op_type}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(op_type, inputs, [name], name, **attributes))
        return name

    def _window(self, x: Blob, kernel: int, stride: int, padding: int = 0, ceil_mode: bool = False) -> int:
        """The image size after a sliding window."""
        room = x.size + 2 * padding - kernel
        if room < 0:
            raise UsageError(
                f"{self.name}: a {kernel}x{kernel} window does not fit into {x.name} of {x.size}x{x.size} "
                f"with padding {padding}; use a larger image than {self.data.size}x{self.data.size}"
            )
        return (-(-room // stride) if ceil_mode else room // stride) + 1

    def _filters(self, shape: tuple[int, ...]) -> str:
        """Weights (filters, ...), He normal (He et al., 2015, equation 10), minus the mean of each filter.

        A centred filter removes the mean of its input, which would otherwise grow from layer to layer and hide the
        picture. After a ReLU, a standard normal has the variance (1 - 1/pi) / 2.
        """
        filters, fan_in = shape[0], int(np.prod(shape[1:]))
        values = self._random.standard_normal((filters, fan_in), np.float32)
        values -= values.mean(axis=1, keepdims=True)
        values *= np.float32(np.sqrt(2 / (1 - 1 / np.pi) / fan_in))
        return self._weight(values.reshape(shape))

    def _normal(self, shape: tuple[int, ...], deviation: float) -> str:
        return self._weight(self._random.standard_normal(shape, np.float32) * np.float32(deviation))

    def _uniform(self, shape: tuple[int, ...], low: float, high: float) -> str:
        return self._weight(self._random.uniform(low, high, shape).astype(np.float32))

    def _weight(self, values: np.ndarray) -> str:
        name = f"{self.name}.weight_{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(values, name))
        return name
