"""Quantised convolutions, fully connected layers and pools. Pictures stay (N, H, W, C), as TFLite has them."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np

from exporter.tflite.node import Node
from exporter.tflite.rules import linear, quantised_rule
from exporter.tflite.rules.convolution import positive
from exporter.tflite.rules.quantised import DOMAIN, activation, of_input, of_output, window
from exporter.tflite.rules.transposed import wanted_sizes
from runtime_arm.errors import ExportError
from runtime_arm.netdef import Array


@quantised_rule("CONV_2D")
def conv_2d(node: Node) -> None:
    """Filters: (M, kh, kw, C / groups)."""
    filters, channels = _filters(node), _channels(node)
    if filters.shape[3] < 1 or channels % filters.shape[3]:
        raise ExportError(f"filters of shape {list(filters.shape)} do not fit {channels} channels")
    _convolve(node, node.input(1), channels // filters.shape[3])


@quantised_rule("DEPTHWISE_CONV_2D")
def depthwise_conv_2d(node: Node) -> None:
    """Filters: (1, kh, kw, C * multiplier); each channel has ``multiplier`` filters, one after another."""
    filters, channels = _filters(node), _channels(node)
    if filters.shape[0] != 1 or channels < 1 or filters.shape[3] % channels:
        raise ExportError(f"filters of shape {list(filters.shape)} do not fit {channels} channels")
    turned = np.ascontiguousarray(filters.transpose(3, 1, 2, 0))
    _convolve(node, node.constant(f"{node.tensor(1).name}_by_filter", turned), channels)


def _filters(node: Node) -> Array:
    value = node.constant_value(1, "filters")
    if value.ndim != 4:
        raise ExportError(f"filters {node.tensor(1).name!r} must have 4 dimensions, not {value.ndim}")
    return value


def _channels(node: Node) -> int:
    dims = node.dims(0)
    if dims is None or len(dims) != 4 or dims[3] is None:
        raise ExportError(f"the channels of {node.tensor(0).name!r} must be known")
    return dims[3]


def _convolve(node: Node, filters: str, group: int) -> None:
    dilations = [positive(node, "dilation_h_factor"), positive(node, "dilation_w_factor")]
    node.add(
        "QuantizedConv",
        [node.input(0), filters, *_bias(node, 2)],
        [node.output()],
        domain=DOMAIN,
        **window(node),
        dilations=dilations,
        group=group,
        **of_products(node),
        **activation(node),
    )


def _bias(node: Node, index: int) -> List[str]:
    return [node.input(index)] if node.has(index) else []


def of_products(node: Node, data: int = 0) -> Dict[str, Any]:
    """Scales and zero points of X, of the weights (input 1) and of Y."""
    quantization = node.quantization(1)
    if quantization is None:
        raise ExportError(f"the weights {node.tensor(1).name!r} have no scale")
    zero_points = set(quantization.zero_point.tolist())
    if len(zero_points) > 1:
        raise ExportError(f"the weights {node.tensor(1).name!r} have several zero points")
    return {
        **of_input(node, data),
        "W_scales": [float(scale) for scale in quantization.scale],
        "W_zero_point": int(zero_points.pop()),
        **of_output(node),
    }


@quantised_rule("FULLY_CONNECTED")
def fully_connected(node: Node) -> None:
    """Y = X W^T + b, as for floats."""
    if node.option("weights_format") != 0:
        raise ExportError("shuffled weights are not supported")
    node.add(
        "QuantizedFullyConnected",
        [node.input(0), node.input(1), *_bias(node, 2)],
        [node.output()],
        domain=DOMAIN,
        keep_num_dims=int(node.option("keep_num_dims", False)),
        **of_products(node),
        **activation(node),
    )


@quantised_rule("TRANSPOSE_CONV")
def transpose_conv(node: Node) -> None:
    """Inputs: the output's shape, filters (M, kh, kw, C), pictures, bias."""
    size = node.constant("size", np.array(wanted_sizes(node, 2), np.int32))
    node.add(
        "QuantizedConvTranspose",
        [node.input(2), node.input(1), size, *_bias(node, 3)],
        [node.output()],
        domain=DOMAIN,
        **window(node),
        **of_products(node, 2),
        **activation(node),
    )


@quantised_rule("BATCH_MATMUL")
def batch_matmul(node: Node) -> None:
    node.add(
        "QuantizedMatMul",
        linear.factors(node),
        [node.output()],
        domain=DOMAIN,
        **of_input(node, 0, "A"),
        **of_input(node, 1, "B"),
        **of_output(node),
    )


def _kernel(node: Node) -> List[int]:
    return [positive(node, "filter_height"), positive(node, "filter_width")]


@quantised_rule("AVERAGE_POOL_2D")
def average_pool_2d(node: Node) -> None:
    """Computed on the integers: X and Y must have the same scale."""
    _require_one_scale(node)
    node.add(
        "QuantizedAveragePool",
        [node.input(0)],
        [node.output()],
        domain=DOMAIN,
        kernel_shape=_kernel(node),
        **window(node),
        **of_output(node),
        **activation(node),
    )


@quantised_rule("MAX_POOL_2D")
def max_pool_2d(node: Node) -> None:
    """The maximum of the integers, limited by the activation."""
    _require_one_scale(node)
    limits = activation(node)
    target = node.output() if limits["activation"] is None else node.between("raw")
    node.add("QuantizedMaxPool", [node.input(0)], [target], domain=DOMAIN, kernel_shape=_kernel(node), **window(node))
    if limits["activation"] is not None:
        node.add(
            "QuantizedRelu", [target], [node.output()], domain=DOMAIN, **of_input(node, 0), **of_output(node), **limits
        )


def _require_one_scale(node: Node) -> None:
    if node.scale(0) != node.result_scale():
        raise ExportError(
            f"input and output must have one scale and zero point, they have {node.scale(0)} and {node.result_scale()}"
        )
