"""Moves the updates of a train net to where their gradients are ready, so that memory holds few gradients at a time."""

from __future__ import annotations

from typing import List, Sequence

from optimize.gradients.backward_pass import GIVEN
from optimize.memory.orders import dependencies
from runtime_arm.netdef import NetDef, OperatorDef


def update_early(net: NetDef) -> NetDef:
    """The train net with every operator that follows the last gradient operator moved as early as its inputs allow, but
    not into the forward pass. The results are the same, bit for bit.
    """
    ops = net.op
    updates = 1 + max((place for place, op in enumerate(ops) if op.is_gradient_op), default=len(ops) - 1)
    places = list(range(updates))
    start = first_backward(ops)
    for before in dependencies(ops)[updates:]:
        places.append(max((places[place] for place in before), default=start))
        places[-1] = max(places[-1], start)
    order = sorted(range(len(ops)), key=lambda place: (places[place], place))
    return net.replace(op=tuple(ops[place] for place in order))


def first_backward(ops: Sequence[OperatorDef]) -> int:
    """The place of the first operator of the backward pass; the number of operators if there is none."""
    begins: List[int] = [place for place, op in enumerate(ops) if op.is_gradient_op or _is_given(op)]
    return min(begins, default=len(ops))


def _is_given(op: OperatorDef) -> bool:
    """Whether an operator makes the ones with which a backward pass begins."""
    return any(name.endswith(GIVEN) for name in op.output)
