"""Movement of pixels between space, channels and batch."""

from __future__ import annotations

import math
from typing import List

import numpy as np

from exporter.tflite.node import Node
from exporter.tflite.rules import rule
from exporter.tflite.rules.convolution import positive
from exporter.tflite.rules.layout import integers
from runtime_arm.errors import ExportError
from runtime_arm.netdef import Array


@rule("SPACE_TO_DEPTH", any_type=True)
def space_to_depth(node: Node) -> None:
    _rearranged(node, "SpaceToDepth")


@rule("DEPTH_TO_SPACE", any_type=True)
def depth_to_space(node: Node) -> None:
    """The position in the block is the slowest index among the channels."""
    _rearranged(node, "DepthToSpace")


def _rearranged(node: Node, type: str) -> None:
    node.add(type, [node.input(0, True)], [node.output(0, True)], domain="onnx", blocksize=positive(node, "block_size"))


@rule("SPACE_TO_BATCH_ND", any_type=True)
def space_to_batch(node: Node) -> None:
    """Padded pictures (N, H, W, C) as (b * b' * N, H / b, W / b', C)."""
    value = node.scale(0)[1] if node.is_quantised else 0
    if not _is_known(node):
        return _computed(node, "SpaceToBatchND", value=float(value))
    block, dims = _block(node), _behind_batch(node)
    source, count = node.input(0), len(block)
    pads = _pairs(node, count)
    if pads.any():
        whole = np.zeros((1 + len(dims), 2), np.int64)
        whole[1 : 1 + count] = pads
        zero = np.asarray(value, node.dtype(0))
        padded = node.between("padded")
        names = [source, node.constant("pads", whole.T.reshape(-1)), node.constant("zero", zero)]
        node.add("Pad", names, [padded], domain="onnx")
        source, dims = padded, [int(n) for n in np.array(dims) + whole[1:].sum(axis=1)]
    if any(n % b for n, b in zip(dims, block)):
        raise ExportError(f"blocks of {block} do not divide pictures of {dims[:count]}")
    rest = dims[count:]
    split = [-1, *(k for n, b in zip(dims, block) for k in (n // b, b)), *rest]
    order = [*range(2, 2 * count + 1, 2), 0, *range(1, 2 * count, 2), *range(2 * count + 1, len(split))]
    _regrouped(node, source, split, order, [-1, *(n // b for n, b in zip(dims, block)), *rest], node.output())
    node.ranked(1 + len(dims))


@rule("BATCH_TO_SPACE_ND", any_type=True)
def batch_to_space(node: Node) -> None:
    """The inverse of SPACE_TO_BATCH_ND; the padding is cropped."""
    if not _is_known(node):
        return _computed(node, "BatchToSpaceND")
    block, dims = _block(node), _behind_batch(node)
    count, crops = len(block), _pairs(node, len(block))
    batch, rest = (node.dims(0) or [None])[0], dims[count:]
    if batch is not None and batch % math.prod(block):
        raise ExportError(f"a batch of {batch} is not made of blocks of {block}")
    split = [*block, -1, *dims]
    order = [count, *(axis for i in range(count) for axis in (count + 1 + i, i)), *range(2 * count + 1, len(split))]
    sizes = [n * b for n, b in zip(dims, block)]
    target = node.between("joined") if crops.any() else node.output()
    _regrouped(node, node.input(0), split, order, [-1, *sizes, *rest], target)
    if crops.any():
        rows = (crops[:, 0], np.array(sizes) - crops[:, 1], np.arange(1, count + 1))
        names = [node.constant(stem, row.astype(np.int64)) for stem, row in zip(("starts", "ends", "axes"), rows)]
        node.add("Slice", [target, *names], [node.output()], domain="onnx")
    node.ranked(1 + len(dims))


def _is_known(node: Node) -> bool:
    """Whether block, padding and all sizes but the batch are known before running."""
    dims = node.dims(0)
    return dims is not None and None not in dims[1:] and all(node.value(index) is not None for index in (1, 2))


def _computed(node: Node, type: str, **arguments: float) -> None:
    """Sizes are known when the net runs."""
    rank = node.known_rank(0)
    names = [node.input(0), integers(node, 1), integers(node, 2)]
    node.add(type, names, [node.output()], domain="tflite", **arguments)
    node.ranked(rank)


def _behind_batch(node: Node) -> List[int]:
    """The dimensions of input 0 after the batch, all known. ExportError if one is 0."""
    sizes = [n for n in (node.dims(0) or ())[1:] if n is not None]
    if 0 in sizes:
        raise ExportError(f"the sizes of {node.tensor(0).name!r} must be positive, its shape is {node.dims(0)}")
    return sizes


def _block(node: Node) -> List[int]:
    block = node.constant_integers(1)
    if not block or min(block) < 1 or len(block) >= node.known_rank(0):
        raise ExportError(f"the block must be positive constants, one per dimension of the picture; it is {block}")
    return block


def _pairs(node: Node, count: int) -> Array:
    """The pixels added or cropped before and after, for each of the ``count`` dimensions of the picture."""
    value = node.constant_value(2, "what is padded or cropped")
    if value.shape != (count, 2) or value.dtype.kind != "i" or value.min(initial=0) < 0:
        raise ExportError(f"takes a pair of sizes for each of {count} dimensions, got {value.tolist()}"[:200])
    pairs: Array = value.astype(np.int64)
    return pairs


def _regrouped(node: Node, source: str, split: List[int], order: List[int], joined: List[int], target: str) -> None:
    parts, turned = node.between("parts"), node.between("turned")
    node.add("Reshape", [source], [parts, node.between("old_shape")], shape=split)
    node.add("Transpose", [parts], [turned], axes=order)
    node.add("Reshape", [turned], [target, node.between("old_shape")], shape=joined)
