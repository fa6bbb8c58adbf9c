"""ChangeLayout: a plan inserts it between operators that use different layouts of a blob. No net contains it."""

from __future__ import annotations

from typing import Any, List, Sequence

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.registry.schema import operator
from runtime_arm.registry.specs import TensorSpec


@operator("ChangeLayout", domain="armnet")
def layout_change(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = X, in another layout (see ``registry/layouts.py``)."""
    return [x]


@layout_change.reference
def layout_change_reference(op: OperatorDef, x: Array) -> Sequence[Any]:
    return [x.copy()]
