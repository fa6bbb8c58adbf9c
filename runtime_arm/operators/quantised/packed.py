"""Weights that are stored in fewer bits than they are computed in: blocks of 4-bit integers, palettes, bfloat16.

Each operator converts the stored numbers of an init_net to the float32 weight. All its inputs are constants, so it is
evaluated once, when the net is planned; the net then runs as fast as with the float weight. With the argument
``each_run`` it is evaluated in each run, in memory that other blobs share (``optimize/rewriting/unpacking.py`` sets
it). Domain "armnet".
"""

from __future__ import annotations

import math
from typing import Any, List, Sequence

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.quantised.halves import halves, stated_shape
from runtime_arm.registry.blocks import BLOCK
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


@operator("UnpackBlocks", inputs=2, domain="armnet", dtypes=("uint8",), unpacks=True)
def unpack_blocks(op: OperatorDef, packed: TensorSpec, scales: TensorSpec) -> List[TensorSpec]:
    """W = scale * (q - 8), in float32, one scale for each block of ``block_size`` numbers.

    packed: uint8 (blocks, block_size / 2), 4-bit numbers q. scales: float16 (blocks). W has the ``shape`` that the
    argument states; its elements, in C order, fill the blocks one after the other. The last block may be fuller than W.
    """
    shape, block = stated_shape(op), op.get_int("block_size", 32)
    if block < 2 or block % 2:
        raise ArgumentError(op, f"block_size must be even and positive, got {block}")
    blocks = -(-math.prod(shape) // block)
    require(op, packed.shape == (blocks, block // 2), f"the numbers must be ({blocks}, {block // 2}) bytes", packed)
    require(op, scales.shape == (blocks,) and scales.dtype == np.float16, f"{blocks} float16 scales are needed", scales)
    return [TensorSpec(shape, np.float32)]


@unpack_blocks.reference
def unpack_blocks_reference(op: OperatorDef, packed: Array, scales: Array) -> List[Any]:
    shape = stated_shape(op)
    values = halves(packed).astype(np.float32)
    values -= 8
    values *= scales.astype(np.float32)[:, np.newaxis]
    return [values.reshape(-1)[: math.prod(shape)].reshape(shape)]


def _blocks_scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> List[TensorSpec]:
    packed = inputs[0]
    assert packed is not None
    rows, width = packed.shape
    step = min(rows, max(BLOCK // max(2 * width, 1), 1))
    return [TensorSpec((step, 2 * width), np.float32), TensorSpec((step, width), np.uint8)]


@unpack_blocks.kernel("NUMPY", scratch=_blocks_scratch)
def unpack_blocks_numpy(call: Call) -> Run:
    """Some blocks at a time, by way of a buffer, since the last block may be fuller than W."""
    packed, y = call.inputs[0], call.outputs[0].reshape(-1)
    numbers, some = call.scratch
    scales = call.packed("scales", lambda: call.inputs[1].astype(np.float32).reshape(-1, 1))
    step, width = numbers.shape
    parts = [slice(first, min(first + step, len(packed))) for first in range(0, len(packed), max(step, 1))]

    def run() -> None:
        for part in parts:
            count = part.stop - part.start
            np.bitwise_and(packed[part], 15, out=some[:count])
            np.copyto(numbers[:count, ::2], some[:count])
            np.right_shift(packed[part], 4, out=some[:count])
            np.copyto(numbers[:count, 1::2], some[:count])
            np.subtract(numbers[:count], np.float32(8), out=numbers[:count])
            np.multiply(numbers[:count], scales[part], out=numbers[:count])
            out = y[part.start * width : part.stop * width]
            np.copyto(out, numbers[:count].reshape(-1)[: out.size])

    return run


@operator("UnpackPalette", inputs=2, domain="armnet", dtypes=("uint8",), unpacks=True)
def unpack_palette(op: OperatorDef, packed: TensorSpec, palette: TensorSpec) -> List[TensorSpec]:
    """W = palette[q], in float32.

    palette: float32 (16). packed: uint8, the 4-bit numbers q of W's elements in C order; the last may be unused. W has
    the ``shape`` that the argument states.
    """
    shape = stated_shape(op)
    nbytes = -(-math.prod(shape) // 2)
    require(op, packed.shape == (nbytes,), f"{nbytes} bytes are needed", packed)
    require(op, palette.shape == (16,) and palette.dtype == np.float32, "the palette must be 16 float32", palette)
    return [TensorSpec(shape, np.float32)]


@unpack_palette.reference
def unpack_palette_reference(op: OperatorDef, packed: Array, palette: Array) -> List[Any]:
    shape = stated_shape(op)
    return [palette[halves(packed)[: math.prod(shape)]].reshape(shape)]


def _palette_scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> List[TensorSpec]:
    return [
        TensorSpec((BLOCK // 8,), np.uint8),
        TensorSpec((BLOCK // 4,), np.intp),
        TensorSpec((BLOCK // 4,), np.float32),
    ]


@unpack_palette.kernel("NUMPY", scratch=_palette_scratch)
def unpack_palette_numpy(call: Call) -> Run:
    packed, palette = call.inputs
    y = call.outputs[0].reshape(-1)
    some, places, numbers = call.scratch
    parts = [slice(first, min(first + len(some), len(packed))) for first in range(0, len(packed), len(some))]

    def run() -> None:
        for part in parts:
            count = part.stop - part.start
            np.bitwise_and(packed[part], 15, out=some[:count])
            np.copyto(places[: 2 * count : 2], some[:count])
            np.right_shift(packed[part], 4, out=some[:count])
            np.copyto(places[1 : 2 * count : 2], some[:count])
            np.take(palette, places[: 2 * count], out=numbers[: 2 * count], mode="clip")
            out = y[2 * part.start : 2 * part.stop]
            np.copyto(out, numbers[: out.size])

    return run


@operator("UnpackBfloat16", domain="armnet", dtypes=("uint16",), unpacks=True)
def unpack_bfloat16(op: OperatorDef, packed: TensorSpec) -> List[TensorSpec]:
    """W = the float32 whose upper 16 bits these are: 8 bits of exponent, 7 of fraction."""
    return [packed.with_dtype("float32")]


@unpack_bfloat16.reference
def unpack_bfloat16_reference(op: OperatorDef, packed: Array) -> List[Any]:
    bits = packed.astype(np.uint32)
    bits <<= 16
    return [bits.view(np.float32)]


@unpack_bfloat16.kernel("NUMPY")
def unpack_bfloat16_numpy(call: Call) -> Run:
    packed, bits = call.inputs[0], call.outputs[0].view(np.uint32)

    def run() -> None:
        np.copyto(bits, packed)
        np.left_shift(bits, np.uint32(16), out=bits)

    return run
