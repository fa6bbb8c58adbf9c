"""Transposed convolutions; the output's size determines their padding."""

from __future__ import annotations

import struct
from typing import List, Sequence, Tuple

import numpy as np

from exporter.tflite.node import Node
from exporter.tflite.rules import custom_type, rule
from exporter.tflite.rules.convolution import SAME, VALID, bias, is_hybrid, positive, weight_scales, weights
from runtime_arm.errors import ExportError


@rule("TRANSPOSE_CONV")
def transpose_conv(node: Node) -> None:
    """Inputs: the output's shape, filters (M, kh, kw, C), pictures, bias."""
    kernel, strides = node.known_dims(1, 4)[1:3], [positive(node, "stride_h"), positive(node, "stride_w")]
    sizes, wanted = node.known_sizes(2, 2), wanted_sizes(node, 2)
    pads, beyond = _geometry(node, sizes, wanted, kernel, strides)
    if is_hybrid(node, 1):
        return _hybrid(node, kernel, strides, sizes, wanted, pads[:2])
    inputs = [node.input(2, channels_first=True), weights(node, 1, [3, 0, 1, 2]), *bias(node, 3)]
    with node.activated(channels_first=True) as output:
        _convolve(node, inputs, output, kernel, strides, pads, beyond)


def _hybrid(
    node: Node,
    kernel: Sequence[int],
    strides: Sequence[int],
    sizes: Sequence[int],
    wanted: Sequence[int],
    heads: Sequence[int],
) -> None:
    """8-bit weights: the pictures, each quantised by itself, with zeros between their pixels, and the filters turned.

    The sums are those of LiteRT, which converts them to floats in another order: the last bits may differ.
    heads: the pixels cropped from the beginning of the full output.
    """
    before = [k - 1 - head for k, head in zip(kernel, heads)]
    after = [target - n * s - pad + k - 1 for target, n, s, pad, k in zip(wanted, sizes, strides, before, kernel)]
    if min(*before, *after) < 0:
        raise ExportError(f"filters of 8 bits of size {kernel} are not supported with strides {strides} here")
    filters, channels = node.constant_value(1, "8-bit filters"), node.known_dims(1, 4)[3]
    turned = np.ascontiguousarray(filters[:, ::-1, ::-1].transpose(0, 3, 1, 2))
    inputs = [_spread(node, channels, sizes, strides), node.constant("filters_turned", turned), *bias(node, 3)]
    with node.activated(channels_first=True) as output:
        node.add(
            "HybridDepthwiseConv",
            inputs,
            [output],
            domain="tflite",
            kernels=list(kernel),
            pads=before + after,
            W_scales=weight_scales(node, 1),
        )


def _spread(node: Node, channels: int, sizes: Sequence[int], strides: Sequence[int]) -> str:
    """The pictures, channels first, with zeros below and beside each pixel."""
    apart, wide, spread = (node.between(stem) for stem in ("apart", "wide", "spread"))
    (h, w), (down, right) = sizes, strides
    shapes = [[-1, channels, h, 1, w, 1], [-1, channels, h * down, w * right]]
    first, last = (node.constant(f"shape_{len(shape)}", np.array(shape, np.int64)) for shape in shapes)
    pads = node.constant("zeros", np.array([0] * 9 + [down - 1, 0, right - 1], np.int64))
    node.add("Reshape", [node.input(2, channels_first=True), first], [apart], domain="onnx")
    node.add("Pad", [apart, pads], [wide], domain="onnx", mode="constant")
    node.add("Reshape", [wide, last], [spread], domain="onnx")
    return spread


@rule("CONV_3D_TRANSPOSE")
def conv_3d_transpose(node: Node) -> None:
    """Inputs: the output's shape, filters (kd, kh, kw, M, C), pictures, bias."""
    filters = weights(node, 1, [4, 3, 0, 1, 2])
    kernel, strides = node.known_dims(1, 5)[:3], [positive(node, f"stride_{name}") for name in "dhw"]
    if any(node.option(f"dilation_{name}_factor", 1) != 1 for name in "dhw"):
        raise ExportError("dilation is not supported")
    pads, beyond = _geometry(node, node.known_sizes(2, 3), wanted_sizes(node, 3), kernel, strides)
    inputs = [node.input(2, channels_first=True), filters, *bias(node, 3)]
    with node.activated(channels_first=True) as output:
        _convolve(node, inputs, output, kernel, strides, pads, beyond)


@rule(custom_type("Convolution2DTransposeBias"))
def convolution_2d_transpose_bias(node: Node) -> None:
    """MediaPipe's operator. Inputs: pictures, filters (M, kh, kw, C), bias. Options: padding, two strides."""
    if len(node.operation.custom_options) < 12:
        raise ExportError("its options are too short for padding and strides")
    padding, stride_w, stride_h = struct.unpack("<3i", node.operation.custom_options[:12])
    modes = {1: SAME, 2: VALID}  # TfLitePadding
    if padding not in modes or min(stride_h, stride_w) < 1:
        raise ExportError(f"padding {padding} and strides {stride_h} and {stride_w} are not possible")
    filters = weights(node, 1, [3, 0, 1, 2])
    kernel, strides, sizes = node.known_dims(1, 4)[1:3], [stride_h, stride_w], node.known_sizes(0, 2)
    same = [n * s for n, s in zip(sizes, strides)]
    valid = [(n - 1) * s + k for n, s, k in zip(sizes, strides, kernel)]
    wanted = same if modes[padding] == SAME else [max(pair) for pair in zip(same, valid)]
    pads, beyond = _pads(sizes, wanted, kernel, strides)
    inputs = [node.input(0, channels_first=True), filters, *bias(node, 2)]
    _convolve(node, inputs, node.output(0, True), kernel, strides, pads, beyond)


def wanted_sizes(node: Node, count: int) -> List[int]:
    """The output's spatial sizes: the constant input, or as declared."""
    shape = node.constant_integers(0)
    sizes = node.result().dims[1:-1] if shape is None else shape[1:-1]
    if len(sizes) != count or any(n is None for n in sizes):
        raise ExportError(f"the output's size must be known, it is {shape}")
    return [n for n in sizes if n is not None]


def _geometry(
    node: Node, sizes: Sequence[int], wanted: Sequence[int], kernel: Sequence[int], strides: Sequence[int]
) -> Tuple[List[int], List[int]]:
    mode = node.option("padding")
    if mode not in (SAME, VALID):
        raise ExportError(f"padding {mode} is neither SAME nor VALID")
    return _pads(sizes, wanted, kernel, strides)


def _pads(
    sizes: Sequence[int], wanted: Sequence[int], kernel: Sequence[int], strides: Sequence[int]
) -> Tuple[List[int], List[int]]:
    """The pixels cropped from the full output, heads, then tails, and the number of zeros missing at its end."""
    full = [(n - 1) * s + k for n, s, k in zip(sizes, strides, kernel)]
    excess = [size - target for size, target in zip(full, wanted)]
    heads = [max(n, 0) // 2 for n in excess]
    tails = [max(n, 0) - head for n, head in zip(excess, heads)]
    return heads + tails, [max(-n, 0) for n in excess]


def _convolve(
    node: Node,
    inputs: List[str],
    output: str,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    beyond: Sequence[int],
) -> None:
    """Caffe2's operator if it can express the convolution, else ONNX's, which takes any dimensions."""
    if len(kernel) == 2 and all(n < s for n, s in zip(beyond, strides)):
        return node.add(
            "ConvTranspose",
            inputs,
            [output],
            kernels=list(kernel),
            strides=list(strides),
            pads=list(pads),
            adjs=list(beyond) if any(beyond) else None,
        )
    node.add(
        "ConvTranspose",
        inputs,
        [output],
        domain="onnx",
        kernel_shape=list(kernel),
        strides=list(strides),
        pads=list(pads),
        output_padding=list(beyond),
    )
