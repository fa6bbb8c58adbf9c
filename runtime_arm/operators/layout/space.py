"""Exchanging space with depth or with the batch, in blocks: DepthToSpace, SpaceToDepth, SpaceToBatch, BatchToSpace.

The first two are ONNX's, the others Caffe2's.
"""

from __future__ import annotations

from typing import Any, List, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.copying import copy_all
from runtime_arm.operators.common.windows import Window, channels_last
from runtime_arm.registry.kernel import Call, Run
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import Shape, TensorSpec

# Axes that transpose (N, depth split in three, H, W) to (N, C, H, block, W, block). The depth is (block, block, C) in
# mode DCR, (C, block, block) in mode CRD.
_TO_SPACE = {"DCR": (0, 3, 4, 1, 5, 2), "CRD": (0, 1, 4, 2, 5, 3)}


def _block(op: OperatorDef, name: str, default: int = 0) -> int:
    block = op.get_int(name, default or None)
    if block < 1:
        raise ArgumentError(op, f"{name} must be positive, got {block}")
    return block


def _mode(op: OperatorDef) -> str:
    mode = op.get_str("mode", "DCR")
    if mode not in _TO_SPACE:
        raise ArgumentError(op, f"mode must be DCR or CRD, got {mode!r}")
    return mode


def _views(op: OperatorDef, deep: Array, wide: Array) -> Tuple[Array, Array]:
    """Both blobs as views (N, C, H, block, W, block)."""
    block, mode = _block(op, "blocksize"), _mode(op)
    n, depth, height, width = deep.shape
    channels = depth // block**2
    split = (block, block, channels) if mode == "DCR" else (channels, block, block)
    return (
        deep.reshape((n, *split, height, width)).transpose(_TO_SPACE[mode]),
        wide.reshape((n, channels, height, block, width, block)),
    )


def _depths(op: OperatorDef, depth: int, offset: int) -> slice:
    """The deep channels that hold the block position ``offset`` = row * block + column."""
    blocks = _block(op, "blocksize") ** 2
    if _mode(op) == "CRD":
        return slice(offset, None, blocks)
    return slice(offset * (depth // blocks), (offset + 1) * (depth // blocks))


@operator("DepthToSpace", domain="onnx")
def depth_to_space(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """(N, C * b * b, H, W) to (N, C, H * b, W * b), b = ``blocksize``.

    ``mode`` DCR: the block position varies slowest among the channels; CRD: fastest (PixelShuffle).
    """
    block = _block(op, "blocksize")
    _mode(op)
    require(
        op, x.ndim == 4 and x.shape[1] % block**2 == 0, f"channels of an NCHW image must be divisible by {block**2}", x
    )
    n, depth, height, width = x.shape
    return [x.with_shape((n, depth // block**2, height * block, width * block))]


@depth_to_space.reference
def depth_to_space_reference(op: OperatorDef, x: Array) -> List[Any]:
    block = _block(op, "blocksize")
    n, depth, height, width = x.shape
    y = np.empty((n, depth // block**2, height * block, width * block), x.dtype)
    for row in range(block):
        for column in range(block):
            y[:, :, row::block, column::block] = x[:, _depths(op, depth, row * block + column)]
    return [y]


@depth_to_space.kernel("NUMPY")
def depth_to_space_numpy(call: Call) -> Run:
    deep, wide = _views(call.op, call.inputs[0], call.outputs[0])
    return copy_all([(wide, deep)])


@operator("SpaceToDepth", domain="onnx")
def space_to_depth(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """(N, C, H * b, W * b) to (N, C * b * b, H, W), b = ``blocksize``: the inverse of DepthToSpace in that ``mode``."""
    block = _block(op, "blocksize")
    _mode(op)
    require(
        op,
        x.ndim == 4 and x.shape[2] % block == 0 and x.shape[3] % block == 0,
        f"height and width of an NCHW image must be divisible by {block}",
        x,
    )
    n, channels, height, width = x.shape
    return [x.with_shape((n, channels * block**2, height // block, width // block))]


@space_to_depth.reference
def space_to_depth_reference(op: OperatorDef, x: Array) -> List[Any]:
    block = _block(op, "blocksize")
    n, channels, height, width = x.shape
    depth = channels * block**2
    y = np.empty((n, depth, height // block, width // block), x.dtype)
    for row in range(block):
        for column in range(block):
            y[:, _depths(op, depth, row * block + column)] = x[:, :, row::block, column::block]
    return [y]


@space_to_depth.kernel("NUMPY")
def space_to_depth_numpy(call: Call) -> Run:
    deep, wide = _views(call.op, call.outputs[0], call.inputs[0])
    return copy_all([(deep, wide)])


def _blocks(op: OperatorDef, height: int, width: int) -> Window:
    """The blocks of an image: a kernel of block_size that moves by block_size over the padded image."""
    block, pad = _block(op, "block_size", 2), op.get_int("pad", 0)
    top = op.get_int("pad_t", pad)
    if channels_last(op):
        raise ArgumentError(op, "order must be NCHW")
    if min(pad, top) < 0:
        raise ArgumentError(op, f"pads must not be negative, got {pad} and {top}")
    heads, tails, size = (top, pad), (pad, pad), (block, block)
    padded = [n + head + tail for n, head, tail in zip((height, width), heads, tails)]
    require(
        op,
        padded[0] % block == 0 and padded[1] % block == 0,
        f"the padded image {padded} must be divisible by block_size {block}",
    )
    return Window((height, width), size, size, (1, 1), heads, tails, (padded[0] // block, padded[1] // block))


@operator("SpaceToBatch")
def space_to_batch(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """(N, C, H, W), padded with zeros, to (b * b * N, C, H / b, W / b), b = ``block_size`` (2): every b-th pixel.

    ``pad`` (0) applies to all sides; ``pad_t`` replaces it at the top. As in Caffe2, the other sides have no argument.
    """
    require(op, x.ndim == 4, "the input must have four dimensions", x)
    n, channels, height, width = x.shape
    window = _blocks(op, height, width)
    return [x.with_shape((n * window.kernel[0] ** 2, channels, *window.output))]


@operator("BatchToSpace")
def batch_to_space(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """(b * b * N, C, H, W) to (N, C, H * b, W * b) minus ``pad`` on all sides: the inverse of SpaceToBatch."""
    block = _block(op, "block_size", 2)
    require(
        op, x.ndim == 4 and x.shape[0] % block**2 == 0, f"the batch of an NCHW image must be divisible by {block**2}", x
    )
    pad = op.get_int("pad", 0)
    height, width = x.shape[2] * block - pad - op.get_int("pad_t", pad), x.shape[3] * block - 2 * pad
    require(op, height >= 0 and width >= 0, "the pads are larger than the image", x)
    _blocks(op, height, width)
    return [x.with_shape((x.shape[0] // block**2, x.shape[1], height, width))]


def _by_position(blocks: Array, window: Window) -> Array:
    """The batch as (row in the block, column in the block, N, C, H, W)."""
    return blocks.reshape((*window.kernel, blocks.shape[0] // window.kernel[0] ** 2, *blocks.shape[1:]))


@space_to_batch.reference
def space_to_batch_reference(op: OperatorDef, x: Array) -> List[Any]:
    window = _blocks(op, *x.shape[2:])
    block = window.kernel[0]
    padded = np.pad(x, [(0, 0), (0, 0), *zip(window.head, window.tail)], mode="constant")
    offsets = [(row, column) for row in range(block) for column in range(block)]
    return [np.concatenate([padded[:, :, row::block, column::block] for row, column in offsets])]


@space_to_batch.kernel("NUMPY")
def space_to_batch_numpy(call: Call) -> Run:
    x, y = call.inputs[0], call.outputs[0]
    window = _blocks(call.op, *x.shape[2:])
    blocks = _by_position(y, window)
    zeros: List[Tuple[Array, Any]] = [(y, x.dtype.type(0))] if any(window.head + window.tail) else []
    return copy_all(zeros + [(blocks[tap.kernel[1:]][tap.out], x[tap.image]) for tap in window.taps()])


def _wide_shape(op: OperatorDef, x: Shape) -> Shape:
    return batch_to_space.shape(op, TensorSpec(x, np.float32))[0].shape


@batch_to_space.reference
def batch_to_space_reference(op: OperatorDef, x: Array) -> List[Any]:
    shape = _wide_shape(op, x.shape)
    window = _blocks(op, *shape[2:])
    block, images = window.kernel[0], shape[0]
    padded = np.empty((images, shape[1], x.shape[2] * block, x.shape[3] * block), x.dtype)
    for row in range(block):
        for column in range(block):
            padded[:, :, row::block, column::block] = x[(row * block + column) * images :][:images]
    top, left = window.head
    return [padded[:, :, top : top + shape[2], left : left + shape[3]].copy()]


@batch_to_space.kernel("NUMPY")
def batch_to_space_numpy(call: Call) -> Run:
    x, y = call.inputs[0], call.outputs[0]
    window = _blocks(call.op, *y.shape[2:])
    blocks = _by_position(x, window)
    return copy_all([(y[tap.image], blocks[tap.kernel[1:]][tap.out]) for tap in window.taps()])
