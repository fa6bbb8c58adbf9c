"""LookUp: any function of 8-bit numbers, as the table of its values."""

from __future__ import annotations

from typing import Any, List, Sequence

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.tables import bind_lookup, lookup_scratch
from runtime_arm.operators.quantised.parameters import EIGHT_BITS, require_dtype
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


@operator("LookUp", inputs=2, domain="armnet")
def look_up(op: OperatorDef, x: TensorSpec, table: TensorSpec) -> List[TensorSpec]:
    """Y = table[X]. X: int8 or uint8; the table has 256 elements of 8 bits, for 0 to 255 or for 0 to 127, -128 to -1.

    So an index is the bits of X as an unsigned number, and a negative one counts from the table's end.
    """
    require_dtype(op, "X", x, EIGHT_BITS)
    require_dtype(op, "the table", table, EIGHT_BITS)
    require(op, table.shape == (256,), "the table must have 256 elements", table)
    return [TensorSpec(x.shape, table.dtype)]


@look_up.reference
def look_up_reference(op: OperatorDef, x: Array, table: Array) -> List[Any]:
    return [table[x.view(np.uint8)]]


def _scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    return lookup_scratch([outputs[0].shape])


@look_up.kernel("NUMPY", scratch=_scratch)
def look_up_numpy(call: Call) -> Run:
    return bind_lookup(call.inputs[0], call.inputs[1], call.outputs[0], call.scratch)
