"""Pixels moved between space, channels and batch."""

from __future__ import annotations

from typing import List

import numpy as np

from exporter.tflite_node import Node
from exporter.tflite_rules import rule
from exporter.tflite_rules.convolution import positive
from runtime_arm.errors import ExportError
from runtime_arm.netdef import Array


@rule("SPACE_TO_DEPTH", any_type=True)
def space_to_depth(node: Node) -> None:
    _rearranged(node, "SpaceToDepth")


@rule("DEPTH_TO_SPACE", any_type=True)
def depth_to_space(node: Node) -> None:
    """The position in the block varies slowest among the channels."""
    _rearranged(node, "DepthToSpace")


def _rearranged(node: Node, type: str) -> None:
    node.add(type, [node.input(0, True)], [node.output(0, True)], domain="onnx", blocksize=positive(node, "block_size"))


@rule("SPACE_TO_BATCH_ND", any_type=True)
def space_to_batch(node: Node) -> None:
    """Padded pictures (N, H, W, C) as (b * b' * N, H / b, W / b', C); quantised ones only where nothing is padded."""
    block, pads = _block(node), _pairs(node)
    source, dims = node.input(0), node.known_dims(0)
    if pads.any():
        if node.is_quantised and node.scale(0)[1]:
            raise ExportError("armnet pads quantised tensors only where zero is their zero point")
        whole = np.zeros((len(dims), 2), np.int64)
        whole[1 : 1 + len(block)] = pads
        padded = node.between("padded")
        node.add("Pad", [source, node.constant("pads", whole.T.reshape(-1))], [padded], domain="onnx")
        source, dims = padded, [int(n) for n in np.array(dims) + whole.sum(axis=1)]
    if any(n % b for n, b in zip(dims[1:], block)):
        raise ExportError(f"blocks of {block} do not divide pictures of {dims[1 : 1 + len(block)]}")
    count, rest = len(block), dims[1 + len(block) :]
    split = [dims[0], *(k for n, b in zip(dims[1:], block) for k in (n // b, b)), *rest]
    order = [*range(2, 2 * count + 1, 2), 0, *range(1, 2 * count, 2), *range(2 * count + 1, len(split))]
    _regrouped(node, source, split, order, [-1, *(n // b for n, b in zip(dims[1:], block)), *rest], node.output())


@rule("BATCH_TO_SPACE_ND", any_type=True)
def batch_to_space(node: Node) -> None:
    """The inverse of SPACE_TO_BATCH_ND; what was padded is cropped."""
    block, crops = _block(node), _pairs(node)
    dims, count = node.known_dims(0), len(block)
    rest = dims[1 + count :]
    if dims[0] % int(np.prod(block)):
        raise ExportError(f"a batch of {dims[0]} is not made of blocks of {block}")
    split = [*block, dims[0] // int(np.prod(block)), *dims[1 : 1 + count], *rest]
    order = [count, *(axis for i in range(count) for axis in (count + 1 + i, i)), *range(2 * count + 1, len(split))]
    sizes = [n * b for n, b in zip(dims[1:], block)]
    target = node.between("joined") if crops.any() else node.output()
    _regrouped(node, node.input(0), split, order, [-1, *sizes, *rest], target)
    if crops.any():
        rows = (crops[:, 0], np.array(sizes) - crops[:, 1], np.arange(1, count + 1))
        names = [node.constant(stem, row.astype(np.int64)) for stem, row in zip(("starts", "ends", "axes"), rows)]
        node.add("Slice", [target, *names], [node.output()], domain="onnx")


def _block(node: Node) -> List[int]:
    block = node.constant_integers(1)
    if not block or min(block) < 1 or len(block) + 1 >= node.known_rank(0) + 1:
        raise ExportError(f"the block must be positive constants, one a dimension of the picture; it is {block}")
    return block


def _pairs(node: Node) -> Array:
    """What is added or cut, before and after, along each dimension of the picture."""
    value = node.constant_value(2, "what is padded or cropped")
    if value.ndim != 2 or value.shape[1] != 2 or value.min(initial=0) < 0:
        raise ExportError(f"a pair of sizes a dimension is due, the shape is {value.shape}")
    pairs: Array = value.astype(np.int64)
    return pairs


def _regrouped(node: Node, source: str, split: List[int], order: List[int], joined: List[int], target: str) -> None:
    parts, turned = node.between("parts"), node.between("turned")
    node.add("Reshape", [source], [parts, node.between("old_shape")], shape=split)
    node.add("Transpose", [parts], [turned], axes=order)
    node.add("Reshape", [turned], [target, node.between("old_shape")], shape=joined)
