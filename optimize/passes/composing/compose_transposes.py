"""Consecutive permutations of dimensions become one, or vanish if they cancel.

A reshape to three dimensions, a permutation and a reshape back also become one permutation.
"""

from __future__ import annotations

from typing import Optional, Tuple

from optimize.rewriting.patterns import operator, rule
from optimize.rewriting.program import Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal, merged
from runtime_arm.netdef import Argument, OperatorDef

_TYPES = {"Transpose", "NCHW2NHWC", "NHWC2NCHW"}


def permutation(program: Program, op: OperatorDef) -> Optional[Tuple[int, ...]]:
    """The input's dimension that each of the output's comes from.

    None if their number is not known or depends on sizes that the net leaves open.
    """
    if op.type == "Transpose" and op.get_ints("axes"):
        return op.get_ints("axes")
    dims = program.dims(op.input[0])
    if dims is None:
        return None
    axes = tuple(range(len(dims)))
    if op.type == "Transpose":
        return axes[::-1]
    return (0, *axes[2:], 1) if op.type == "NCHW2NHWC" else (0, axes[-1], *axes[1:-1])


def _composed(program: Program, first: OperatorDef, second: OperatorDef) -> Optional[Tuple[int, ...]]:
    inner, outer = permutation(program, first), permutation(program, second)
    if inner is None or outer is None or len(inner) != len(outer):
        return None
    return tuple(inner[axis] for axis in outer)


def _is_identity(axes: Optional[Tuple[int, ...]]) -> bool:
    return axes is not None and list(axes) == sorted(axes)


def _remove(program: Program, x: str, idle: OperatorDef) -> Rewrite:
    return Rewrite(rename=merged(program, idle.output[0], x))


def _cancel(program: Program, x: str, first: OperatorDef, second: OperatorDef) -> Rewrite:
    if not _is_identity(_composed(program, first, second)):
        raise Refusal(f"it does not undo {first.signature()}")
    return Rewrite(rename=merged(program, second.output[0], x))


def _compose(program: Program, x: str, first: OperatorDef, second: OperatorDef) -> Rewrite:
    axes = _composed(program, first, second)
    if axes is None:
        raise Refusal("the number of dimensions is not known")
    if _is_identity(axes):
        return Rewrite((second.replace(type="Copy", input=(x,), arg=()),))
    return Rewrite((second.replace(type="Transpose", input=(x,), arg=(Argument.of("axes", axes),)),))


def _turn_whole(program: Program, x: str, joined: OperatorDef, turn: OperatorDef, apart: OperatorDef) -> Rewrite:
    """(..., S, D) reshaped to (B, S, D), transposed to (B, D, S), reshaped to (..., D, S)."""
    dims = program.dims(x)
    if dims is None or len(dims) < 2 or turn.get_ints("axes") != (0, 2, 1):
        raise Refusal("it does not turn matrices")
    for before, flat, after in zip(*map(program.specs, (x, joined.output[0], apart.output[0]))):
        if before is None or flat is None or after is None:
            raise Refusal("a shape is not known")
        *leading, rows, columns = before.shape
        if flat.shape[1:] != (rows, columns) or after.shape != (*leading, columns, rows):
            raise Refusal("more than the leading dimensions are joined")
    axes = [*range(len(dims) - 2), len(dims) - 1, len(dims) - 2]
    return Rewrite((OperatorDef.of("Transpose", [x], apart.output[:1], axes=axes, name=apart.name),))


_IDLE = operator(_TYPES, "idle", where=lambda program, op: _is_identity(permutation(program, op)))
_FIRST, _SECOND = operator(_TYPES, "first"), operator(_TYPES, "second")
_JOINED, _TURN, _APART = (
    operator({"Reshape"}, "joined"),
    operator({"Transpose"}, "turn"),
    operator({"Reshape"}, "apart"),
)
_READ_BY_OTHERS = operator(_TYPES, "first", stays=True)

PASS = Pass(
    "compose_transposes",
    (
        rule(_IDLE("x"), to=_remove),
        rule(_SECOND(_READ_BY_OTHERS("x")), to=_cancel),
        rule(_SECOND(_FIRST("x")), to=_compose),
        rule(_APART(_TURN(_JOINED("x"))), to=_turn_whole),
    ),
)
