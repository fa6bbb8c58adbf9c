"""Declares how an operator runs on the device.

    @lowers("Softmax", "onnx.Softmax", supports=_supports)
    def softmax(builder, step):                         # adds launches that make step.outputs of step.inputs

``supports(op, in_specs, out_specs)`` returns a reason to refuse or None, as engines do.
"""

from __future__ import annotations

from importlib import import_module
from typing import Callable, Dict, Optional, Sequence, Union

import numpy as np

from runtime_arm.gpu.builder import Builder
from runtime_arm.netdef import OperatorDef
from runtime_arm.planning.steps import Step
from runtime_arm.records import NamedTuple
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.kernel import Specs, Supports, always
from runtime_arm.registry.schema import find
from runtime_arm.registry.specs import TensorSpec

Lower = Callable[[Builder, Step], None]

_FAMILIES = ("convolution", "pool", "elementwise", "rows", "move")
MOST = 1 << 29  # elements of a blob; kernels count in 32 bits


class Lowering(NamedTuple):
    """How operators of one type or kind run on the device."""

    lower: Lower
    supports: Supports


_LOWERINGS: Dict[Union[str, Kind], Lowering] = {}


def lowers(*what: Union[str, Kind], supports: Supports = always) -> Callable[[Lower], Lower]:
    """Decorator: the function lowers operators of these full types or kinds."""

    def register(lower: Lower) -> Lower:
        for key in what:
            _LOWERINGS[key] = Lowering(lower, supports)
        return lower

    return register


def lowering_of(op: OperatorDef) -> Optional[Lowering]:
    """How the operator runs on the device, None if it cannot."""
    for family in _FAMILIES:
        import_module(f"runtime_arm.gpu.lowering.{family}")
    found = _LOWERINGS.get(op.full_type)
    schema = find(op)
    if found is None and schema is not None:
        found = _LOWERINGS.get("view") if schema.view else _LOWERINGS.get(schema.kind) if schema.kind else None
    return found


def refusal(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    """The reason why the device cannot run the operator, or None if it can."""
    lowering = lowering_of(op)
    if lowering is None:
        return "the device has no kernel for it"
    made = [spec for spec in outputs if spec.value is None]
    if len(made) != 1 or outputs[0].value is not None:
        return "the device makes one output"
    for spec in [*(spec for spec in inputs if spec is not None and spec.value is None), *made]:
        if spec.dtype != np.float32 or spec.quantization is not None:
            return f"the device computes float32, not {spec.dtype.name}"
        if not 0 < spec.size < MOST:
            return "a blob is empty" if not spec.size else "a blob is too large"
    return lowering.supports(op, inputs, outputs)
