"""Multiply-adds and bytes of an operator, from its shapes."""

from __future__ import annotations

from typing import Sequence

from runtime_arm.netdef import OperatorDef
from runtime_arm.records import NamedTuple
from runtime_arm.registry.kernel import Specs
from runtime_arm.registry.schema import lookup
from runtime_arm.registry.specs import TensorSpec


class Cost(NamedTuple):
    """What one run of an operator computes and moves.

    multiply_adds: of the plain algorithm, 0 if the schema states none. parameters: elements that are constant. nbytes:
    everything that is read and written, counted once.
    """

    multiply_adds: int
    parameters: int
    nbytes: int


def cost_of(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Cost:
    """The operator's cost for these shapes. UnknownOperator if nobody declared it."""
    count = lookup(op).multiply_adds
    present = [spec for spec in inputs if spec is not None]
    return Cost(
        multiply_adds=count(op, inputs, outputs) if count else 0,
        parameters=sum(spec.size for spec in present if spec.value is not None),
        nbytes=sum(spec.nbytes for spec in [*present, *outputs]),
    )
