"""Rows of 8, 4 or 2 bit numbers, each followed by its scale and bias, as embedding tables are stored.

A row stands for  scale q + bias.  Numbers of 4 and 2 bits share a byte, the first in its lowest bits. Scale and bias
follow the numbers: 8 bytes of float32, or 4 bytes of float16. All dimensions but the last count rows. Source:
caffe2/operators/fused_rowwise_8bit_conversion_ops.h, fused_rowwise_nbit_conversion_ops.h,
lengths_reducer_fused_8bit_rowwise_ops.h, lengths_reducer_fused_nbit_rowwise_ops.h.
"""

from __future__ import annotations

from typing import Any, List, Tuple

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.indices import absolute, require_indices
from runtime_arm.operators.rows.segment_reductions import (
    sparse_lengths_mean,
    sparse_lengths_sum,
    sparse_lengths_weighted_sum,
)
from runtime_arm.records import NamedTuple
from runtime_arm.registry.schema import Operator, operator, require
from runtime_arm.registry.specs import Shape, TensorSpec

_EPSILON = np.float32(1e-8)  # avoids a division by 0 in rows of equal numbers


class Packing(NamedTuple):
    """How a row is stored: bits per number, and the dtype of the scale and bias after it."""

    bits: int
    trailer: str

    @property
    def per_byte(self) -> int:
        return 8 // self.bits

    @property
    def highest(self) -> int:
        return int(2**self.bits - 1)

    @property
    def trailer_nbytes(self) -> int:
        return 2 * np.dtype(self.trailer).itemsize

    def packed_shape(self, shape: Shape) -> Shape:
        return (*shape[:-1], shape[-1] // self.per_byte + self.trailer_nbytes)

    def real_shape(self, shape: Shape) -> Shape:
        return (*shape[:-1], (shape[-1] - self.trailer_nbytes) * self.per_byte)

    def pack(self, codes: Array, scale: Array, bias: Array) -> Array:
        """Codes (rows, n) with scales and biases (rows, 1), as bytes."""
        parts = codes.astype(np.uint8).reshape(len(codes), codes.shape[1] // self.per_byte, self.per_byte)
        shifts = np.arange(0, 8, self.bits, dtype=np.uint8)
        numbers = np.bitwise_or.reduce(parts << shifts, axis=2)
        trailer = np.concatenate([scale, bias], axis=1).astype(self.trailer)
        return np.concatenate([numbers, trailer.view(np.uint8)], axis=1)

    def unpack(self, rows: Array) -> Array:
        """The float32 rows that bytes (rows, n) stand for."""
        numbers, trailer = rows[:, : -self.trailer_nbytes], np.ascontiguousarray(rows[:, -self.trailer_nbytes :])
        scale, bias = np.split(trailer.view(self.trailer).astype(np.float32), 2, axis=1)
        shifts = np.arange(0, 8, self.bits, dtype=np.uint8)
        codes = (numbers[:, :, None] >> shifts) & np.uint8(self.highest)
        real = codes.reshape(self.real_shape(rows.shape)).astype(np.float32)
        return np.asarray(real * scale + bias)


EIGHT, EIGHT_HALF = Packing(8, "<f4"), Packing(8, "<f2")
FOUR, TWO = Packing(4, "<f2"), Packing(2, "<f2")


def _as_rows(x: Array) -> Array:
    return x.reshape(-1, x.shape[-1])


def _codes_of_bytes(x: Array) -> Tuple[Array, Array, Array]:
    """Codes, scale and bias for 8 bits: bias = min, scale = (max - min) / 255, ties to even."""
    low, high = x.min(1, keepdims=True), x.max(1, keepdims=True)
    steps = np.rint((x - low) * (np.float32(255) / (high - low + _EPSILON)))
    return np.fmin(np.fmax(steps, 0), 255), (high - low) / np.float32(255), low


def _codes_below_bytes(x: Array, highest: int) -> Tuple[Array, Array, Array]:
    """The same for fewer bits. Scale and bias are rounded to float16 first; a scale of 0 counts as 1."""
    low = x.min(1, keepdims=True).astype(np.float16).astype(np.float32)
    scale = ((x.max(1, keepdims=True) - low) / np.float32(highest)).astype(np.float16).astype(np.float32)
    scale = np.where(scale == 0, np.float32(1), scale)
    steps = np.rint((x - low) * (np.float32(1) / scale))
    return np.fmin(np.fmax(steps, 0), highest), scale, low


def _declare_quantizer(type: str, packing: Packing, source: str, bits: int) -> None:
    """Declares an operator that packs rows. Numbers are rounded to ``bits`` bits; ``packing`` may use more."""
    codes_per_byte = packing.per_byte

    @operator(type, dtypes=(source,))
    def schema(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
        require(op, x.ndim > 0 and x.shape[-1] > 0, "X must have columns", x)
        require(op, x.shape[-1] % codes_per_byte == 0, f"the columns must be a multiple of {codes_per_byte}", x)
        return [TensorSpec(packing.packed_shape(x.shape), np.uint8)]

    schema.__doc__ = f"""Each row of X, {source}, rounded to {bits} bits and packed, see the top of this file."""

    @schema.reference
    def reference(op: OperatorDef, x: Array) -> List[Any]:
        rows = _as_rows(x).astype(np.float32)
        codes, scale, bias = _codes_of_bytes(rows) if bits == 8 else _codes_below_bytes(rows, 2**bits - 1)
        return [packing.pack(codes, scale, bias).reshape(packing.packed_shape(x.shape))]


def _real(op: OperatorDef, x: TensorSpec, packing: Packing, dtype: Any = np.float32) -> TensorSpec:
    least = packing.trailer_nbytes
    require(op, x.ndim > 0 and x.shape[-1] > least, f"X must have more than {least} columns", x)
    return TensorSpec(packing.real_shape(x.shape), dtype)


def _declare_dequantizer(type: str, packing: Packing, result: str) -> None:
    @operator(type, dtypes=("uint8",))
    def schema(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
        return [_real(op, x, packing, result)]

    schema.__doc__ = f"""The rows, {result}, that the packed rows X stand for."""

    @schema.reference
    def reference(op: OperatorDef, x: Array) -> List[Any]:
        return [packing.unpack(_as_rows(x)).astype(result).reshape(packing.real_shape(x.shape))]


for _bits, _packing in ((4, FOUR), (2, TWO)):
    for _name, _dtype in (("Float", "float32"), ("Half", "float16")):
        _declare_quantizer(f"{_name}ToFused{_bits}BitRowwiseQuantized", _packing, _dtype, _bits)
        _declare_quantizer(f"{_name}ToFused{_bits}BitFakeRowwiseQuantized", EIGHT, _dtype, _bits)
        _declare_dequantizer(f"Fused{_bits}BitRowwiseQuantizedTo{_name}", _packing, _dtype)
for _suffix, _packing in (("", EIGHT), ("HalfScaleBias", EIGHT_HALF)):
    for _name, _dtype in (("Float", "float32"), ("HalfFloat", "float16")):
        _declare_quantizer(f"{_name}ToFused8BitRowwiseQuantized{_suffix}", _packing, _dtype, 8)
        _declare_dequantizer(f"Fused8BitRowwiseQuantized{_suffix}To{_name}", _packing, _dtype)


def _declare_lookup(plain: Operator, packing: Packing) -> None:
    """The Sparse operator ``plain`` on packed rows. Only the rows that are picked are unpacked."""
    at = plain.inputs[0] - 2  # the position of the indices

    @operator(f"{plain.type}Fused{packing.bits}BitRowwise", inputs=plain.inputs, dtypes=("uint8",))
    def schema(op: OperatorDef, x: TensorSpec, *others: TensorSpec) -> List[TensorSpec]:
        """The operator of the shorter name, applied to the rows that X stands for."""
        require(op, x.ndim == 2, "X must be a matrix", x)
        return list(plain.shape(op, _real(op, x, packing), *others))

    @schema.reference
    def reference(op: OperatorDef, x: Array, *others: Array) -> List[Any]:
        indices = absolute(op, others[at - 1], len(x), wraps=False)
        places = np.arange(indices.size, dtype=np.int64)
        return plain.evaluate(op, [packing.unpack(x[indices]), *others[: at - 1], places, *others[at:]])


for _plain in (sparse_lengths_sum, sparse_lengths_weighted_sum, sparse_lengths_mean):
    for _packing in (EIGHT, FOUR, TWO):
        _declare_lookup(_plain, _packing)


@operator("GatherFused8BitRowwise", inputs=2, dtypes=("uint8",))
def gather_rows(op: OperatorDef, x: TensorSpec, indices: TensorSpec) -> List[TensorSpec]:
    """The float32 rows of X at the indices: (indices..., columns)."""
    require(op, x.ndim == 2, "X must be a matrix", x)
    require_indices(op, indices)
    return [TensorSpec((*indices.shape, *_real(op, x, EIGHT).shape[1:]), np.float32)]


@gather_rows.reference
def gather_rows_reference(op: OperatorDef, x: Array, indices: Array) -> List[Any]:
    picked = EIGHT.unpack(x[absolute(op, indices.reshape(-1), len(x), wraps=False)])
    return [picked.reshape(*indices.shape, picked.shape[1])]
