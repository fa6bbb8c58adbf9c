"""Infers shapes, and the values that shapes depend on, with each operator's shape function.

Operators whose inputs are all known (weights, shapes of other blobs, arithmetic on them) are evaluated at once, so
shape arithmetic costs nothing when the net runs.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArmnetError, OperatorError, ShapeError
from runtime_arm.files import own_pages
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.registry.kernel import Call
from runtime_arm.registry.schema import DataDependent, Operator, describe, lookup
from runtime_arm.registry.specs import QuantizedTensor, TensorSpec

EACH_RUN = "each_run"  # an operator with it unpacks a weight while the net runs, not when it is planned
_LARGEST_EVALUATED = 1 << 26  # bytes that are evaluated without comparing them with the inputs


_UNSUITABLE = (TypeError, ValueError, LookupError, ArithmeticError, MemoryError, AttributeError)


class blamed_on:  # noqa: N801 - used after ``with``
    """Turns the exceptions that NumPy and Python raise for unsuitable operands into an OperatorError that names
    ``op``."""

    __slots__ = ("_inputs", "_op")

    def __init__(self, op: OperatorDef, inputs: Sequence[Optional[TensorSpec]]):
        self._op, self._inputs = op, inputs

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, where: Any) -> None:
        if isinstance(error, _UNSUITABLE) and not isinstance(error, (ArmnetError, DataDependent)):
            raise OperatorError(self._op, f"{kind.__name__}: {error}; inputs {describe(self._inputs)}") from error


def infer_operator(
    op: OperatorDef, inputs: Sequence[Optional[TensorSpec]], largest: Optional[int] = None
) -> Tuple[Operator, List[TensorSpec]]:
    """The schema and the specs of the outputs, with their values where all inputs are known and the operator is pure.

    An operator that unpacks a weight is also evaluated, unless the argument EACH_RUN asks for it in each run.

    Outputs of more than ``largest`` bytes (64 MB) and with more elements than the inputs and arguments are not
    evaluated: a few numbers in an untrusted file could otherwise claim any amount of memory.

    Raises DataDependent if the shapes depend on content that is not known yet.
    """
    schema = lookup(op)
    with blamed_on(op, inputs):
        if schema.control:
            schema.check_counts(op)
            raise DataDependent(op.type)
        specs = schema.infer(op, inputs)
        known = all(spec is None or spec.value is not None for spec in inputs)
        if (
            known
            and any(spec.value is None for spec in specs)
            and schema.pure
            and not (schema.unpacks and op.get_bool(EACH_RUN))
            and _bounded(schema, op, inputs, specs, _LARGEST_EVALUATED if largest is None else largest)
        ):
            specs = [
                spec if spec.value is not None else with_value(spec, value)
                for spec, value in zip(specs, _evaluated(schema, op, inputs, specs))
            ]
    return schema, specs


def _bounded(
    schema: Operator,
    op: OperatorDef,
    inputs: Sequence[Optional[TensorSpec]],
    outputs: Sequence[TensorSpec],
    largest: int,
) -> bool:
    """Whether the outputs are small enough to be evaluated before the net runs. A packed weight may hold two numbers in
    each byte."""
    if sum(spec.nbytes for spec in outputs) <= largest:
        return True
    arrays = (array for arg in op.arg for array in (arg.t, arg.floats, arg.ints) if array is not None)
    texts = (text for arg in op.arg for text in (arg.s, *arg.strings) if text is not None)
    distinct = dict(zip(op.input, inputs)).values()
    given = [*(spec.size for spec in distinct if spec is not None), *(array.size for array in arrays), *map(len, texts)]
    return max(spec.size for spec in outputs) <= sum(given) * (2 if schema.unpacks else 1)


def with_value(spec: TensorSpec, value: np.ndarray) -> TensorSpec:
    """The spec with its content, which is contiguous and aligned so that kernels can use it as it is."""
    array = np.asarray(value)
    if not (array.flags.c_contiguous and array.flags.aligned):
        array = array.copy(order="C")
    return TensorSpec(spec.shape, spec.dtype, array, spec.quantization)


def _evaluated(
    schema: Operator, op: OperatorDef, inputs: Sequence[Optional[TensorSpec]], specs: Sequence[TensorSpec]
) -> List[np.ndarray]:
    with np.errstate(all="ignore"):
        values = _unpacked(schema, op, inputs, specs) if schema.unpacks else None
        if values is None:
            values = schema.evaluate(op, [None if spec is None else content(spec) for spec in inputs])
    for name, spec, value in zip(op.output, specs, values):
        if value.shape != spec.shape or value.dtype != spec.dtype:
            raise ShapeError(
                op, f"blob {name!r} was inferred as {spec}, computed as {value.dtype.name}{list(value.shape)}"
            )
    return values


def _unpacked(
    schema: Operator, op: OperatorDef, inputs: Sequence[Optional[TensorSpec]], specs: Sequence[TensorSpec]
) -> Optional[List[np.ndarray]]:
    """The result of a fast kernel on constants; it takes only the memory of the result and its scratch.

    None if no kernel is fast.
    """
    kernel = schema.choose(op, inputs, specs)[0]
    if kernel is None or any(spec is not None and spec.quantization is not None for spec in inputs):
        return None
    values = [own_pages(spec.shape, spec.dtype) for spec in specs]
    scratch = [np.empty(spec.shape, spec.dtype) for spec in kernel.scratch(op, inputs, specs)]
    given = [None if spec is None else spec.value for spec in inputs]
    kernel.bind(Call(op, given, values, scratch, inputs, specs, {}))()
    return values


def content(spec: TensorSpec) -> object:
    """The known value in the form that reference kernels take: a QuantizedTensor if the blob is quantised."""
    if spec.quantization is None or spec.value is None:
        return spec.value
    return QuantizedTensor(spec.value, *spec.quantization)


def infer_net(net: NetDef, known: Mapping[str, TensorSpec]) -> Dict[str, Optional[TensorSpec]]:
    """The spec of every blob of the net by name, None if it depends on data; the last one of a name written twice.

    ``known`` holds the specs of inputs and parameters. Raises OperatorError if an operator refuses its inputs.
    """
    env: Dict[str, Optional[TensorSpec]] = dict(known)
    for op in net.op:
        inputs = [env.get(name) if name else None for name in op.input]
        if any(name and spec is None for name, spec in zip(op.input, inputs)):
            env.update(dict.fromkeys(op.output))
            continue
        try:
            env.update(zip(op.output, infer_operator(op, inputs)[1]))
        except DataDependent:
            env.update(dict.fromkeys(op.output))
    return env
