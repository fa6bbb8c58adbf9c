"""Blobs that two variants of a net have in common, as real numbers in one layout.

Optimising and quantising keep the names of blobs, except for an ending that says how they changed: ``relu1`` is also
``relu1_int8`` or ``relu1_nhwc``. Integer blobs stand for real numbers by the scales that operators name.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array, NetDef, OperatorDef
from runtime_arm.pair.pair import Pair
from runtime_arm.registry.specs import QuantizedTensor

_ENDING = re.compile(r"(?:_(?:int8|uint8|int16|nhwc|nchw|float))+$")
_PREFIXES = ("X", "A", "B")
_FIXED = ("QuantizedSoftmax", "QuantizedLogSoftmax", "QuantizedL2Normalization")  # results have a scale of their own
_RESULT = "Y"
_STATED = {"scale", "zero_point"}

Scale = Tuple[float, int]  # and zero point


class Common(NamedTuple):
    """A blob of both nets: its name in each, and the operator of the second that computes it."""

    first: str
    second: str
    producer: OperatorDef


def common_blobs(first: NetDef, second: NetDef) -> List[Common]:
    """The blobs of both nets, in the order in which the second computes them. If a blob has several forms, the last one
    counts.
    """
    known = {_stem(name): name for op in first.op for name in op.output if name}
    known.update({name: name for op in first.op for name in op.output if name})
    found: Dict[str, Common] = {}
    for op in second.op:
        for name in op.output:
            other = known.get(name) or known.get(_stem(name)) if name else None
            if other is not None:
                found[_stem(name)] = Common(other, name, op)
    return list(found.values())


def _stem(name: str) -> str:
    return _ENDING.sub("", name)


def scales_of(pair: Pair) -> Dict[str, Scale]:
    """The scale and zero point of each integer blob for which the pair or an operator names them, or whose elements
    come unchanged from one that has them."""
    stated = pair.meta.get("quantization") or {}
    found = {name: (float(one["scale"]), int(one["zero_point"])) for name, one in stated.items() if set(one) >= _STATED}
    for op in pair.predict_net.op:
        for prefix, name in zip(_PREFIXES, op.input):
            if name and op.has(f"{prefix}_scale"):
                found.setdefault(name, _scale(op, prefix))
        if not op.output:
            continue
        if op.has(f"{_RESULT}_scale"):
            found[op.output[0]] = _scale(op, _RESULT)
        elif op.input and op.input[0] in found and op.type not in _FIXED:
            found[op.output[0]] = found[op.input[0]]
    return found


def _scale(op: OperatorDef, prefix: str) -> Scale:
    return op.get_float(f"{prefix}_scale"), op.get_int(f"{prefix}_zero_point", 0)


def real(value: Any, scale: Optional[Scale]) -> Optional[Array]:
    """The real numbers that a blob holds or stands for; None for integers without a scale and for what is no number."""
    if isinstance(value, QuantizedTensor):
        value, scale = value.values, (value.scale, value.zero_point)
    array = np.asarray(value)
    if array.dtype.kind == "f":
        return array.astype(np.float32)
    if array.dtype.kind not in "iu" or scale is None:
        return None
    return np.asarray((array.astype(np.float32) - scale[1]) * np.float32(scale[0]))


def aligned(value: Array, shape: Sequence[int]) -> Optional[Array]:
    """The value in the other variant's layout: as it is, with channels first or last, or flattened. None if it does not
    fit."""
    if value.shape == tuple(shape):
        return value
    for axes in ((-1, 1), (1, -1)):
        if value.ndim > 2 and np.moveaxis(value, *axes).shape == tuple(shape):
            return np.moveaxis(value, *axes)
    plain = [[size for size in sizes if size != 1] for sizes in (value.shape, shape)]
    return value.reshape(shape) if plain[0] == plain[1] else None
