"""onnxruntime's weights of few bits in blocks: MatMulNBits and GatherBlockQuantized.

They stay packed in memory: the kernel unpacks some rows, multiplies by them, and unpacks the next ones in their place.
"""

from __future__ import annotations

import math
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.number_formats import FORMATS
from runtime_arm.operators.common.number_formats import unpacked as unpacked_numbers
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import axis_of, operator, require
from runtime_arm.registry.specs import Shape, TensorSpec

ROWS = 1 << 17  # numbers of weights that are unpacked at a time: 512 KB of float32
BITS = (2, 4, 8)


def _sizes(op: OperatorDef) -> Tuple[int, int, int, int]:
    """K, N, the size of a block and the bits of a number; ArgumentError if they are not possible."""
    k, n, block, bits = (
        op.get_int(name, default) for name, default in (("K", 0), ("N", 0), ("block_size", 0), ("bits", 4))
    )
    if k < 1 or n < 1 or block < 16 or block & (block - 1):
        raise ArgumentError(
            op, f"K and N must be positive and block_size a power of 2 from 16 on, got {k}, {n}, {block}"
        )
    if bits not in BITS:
        raise ArgumentError(op, f"bits must be 2, 4 or 8, got {bits}")
    if op.get_int("weight_prepacked", 0):
        raise ArgumentError(op, "weights in the order of one kind of GPU are not supported (weight_prepacked)")
    return k, n, block, bits


def _multiply_adds(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> int:
    return outputs[0].size * op.get_int("K", 0)


@operator(
    "MatMulNBits", domain="com.microsoft", inputs=(3, 6), dtypes=("float32", "float16"), multiply_adds=_multiply_adds
)
def mat_mul_n_bits(
    op: OperatorDef,
    a: TensorSpec,
    b: TensorSpec,
    scales: TensorSpec,
    zero_points: Optional[TensorSpec] = None,
    groups: Optional[TensorSpec] = None,
    bias: Optional[TensorSpec] = None,
) -> List[TensorSpec]:
    """Y (..., N) = A W^T + bias for A (..., K) and W[n, k] = scale (q - zero point), one scale and zero point a block.

    B: uint8 (N, blocks, block_size * bits / 8), the numbers q of ``bits`` (4) bits, the first in the lowest bits; a row
    has ceil(K / block_size) blocks. scales: (N, blocks), in A's dtype. Zero points: packed like a row of B, uint8 (N,
    ceil(blocks * bits / 8)), or A's dtype (N, blocks); 2^(bits - 1) if left out. groups: the block of each k, (K).
    bias: (N). A is not rounded, even if ``accuracy_level`` allows it. Source: onnxruntime's ContribOperators.md.
    """
    k, n, block, bits = _sizes(op)
    blocks = -(-k // block)
    require(op, a.ndim >= 1 and a.shape[-1] == k, f"A must have {k} columns", a)
    wanted: Shape = (n, blocks, block * bits // 8)
    require(op, b.dtype == np.uint8 and b.shape == wanted, f"B must be uint8 {list(wanted)}", b)
    fits = scales.dtype == a.dtype and scales.size == n * blocks
    require(op, fits, f"there must be {n} x {blocks} scales in A's dtype", scales)
    if zero_points is not None:
        whole = zero_points.dtype == a.dtype and zero_points.size == n * blocks
        packed = zero_points.dtype == np.uint8 and zero_points.size == n * -(-blocks * bits // 8)
        require(op, whole or packed, f"there must be {n} x {blocks} zero points", zero_points)
    fits = groups is None or (groups.shape == (k,) and groups.dtype.kind in "iu")
    require(op, fits, f"{k} block indices are needed", groups)
    require(
        op, bias is None or (bias.shape == (n,) and bias.dtype == a.dtype), f"the bias must have {n} elements", bias
    )
    return [a.with_shape((*a.shape[:-1], n))]


def _numbers(packed: Array, bits: int) -> Array:
    """The unsigned numbers of bytes (..., n), (..., n * 8 / bits)."""
    shape = (*packed.shape[:-1], packed.shape[-1] * 8 // bits)
    return unpacked_numbers(packed.reshape(-1), f"uint{bits}", math.prod(shape)).reshape(shape) if bits < 8 else packed


def _zero_points(op: OperatorDef, zero_points: Optional[Array], blocks: int) -> Array:
    """(N, blocks), float32."""
    _, n, _, bits = _sizes(op)
    if zero_points is None:
        return np.full((n, blocks), 1 << (bits - 1), np.float32)
    if zero_points.dtype != np.uint8:
        return zero_points.reshape(n, blocks).astype(np.float32)
    return _numbers(zero_points.reshape(n, -1), bits)[:, :blocks].astype(np.float32)


@mat_mul_n_bits.reference
def mat_mul_n_bits_reference(
    op: OperatorDef,
    a: Array,
    b: Array,
    scales: Array,
    zero_points: Optional[Array] = None,
    groups: Optional[Array] = None,
    bias: Optional[Array] = None,
) -> List[Any]:
    k, n, block, bits = _sizes(op)
    blocks = b.shape[1]
    scale, zero = scales.reshape(n, blocks).astype(np.float64), _zero_points(op, zero_points, blocks)
    place = np.arange(k) // block if groups is None else groups
    numbers = _numbers(b, bits).reshape(n, -1)[:, :k].astype(np.float64)
    weights = (numbers - zero[:, place]) * scale[:, place]
    y = np.matmul(a.astype(np.float64), weights.T)
    return [(y if bias is None else y + bias).astype(a.dtype)]


def _refuses(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    if any(x is None or x.value is None for x in inputs[2:3]) or (
        len(inputs) > 3 and inputs[3] and inputs[3].value is None
    ):
        return "scales and zero points must be constants"
    return "only for blocks in order" if len(inputs) > 4 and inputs[4] is not None else None


def _rows(op: OperatorDef, blocks: int) -> int:
    """How many rows of weights are unpacked at a time."""
    _, n, block, _ = _sizes(op)
    return min(max(ROWS // (blocks * block), 1), n)


def _scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    k, n, block, bits = _sizes(op)
    blocks, count = -(-k // block), outputs[0].size // n
    rows = _rows(op, blocks)
    nbytes = (rows, blocks, block * bits // 8)
    buffers = [TensorSpec((rows, blocks, block), np.float32), *[TensorSpec(nbytes, np.uint8)] * 2]
    if len(inputs) > 3 and inputs[3] is not None:
        buffers += [TensorSpec((count, blocks), np.float32), TensorSpec((count, n), np.float32)]
    if outputs[0].dtype == np.float16:
        buffers += [TensorSpec((count, k), np.float32), TensorSpec((count, n), np.float32)]
    return buffers


@mat_mul_n_bits.kernel("NUMPY", supports=_refuses, scratch=_scratch, splits_work=True)
def mat_mul_n_bits_numpy(call: Call) -> Run:
    op = call.op
    k, n, block, bits = _sizes(op)
    a, y = call.inputs[0].reshape(-1, k), call.outputs[0].reshape(-1, n)
    b, blocks = call.inputs[1], call.inputs[1].shape[1]
    zero_points = call.inputs[3] if len(call.inputs) > 3 else None
    scales = call.packed("scales", lambda: call.inputs[2].reshape(n, blocks, 1).astype(np.float32))
    bias = call.inputs[5] if len(call.inputs) > 5 else None
    rows = _rows(op, blocks)
    parts = call.mine([slice(first, min(first + rows, n)) for first in range(0, n, rows)])
    weights, *spare = call.scratch
    unpack = [unpacking(b[part], weights[: part.stop - part.start], spare[:2], bits) for part in parts]
    lift, spare = None, spare[2:]
    if zero_points is not None:
        middle = np.float32(1 << (bits - 1))
        shifts = call.packed("shifts", lambda: scales[:, :, 0] * (_zero_points(op, zero_points, blocks) - middle))
        lift, spare = _Lift(a, k, block, shifts, *spare[:2]), spare[2:]
    wide = (spare[0], spare[1]) if y.dtype == np.float16 else None

    def run() -> None:
        x, out = (a, y) if wide is None else wide
        if wide is not None:
            np.copyto(x, a)
        if lift is not None:
            lift.measure(x)
        for part, fill in zip(parts, unpack):
            fill()
            some = weights[: part.stop - part.start]
            np.multiply(some, scales[part], out=some)
            np.matmul(x, some.reshape(len(some), -1)[:, :k].T, out=out[:, part])
            if lift is not None:
                lift.subtract(out, part)
            if bias is not None:
                np.add(out[:, part], bias[part], out=out[:, part])
            if wide is not None:
                np.copyto(y[:, part], out[:, part], casting="same_kind")

    return run


class _Lift:
    """What zero points other than the middle add: the sums of A over blocks times scale (zero point - middle)."""

    def __init__(self, a: Array, k: int, block: int, shifts: Array, sums: Array, products: Array):
        self._starts = np.arange(0, k, block)
        self._shifts, self._sums, self._products = shifts, sums, products

    def measure(self, x: Array) -> None:
        np.add.reduceat(x, self._starts, axis=1, out=self._sums)

    def subtract(self, out: Array, part: slice) -> None:
        product = self._products[:, part]
        np.matmul(self._sums, self._shifts[part].T, out=product)
        np.subtract(out[:, part], product, out=out[:, part])


def unpacking(packed: Array, target: Array, work: Sequence[Array], bits: int) -> Run:
    """A run that writes q - 2^(bits - 1) for the numbers of bytes (rows, blocks, n) into floats (rows, blocks, n * 8 /
    bits). With that bit flipped, a number of few bits is its own difference in two's complement."""
    flipped, moved = (buffer[: len(packed)] for buffer in work)
    flip = np.uint8({2: 0xAA, 4: 0x88, 8: 0x80}[bits])
    signed, per_byte = moved.view(np.int8), 8 // bits
    down = np.int8(8 - bits)

    def run() -> None:
        np.bitwise_xor(packed, flip, out=flipped)
        for index in range(per_byte):
            np.left_shift(flipped, np.uint8(8 - bits * (index + 1)), out=moved)
            np.right_shift(signed, down, out=signed)
            np.copyto(target[..., index::per_byte], signed)

    return run


@operator("GatherBlockQuantized", domain="com.microsoft", inputs=(3, 4), dtypes=("uint8",))
def gather_block_quantized(
    op: OperatorDef, data: TensorSpec, indices: TensorSpec, scales: TensorSpec, zero_points: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """Y = Gather(scale (q - zero point), indices) along ``gather_axis`` (0); only the gathered rows are unpacked.

    data: uint8, numbers q of ``bits`` (4) bits, packed along the last axis, the first in the lowest bits; with
    ``format`` (armnet's own) the codes of a format of ``number_formats``. scales: one for each ``block_size`` (128)
    numbers along ``quantize_axis`` (1); 0: the whole axis is one block. Zero points: packed as data; if left out 0 for
    a format, else 2^(bits - 1). An index that is out of range gives 0. Source: onnxruntime's ContribOperators.md.
    """
    shape, gather, _, blocked = _layout(op, data)
    require(op, indices.dtype.kind in "iu", "the indices must be integers", indices)
    fits = scales.dtype.kind == "f" and scales.ndim == len(shape)
    fits = fits and all(s in (1, w) for s, w in zip(scales.shape, blocked))
    require(op, fits, f"the scales must have the shape {list(blocked)}", scales)
    if zero_points is not None:
        wanted = (*blocked[:-1], -(-blocked[-1] // (shape[-1] // data.shape[-1])))
        fits = zero_points.shape == wanted and zero_points.dtype == np.uint8
        require(op, fits, f"the zero points must be uint8 {list(wanted)}", zero_points)
    return [TensorSpec((*shape[:gather], *indices.shape, *shape[gather + 1 :]), scales.dtype)]


def _layout(op: OperatorDef, data: Any) -> Tuple[Shape, int, int, Shape]:
    """The shape of the numbers, the axis to gather along, that of the blocks, and the shape of the scales."""
    bits = FORMATS[op.get_str("format")].bits if op.has("format") else op.get_int("bits", 4)
    if bits not in BITS:
        raise ArgumentError(op, f"bits must be 2, 4 or 8, got {bits}")
    require(op, data.ndim > 0, "the data must have dimensions", data)
    shape = (*data.shape[:-1], data.shape[-1] * (8 // bits))
    gather = axis_of(op, op.get_int("gather_axis", 0), len(shape), "gather_axis")
    along = axis_of(op, op.get_int("quantize_axis", 1), len(shape), "quantize_axis")
    block = op.get_int("block_size", 128) or max(shape[along], 1)
    require(op, block > 0, f"block_size must not be negative, got {block}")
    packed_apart = bits == 8 or gather != len(shape) - 1
    require(
        op, gather != along and packed_apart, "numbers must be gathered along another axis than they are packed", data
    )
    return shape, gather, along, (*shape[:along], -(-shape[along] // block), *shape[along + 1 :])


@gather_block_quantized.reference
def gather_block_quantized_reference(
    op: OperatorDef, data: Array, indices: Array, scales: Array, zero_points: Optional[Array] = None
) -> List[Any]:
    shape, gather, along, blocked = _layout(op, data)
    name = op.get_str("format", "") or f"uint{op.get_int('bits', 4)}"
    block = op.get_int("block_size", 128) or shape[along]
    length = shape[gather]
    known = (indices >= -length) & (indices < length)
    at = np.where(known, np.where(indices < 0, indices + length, indices), 0)

    def numbers(packed: Array, count: int) -> Array:
        rows = packed.take(at, axis=gather)
        if name == "uint8":
            return rows.astype(np.float32)
        per_byte = FORMATS[name].per_byte
        flat = unpacked_numbers(rows.reshape(-1), name, rows.size * per_byte)
        return flat.reshape(*rows.shape[:-1], -1)[..., :count].astype(np.float32)

    def spread(parameter: Array) -> Array:
        """One for each number."""
        axis = along + indices.ndim - 1 if along > gather else along
        return (
            parameter if parameter.shape[axis] == 1 else parameter.repeat(block, axis).take(range(shape[along]), axis)
        )

    whole = np.broadcast_to(scales, blocked)
    zero: Any = 0 if op.has("format") else 1 << (op.get_int("bits", 4) - 1)
    if zero_points is not None:
        zero = spread(numbers(zero_points, blocked[-1]))
    y = (numbers(data, shape[-1]) - zero) * spread(whole.take(at, axis=gather).astype(np.float32))
    y.reshape(-1, *indices.shape, math.prod(shape[gather + 1 :]))[:, ~known] = 0
    return [y.astype(scales.dtype)]
