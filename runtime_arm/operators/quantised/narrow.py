"""Numbers of formats that NumPy lacks: weights that are stored as codes, and results that are rounded to a format.

Domain "armnet". ``operators/common/number_formats.py`` lists the formats, and says what blobs hold.
"""

from __future__ import annotations

import math
from typing import Any, List

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dtypes import BOOL, NUMBERS
from runtime_arm.operators.common.number_formats import FORMATS, Format, rounded, unpacked
from runtime_arm.operators.quantised.halves import stated_shape
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


def stated_format(op: OperatorDef) -> Format:
    """The format that the argument ``format`` names; ArgumentError if there is none of that name."""
    name = op.get_str("format", "")
    if name not in FORMATS:
        raise ArgumentError(op, f"format must be one of {', '.join(FORMATS)}, got {name[:40]!r}")
    return FORMATS[name]


@operator("UnpackNumbers", domain="armnet", dtypes=("uint8",), unpacks=True)
def unpack_numbers(op: OperatorDef, packed: TensorSpec) -> List[TensorSpec]:
    """W = the numbers of these codes, in the ``shape`` that the argument states; its elements in C order.

    packed: uint8, codes of a ``format`` of 8 bits or fewer; of several in a byte, the first is in the lowest bits.
    """
    shape, form = stated_shape(op), stated_format(op)
    if form.bits > 8:
        raise ArgumentError(op, "UnpackBfloat16 unpacks bfloat16")
    length = -(-math.prod(shape) // form.per_byte)
    require(op, packed.shape == (length,), f"{length} bytes are needed", packed)
    return [TensorSpec(shape, form.carrier)]


@unpack_numbers.reference
def unpack_numbers_reference(op: OperatorDef, packed: Array) -> List[Any]:
    shape = stated_shape(op)
    return [unpacked(packed, op.get_str("format"), math.prod(shape)).reshape(shape)]


@operator("RoundNumbers", domain="armnet", dtypes=BOOL + NUMBERS)
def round_numbers(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = X in numbers of the ``format``. ``saturate`` (1), ``round_mode`` ("nearest"): see ``number_formats``."""
    form = stated_format(op)
    mode = op.get_str("round_mode", "nearest")
    if mode not in ("nearest", "up", "down"):
        raise ArgumentError(op, f"round_mode must be nearest, up or down, got {mode[:40]!r}")
    require(op, not form.is_integer or x.dtype.kind in "iub", "integers of few bits are made of integers", x)
    return [x.with_dtype(form.carrier)]


@round_numbers.reference
def round_numbers_reference(op: OperatorDef, x: Array) -> List[Any]:
    mode = op.get_str("round_mode", "nearest")
    return [rounded(x, op.get_str("format"), op.get_bool("saturate", True), mode)]
