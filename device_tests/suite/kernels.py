"""Runs one operator by one engine, in buffers that reveal mistakes.

Outputs start as NaN and scratch memory as 0xA5; inputs that are not constants get their content after the kernel has
been bound.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from device_tests.suite.tolerance import assert_close
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.planning.arena import allocate
from runtime_arm.registry.kernel import REFERENCE, Call, Run, phases_of
from runtime_arm.registry.schema import lookup
from runtime_arm.registry.specs import Quantization, QuantizedTensor, TensorSpec


def spec_of(value: Any, constant: bool) -> Optional[TensorSpec]:
    """The spec of an operand, with its content if it is a constant."""
    if value is None:
        return None
    if isinstance(value, QuantizedTensor):
        return TensorSpec(
            value.values.shape,
            value.values.dtype,
            value.values if constant else None,
            Quantization(value.scale, value.zero_point),
        )
    return TensorSpec(value.shape, value.dtype, value if constant else None)


def specs_of(inputs: Sequence[Any], constants: Sequence[int] = ()) -> List[Optional[TensorSpec]]:
    """The specs of operands; those at the indices ``constants`` are constants."""
    return [spec_of(value, index in constants) for index, value in enumerate(inputs)]


def supporting_engines(op: OperatorDef, inputs: Sequence[Any], constants: Sequence[int] = ()) -> List[str]:
    """The engines that accept the operator with these operands."""
    schema, specs = lookup(op), specs_of(inputs, constants)
    outputs = schema.infer(op, specs)
    return [engine for engine, kernel in schema.kernels.items() if kernel.supports(op, specs, outputs) is None]


def run_kernel(
    op: OperatorDef, inputs: Sequence[Any], engine: str = REFERENCE, constants: Sequence[int] = (), workers: int = 1
) -> List[Any]:
    """The outputs of the operator by an engine, checked against shape inference. NaN causes no warnings.

    Several ``workers`` do their parts one after another, the last worker first; no two may write the same element.
    """
    with np.errstate(all="ignore"):
        return _run_kernel(op, inputs, engine, constants, workers)


def _run_kernel(
    op: OperatorDef, inputs: Sequence[Any], engine: str, constants: Sequence[int], workers: int
) -> List[Any]:
    schema, specs = lookup(op), specs_of(inputs, constants)
    outputs = schema.infer(op, specs)
    if engine == REFERENCE:
        results = schema.evaluate(op, inputs)
    else:
        kernel = schema.kernels[engine]
        results = [_poisoned(spec) if spec.value is None else spec.value.copy() for spec in outputs]
        wanted = list(kernel.scratch(op, specs, outputs))
        scratch = [allocate(spec.nbytes, "scratch") for spec in wanted * workers]
        for block in scratch:
            block[:] = 0xA5
        views = [block.view(spec.dtype).reshape(spec.shape) for block, spec in zip(scratch, wanted * workers)]
        given = [value.values if isinstance(value, QuantizedTensor) else value for value in inputs]
        arrays = [
            value if value is None or spec is None or spec.value is not None else _poisoned(spec)
            for value, spec in zip(given, specs)
        ]
        packed: Dict[str, Any] = {}
        call = Call(op, arrays, results, views, specs, outputs, packed)
        parts = [kernel.bind(part) for part in call.for_each_worker(workers)]
        for array, value in zip(arrays, given):
            if array is not value:
                array[...] = value
        if workers > 1:
            computed = [result for result, spec in zip(results, outputs) if spec.value is None]
            check_parts(parts, computed, f"{op.signature()} by {engine}")
        run_parts(parts)
        first = [result.copy() for result in results]
        for block in scratch:
            block[:] = 0x5A
        run_parts(parts)
        for before, after in zip(first, results):
            np.testing.assert_array_equal(
                before, after, err_msg=f"{op.signature()} by {engine}: the second run differs"
            )
    for name, spec, result in zip(op.output, outputs, results):
        assert result.shape == spec.shape, f"{op.signature()}: {name} inferred {spec}, computed {result.shape}"
        assert result.dtype == spec.dtype, f"{op.signature()}: {name} inferred {spec}, computed {result.dtype}"
    return results


def run_parts(parts: Sequence[Run]) -> None:
    """Run the workers' parts of a step one after another, phase by phase, the last worker first."""
    for phases in zip(*map(phases_of, reversed(parts))):
        for phase in phases:
            phase()


def check_parts(parts: Sequence[Run], results: Sequence[Array], what: str) -> None:
    """AssertionError unless every element of the results is written by exactly one worker."""
    bits = [result.view(f"u{result.dtype.itemsize}") for result in results]
    writers = [np.zeros(result.shape, np.int64) for result in results]
    for part in parts:
        left = []
        for is_set in (False, True):
            for view in bits:
                view.fill(np.iinfo(view.dtype).max if is_set else 0)
            part()
            left.append([view == (np.iinfo(view.dtype).max if is_set else 0) for view in bits])
        for count, low, high in zip(writers, *left):
            count += ~(low & high)
    for name, count in enumerate(writers):
        assert (count == 1).all(), f"{what}: output {name} is written by {np.unique(count)} workers"


def _poisoned(spec: TensorSpec) -> Array:
    fill: Any = np.nan if spec.dtype.kind == "f" else 0xA5 if spec.dtype.kind in "iu" and spec.dtype.itemsize > 1 else 1
    return np.full(spec.shape, fill, spec.dtype)


def assert_engines_match_reference(
    op: OperatorDef,
    inputs: Sequence[Any],
    *,
    terms: int = 1,
    magnitude: Optional[Any] = None,
    amplification: float = 1.0,
    constants: Sequence[int] = (),
) -> List[str]:
    """AssertionError unless all engines that support the operator agree with the reference kernel; returns them.

    Engines that can split work are also tried with two and with three workers.
    """
    expected = run_kernel(op, inputs, REFERENCE, constants)
    engines = supporting_engines(op, inputs, constants)
    for engine in engines:
        grown = amplification * amplification_of(op, inputs, engine, constants)
        for workers in (1, 2, 3) if lookup(op).kernels[engine].splits_work else (1,):
            for index, (actual, wanted) in enumerate(zip(run_kernel(op, inputs, engine, constants, workers), expected)):
                assert_close(
                    actual,
                    wanted,
                    terms=terms,
                    magnitude=magnitude if index == 0 else None,
                    amplification=grown,
                    what=f"{op.signature()} by {engine} of {workers}, output {index}",
                )
    return engines


def amplification_of(op: OperatorDef, inputs: Sequence[Any], engine: str, constants: Sequence[int] = ()) -> float:
    """The factor by which the engine amplifies rounding errors, by its own declaration; 1 without one."""
    schema, specs = lookup(op), specs_of(inputs, constants)
    work = schema.kernels[engine].work if engine != REFERENCE else None
    return 1.0 if work is None else work(op, specs, schema.infer(op, specs)).error
