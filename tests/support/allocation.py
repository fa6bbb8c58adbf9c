"""Measures the memory that a kernel allocates while it runs."""

from __future__ import annotations

import tracemalloc
from typing import Any, Callable, Sequence

import numpy as np

from device_tests.suite.kernels import specs_of
from runtime_arm.netdef import OperatorDef
from runtime_arm.planning.arena import allocate
from runtime_arm.registry.kernel import Call
from runtime_arm.registry.schema import lookup

NUMPY_NBYTES = 132 << 10  # what NumPy's iterators allocate, whatever the size of the arrays


def allocated_nbytes(op: OperatorDef, inputs: Sequence[Any], engine: str, constants: Sequence[int] = ()) -> int:
    """The peak, in bytes, of what the bound kernel allocates in its second run."""
    schema, specs = lookup(op), specs_of(inputs, constants)
    outputs = schema.infer(op, specs)
    kernel = schema.kernels[engine]
    assert kernel.supports(op, specs, outputs) is None
    wanted = kernel.scratch(op, specs, outputs)
    scratch = [allocate(spec.nbytes, "scratch").view(spec.dtype).reshape(spec.shape) for spec in wanted]
    results = [np.zeros(spec.shape, spec.dtype) for spec in outputs]
    return nbytes_of_second_run(kernel.bind(Call(op, inputs, results, scratch, specs, outputs, {})))


def nbytes_of_second_run(run: Callable[[], Any]) -> int:
    """The peak, in bytes, of what a call allocates that was made once before."""
    run()
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
