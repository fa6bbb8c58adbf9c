"""Runs a kernel that writes its output over one of its inputs, as the planner allows."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from device_tests.suite.kernels import specs_of
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.registry.kernel import Call
from runtime_arm.registry.schema import lookup


def run_in_place(op: OperatorDef, inputs: Sequence[Any], engine: str, index: int = 0) -> Array:
    """Output 0 of the kernel of ``engine``, which writes it over a copy of input ``index``."""
    schema, specs = lookup(op), specs_of(inputs)
    assert index in schema.inplace[0], f"{op.full_type} may not overwrite input {index}"
    outputs = schema.infer(op, specs)
    kernel = schema.kernels[engine]
    operands = [np.array(x) for x in inputs]
    scratch = [np.full(spec.shape, 1, spec.dtype) for spec in kernel.scratch(op, specs, outputs)]
    results = [operands[index], *(np.empty(spec.shape, spec.dtype) for spec in outputs[1:])]
    with np.errstate(all="ignore"):
        kernel.bind(Call(op, operands, results, scratch, specs, outputs, {}))()
    return operands[index]
