"""Broadcasting the shapes of two or more operands: NumPy's rule and Caffe2's older one (``broadcast=1``)."""

from __future__ import annotations

from typing import List, Sequence

from runtime_arm.errors import ArgumentError, ShapeError
from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.schema import describe, require
from runtime_arm.registry.specs import Shape, TensorSpec


def broadcast(op: OperatorDef, specs: Sequence[TensorSpec], shapes: Sequence[Shape] = ()) -> Shape:
    """The shape to which the operands broadcast by NumPy's rule. ``shapes`` replaces their own shapes if given."""
    shapes = shapes or [spec.shape for spec in specs]
    ndim = max(len(shape) for shape in shapes)
    common: List[int] = []
    for sizes in zip(*((1,) * (ndim - len(shape)) + tuple(shape) for shape in shapes)):
        different = set(sizes) - {1}
        if len(different) > 1:
            raise ShapeError(op, f"shapes do not broadcast; got {describe(specs)}")
        common.append(different.pop() if different else 1)
    return tuple(common)


def second_shape(op: OperatorDef, a: TensorSpec, b: TensorSpec) -> Shape:
    """The shape to which ``b`` must be reshaped so that it broadcasts to ``a`` as the operator's arguments say.

    Without ``broadcast`` this is b's own shape. With Caffe2's ``broadcast=1``, the dimensions of ``b`` are matched with
    those of ``a`` from ``axis`` on, or from the position of ``axis_str`` in ``order``, or by default with the last
    ones. Dimensions of 1 at both ends of ``b`` are broadcast.
    """
    if not op.get_bool("broadcast"):
        return b.shape
    axis = _legacy_axis(op)
    if b.size == 1:
        return (1,) * min(a.ndim, b.ndim)
    require(op, a.ndim >= b.ndim, "broadcast=1 broadcasts the second operand, but that one has more dimensions", a, b)
    start = a.ndim - b.ndim if axis == -1 else axis
    require(op, 0 <= start <= a.ndim - b.ndim, f"the second does not fit into the first from axis {start} on", a, b)
    wide = [i for i, n in enumerate(b.shape) if n != 1]
    inner = range(wide[0], wide[-1] + 1)
    require(op, all(b.shape[i] == a.shape[start + i] for i in inner), f"shapes do not match from axis {start} on", a, b)
    return b.shape + (1,) * (a.ndim - b.ndim - start)


def _legacy_axis(op: OperatorDef) -> int:
    axis, letter = op.get_int("axis", -1), op.get_str("axis_str", "")
    if not letter:
        return axis
    order = op.get_str("order", "NCHW")
    if axis != -1 or len(letter) != 1 or letter not in order:
        raise ArgumentError(
            op, f"axis_str must be one letter of {order!r} and excludes axis; got {letter!r}, axis {axis}"
        )
    return order.index(letter)
