"""Rotary positions: RotaryEmbedding of ONNX and of onnxruntime.

Pairs of numbers of a head are turned by an angle that grows with the position: (a, b) becomes (a cos - b sin,
b cos + a sin). The pairs are the halves of the first R numbers, or, interleaved, neighbours; numbers from R on stay.
Source: Su et al., RoFormer (2021).
"""

from __future__ import annotations

from functools import partial
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.errors import OperatorError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.statistics import require_floats, single_or_double
from runtime_arm.records import NamedTuple
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import Step, copy, in_turn


def pairs(x: Array, turned: int, interleaved: bool) -> Tuple[Array, Array]:
    """The first and the second numbers of the pairs among the first ``turned`` ones of each head, as views."""
    if interleaved:
        return x[..., 0:turned:2], x[..., 1:turned:2]
    return x[..., : turned // 2], x[..., turned // 2 : turned]


def rotated64(x: Array, cos: Array, sin: Array, interleaved: bool) -> Array:
    """x (..., D) turned by angles whose cosines and sines, (..., R / 2), broadcast to it; float64."""
    turned = 2 * cos.shape[-1]
    y = x.astype(np.float64)
    a, b = (part.copy() for part in pairs(y, turned, interleaved))
    first, second = pairs(y, turned, interleaved)
    first[...] = a * cos - b * sin
    second[...] = b * cos + a * sin
    return y


def turning(target: Array, x: Array, cos: Array, sin: Array, work: Array, interleaved: bool) -> List[Step]:
    """Steps that write x, turned, into ``target``, which must be other memory; ``work`` has the shape of one half."""
    turned = 2 * cos.shape[-1]
    (a, b), (first, second) = (pairs(array, turned, interleaved) for array in (x, target))
    rest = [copy(target[..., turned:], x[..., turned:])] if turned < x.shape[-1] else []
    return [
        partial(np.multiply, a, cos, out=first),
        partial(np.multiply, b, sin, out=work),
        partial(np.subtract, first, work, out=first),
        partial(np.multiply, b, cos, out=second),
        partial(np.multiply, a, sin, out=work),
        partial(np.add, second, work, out=second),
        *rest,
    ]


class Operands(NamedTuple):
    """The inputs by their meaning; the two domains have them in different orders."""

    x: Any
    cos: Any
    sin: Any
    positions: Any

    @classmethod
    def of(cls, op: OperatorDef, inputs: Sequence[Any]) -> Operands:
        if op.domain == "onnx":
            x, cos, sin = inputs[:3]
            return cls(x, cos, sin, inputs[3] if len(inputs) > 3 else None)
        x, positions, cos, sin = inputs
        return cls(x, cos, sin, positions)


class Sizes(NamedTuple):
    batches: int
    length: int
    heads: int
    numbers: int
    turned: int


def _sizes(op: OperatorDef, inputs: Sequence[Any]) -> Sizes:
    x, cos = Operands.of(op, inputs)[:2]
    heads, turned = op.get_int("num_heads", 0), op.get_int("rotary_embedding_dim", 0)
    require(op, x.ndim in (3, 4), "the input must have 3 or 4 dimensions", x)
    if x.ndim == 4:
        return Sizes(x.shape[0], x.shape[2], x.shape[1], x.shape[3], turned or x.shape[3])
    if not heads and op.domain != "onnx" and not turned and cos.shape[-1:] != (0,):
        heads = x.shape[2] // (2 * cos.shape[-1])
    require(op, heads > 0 and x.shape[2] % heads == 0, f"{heads} heads must divide the last dimension", x)
    return Sizes(x.shape[0], x.shape[1], heads, x.shape[2] // heads, turned or x.shape[2] // heads)


def _shape(op: OperatorDef, *inputs: Optional[TensorSpec]) -> List[TensorSpec]:
    """Y = X with the pairs of each head turned by the angles of their positions. X: (B, H, S, D), or (B, S, H D) with
    ``num_heads``.

    The other inputs, in ONNX's order: cosines and sines (positions, R / 2), and the position of each element (B, S),
    int64. Without positions the cosines and sines are (B, S, R / 2). onnxruntime's order has the positions second; they
    may be one number, the first position. ``rotary_embedding_dim``: R (D). ``interleaved``. Source: onnx/defs/nn and
    onnxruntime's ContribOperators.md.
    """
    x, cos, sin, positions = Operands.of(op, inputs)
    require_floats(op, x, cos, sin)
    size = _sizes(op, inputs)
    half = size.turned // 2
    require(op, size.turned % 2 == 0 and size.turned <= size.numbers, f"{size.turned} numbers cannot be turned", x)
    if positions is None:
        wanted = (size.batches, size.length, half)
        require(op, cos.shape == sin.shape == wanted, f"cosines and sines must be {list(wanted)}", cos, sin)
    else:
        fits = cos.ndim == 2 and cos.shape == sin.shape and cos.shape[1] == half
        require(op, fits, f"cosines and sines must be (positions, {half})", cos, sin)
        one = op.domain != "onnx" and positions.shape == (1,)
        fits = positions.dtype.kind in "iu" and (one or positions.shape == (size.batches, size.length))
        require(op, fits, f"the positions must be integers {[size.batches, size.length]}", positions)
    return [x]


def places(op: OperatorDef, positions: Array, size: Sizes, count: int) -> Array:
    """The positions (B, S); OperatorError if one is not below ``count``."""
    whole = positions + np.arange(size.length) if positions.size == 1 and positions.ndim == 1 else positions
    if whole.size and not 0 <= whole.min() <= whole.max() < count:
        raise OperatorError(
            op, f"positions {whole.min()} to {whole.max()} are not all among the {count} that are known"
        )
    return np.broadcast_to(whole, (size.batches, size.length))


def _apart(x: Array, size: Sizes) -> Array:
    """(B, S, H, D), a view."""
    return x.swapaxes(1, 2) if x.ndim == 4 else x.reshape(size.batches, size.length, size.heads, size.numbers)


def _reference(op: OperatorDef, *inputs: Any) -> List[Any]:
    x, cos, sin, positions = Operands.of(op, inputs)
    size = _sizes(op, inputs)
    if positions is not None:
        at = places(op, positions, size, cos.shape[0])
        cos, sin = cos[at], sin[at]
    y = np.empty_like(x)
    cos, sin = (part[:, :, np.newaxis].astype(np.float64) for part in (cos, sin))
    _apart(y, size)[...] = rotated64(_apart(x, size), cos, sin, op.get_bool("interleaved"))
    return [y]


def _scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    size, dtype = _sizes(op, inputs), outputs[0].dtype
    half = size.turned // 2
    angles = TensorSpec((size.batches, size.length, half), dtype)
    work = TensorSpec((size.batches, size.length, size.heads, half), dtype)
    return [work] if Operands.of(op, inputs).positions is None else [work, angles, angles]


def _numpy(call: Call) -> Run:
    op = call.op
    x, cos, sin, positions = Operands.of(op, call.inputs)
    size = _sizes(op, call.inputs)
    angles = [cos, sin] if positions is None else call.scratch[1:]
    cosines, sines = (part[:, :, np.newaxis] for part in angles)
    target, source = (_apart(array, size) for array in (call.outputs[0], x))
    turn = in_turn(turning(target, source, cosines, sines, call.scratch[0], op.get_bool("interleaved")))
    if positions is None:
        return turn

    def run() -> None:
        at = places(op, positions, size, cos.shape[0]).astype(np.intp, copy=False)
        for table, target in zip((cos, sin), angles):
            np.take(table, at, axis=0, out=target, mode="clip")
        turn()

    return run


for _domain, _counts in (("onnx", (3, 4)), ("com.microsoft", (4, 4))):
    _rotary = operator("RotaryEmbedding", inputs=_counts, domain=_domain)(_shape)
    _rotary.reference(_reference)
    _rotary.kernel("NUMPY", supports=single_or_double, scratch=_scratch)(_numpy)
