"""Weights of 4-bit integers in blocks, with a scale of a byte for each block, in one array.

Like its older relatives in ``packed``, the operator is evaluated once, when the net is planned, or in each run with the
argument ``each_run``. Domain "armnet".
"""

from __future__ import annotations

import functools
import math
from typing import Any, List, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.quantised.halves import halves, stated_shape
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec

BLOCK = 32  # numbers that share a scale
BIAS = 126  # of exponents, so that none is negative: those would take ten bytes
MOST_EXPONENT = 230  # with it, as with 0, no scale and no product is subnormal or infinite
_BLOCKS = 256  # that are unpacked at a time


def scales_of(op: OperatorDef) -> Array:
    """What the bytes 0..255 of scales mean: float32 (256). A byte is a float: a sign, four bits of an exponent e and
    three of a fraction f, which is (8 + f) * 2^(e + ``exponent`` - 126)."""
    return np.asarray(np.ldexp(_tables()[1], op.get_int("exponent") - BIAS))


@functools.cache
def _tables() -> Tuple[Array, Array]:
    """By byte, in float32: the two numbers that it holds, less 8, and (8 + f) * 2^e with its sign."""
    codes = np.arange(128)
    scales = (8 + codes % 8) << (codes // 8)
    numbers = halves(np.arange(256, dtype=np.uint8)).astype(np.float32) - 8
    return numbers.reshape(256, 2), np.concatenate([scales, -scales]).astype(np.float32)


def _sizes(op: OperatorDef) -> Tuple[int, int]:
    """The bytes of numbers, and of scales."""
    size = math.prod(stated_shape(op))
    return -(-size // 2), -(-size // BLOCK)


@operator("UnpackInt4", domain="armnet", dtypes=("uint8",), unpacks=True)
def unpack_int4(op: OperatorDef, packed: TensorSpec) -> List[TensorSpec]:
    """W = s * (q - 8), in float32, with one scale s for each block of 32 numbers.

    packed: uint8, first the 4-bit numbers q of W's elements in C order, two in a byte, of which the last may be unused;
    then a byte for the scale of each block (``scales_of``). W has the ``shape`` that the argument states; the last
    block may be shorter than the others. No product is rounded.
    """
    shape, (numbers, scales), exponent = stated_shape(op), _sizes(op), op.get_int("exponent")
    if not 0 <= exponent <= MOST_EXPONENT:
        raise ArgumentError(op, f"exponent must be from 0 to {MOST_EXPONENT}, got {exponent}")
    require(op, packed.shape == (numbers + scales,), f"{numbers} + {scales} bytes are needed", packed)
    return [TensorSpec(shape, np.float32)]


@unpack_int4.reference
def unpack_int4_reference(op: OperatorDef, packed: Array) -> List[Any]:
    shape, nbytes = stated_shape(op), _sizes(op)[0]
    numbers = halves(packed[:nbytes])[: math.prod(shape)].astype(np.float32) - 8
    values = numbers * np.repeat(scales_of(op)[packed[nbytes:]], BLOCK)[: len(numbers)]
    return [values.reshape(shape)]


def _scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> List[TensorSpec]:
    blocks = min(_sizes(op)[1], _BLOCKS)
    return [
        TensorSpec((blocks * BLOCK // 2,), np.intp),
        TensorSpec((blocks, BLOCK), np.float32),
        TensorSpec((blocks, 1), np.float32),
    ]


@unpack_int4.kernel("NUMPY", scratch=_scratch)
def unpack_int4_numpy(call: Call) -> Run:
    """Some blocks at a time: looks up the two numbers of a byte at once, and the scales; only products go to W."""
    packed, y, (places, numbers, factors) = call.inputs[0], call.outputs[0].reshape(-1), call.scratch
    nbytes, scales = _sizes(call.op)[0], scales_of(call.op)
    pairs, found = _tables()[0].view(np.float64).reshape(-1), numbers.reshape(-1).view(np.float64)
    bytes, codes = packed[:nbytes], packed[nbytes:]
    whole = y.size // BLOCK
    rows, last = y[: whole * BLOCK].reshape(whole, BLOCK), y[whole * BLOCK :]

    def run() -> None:
        for first in range(0, len(codes), _BLOCKS):
            some, scale = bytes[first * BLOCK // 2 : (first + _BLOCKS) * BLOCK // 2], codes[first : first + _BLOCKS]
            np.copyto(places[: len(some)], some)
            np.take(pairs, places[: len(some)], out=found[: len(some)], mode="clip")
            np.copyto(places[: len(scale)], scale)
            np.take(scales, places[: len(scale)], out=factors[: len(scale), 0], mode="clip")
            to = rows[first : first + _BLOCKS]
            np.multiply(numbers[: len(to)], factors[: len(to)], out=to)
        if last.size:
            np.multiply(numbers[whole % _BLOCKS, : last.size], factors[whole % _BLOCKS], out=last)

    return run
