"""The first stage of compiling a net: values and steps, of shapes that are known.

Blobs are followed as ``Value``s, one for each write of a name, so that nets that reuse names (in-place operators,
nets that went through a memory optimiser) need no special care.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

from runtime_arm.errors import NetError, OperatorError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.registry.kernel import Call, Kernel, Run
from runtime_arm.registry.layouts import Layout
from runtime_arm.registry.schema import DataDependent, Operator, lookup
from runtime_arm.registry.shape_inference import blamed_on, infer_operator
from runtime_arm.registry.specs import QuantizedTensor, TensorSpec

FEED_STEP = -1  # inputs are written before step 0


class Value:
    """One write of one blob, and the steps from the first to the last that need it.

    Constants and values of an earlier segment have their memory from the start and are ``foreign``: this segment
    neither places nor overwrites them. The others get theirs by ``bind``. ``layout``: how it lies in memory, None for
    its own shape.
    """

    __slots__ = ("_array", "first", "foreign", "last", "layout", "name", "spec")

    def __init__(self, name: str, spec: TensorSpec, first: int, array: Optional[Array] = None):
        self.name = name
        self.spec = spec
        self.first = first
        self.last = first
        self.foreign = array is not None
        self.layout: Layout = None
        self._array = array

    @property
    def storage(self) -> TensorSpec:
        """Shape and type of its memory."""
        return self.spec if self.layout is None else self.layout.storage(self.spec.dtype)

    @property
    def array(self) -> Array:
        """Its memory; only once it is bound."""
        assert self._array is not None, f"{self.name} is not bound"
        return self._array

    @property
    def operand(self) -> Any:
        """Its memory as reference kernels take it: a QuantizedTensor where the blob is quantised."""
        return self.array if self.spec.quantization is None else QuantizedTensor(self.array, *self.spec.quantization)

    def bind(self, array: Array) -> None:
        """Live in this memory, of the ``storage``'s shape and type; it may be a channel slice of wider tiles."""
        self._array = array

    def content(self) -> Any:
        """A copy for the caller: an array, or a QuantizedTensor where the blob is quantised."""
        copy = self.array.copy()
        return copy if self.spec.quantization is None else QuantizedTensor(copy, *self.spec.quantization)


Environment = Dict[str, Value]


class Step:
    """One operator that runs: its kernel (None: the reference kernel), its values, and why engines refused it.

    ``workers`` split it, one at first; each has scratch buffers of its own, in turn in ``scratch``. ``within``: of the
    steps that were merged into this one the one whose operator tells by which engine it runs.
    """

    def __init__(
        self,
        index: int,
        op: OperatorDef,
        schema: Operator,
        inputs: List[Optional[Value]],
        outputs: List[Value],
    ):
        self.index = index
        self.op = op
        self.within: Optional[Step] = None
        self.schema = schema
        self.inputs = inputs
        self.outputs = outputs
        self.kernel: Optional[Kernel]
        with blamed_on(op, self.in_specs):
            self.kernel, self.refusals = schema.choose(op, self.in_specs, self.out_specs)
        self.tiled = False
        self.buffers: Sequence[Array] = ()  # the memory of the scratch, once the step is bound
        self.split(1)

    def split(self, workers: int) -> None:
        """Split the step among so many workers; to be called before the step is bound."""
        self.workers = workers
        with blamed_on(self.op, self.in_specs):
            scratch = self.kernel.scratch(self.op, self.in_specs, self.out_specs) if self.kernel else ()
        self.scratch: List[TensorSpec] = [*scratch] * self.workers

    def run_tiled(self, kernel: Kernel) -> None:
        """Run by this kernel, which reads and writes the layouts of its values."""
        self.kernel, self.tiled = kernel, True
        self.refusals.pop(kernel.engine, None)  # spoke of the plain kernel
        self.split(self.workers)

    @property
    def origin(self) -> Step:
        """The step whose operator tells by which engine this one runs: itself, unless steps were merged."""
        return self if self.within is None else self.within

    @property
    def engine(self) -> str:
        return self.kernel.engine if self.kernel else "REFERENCE"

    @property
    def in_specs(self) -> List[Optional[TensorSpec]]:
        return [None if value is None else value.spec for value in self.inputs]

    @property
    def out_specs(self) -> List[TensorSpec]:
        return [value.spec for value in self.outputs]

    def bind(self, buffers: Sequence[Array], packed: Dict[str, Any]) -> List[Run]:
        """The functions that run the step with this scratch memory, one a worker."""
        self.buffers = buffers
        inputs = [None if value is None else value.array for value in self.inputs]
        outputs = [value.array for value in self.outputs]
        if self.kernel is None:
            return [_bind_reference(self.op, self.schema, self.in_specs, inputs, outputs)]
        specs, count = (self.in_specs, self.out_specs), len(buffers) // self.workers
        own = [buffers[worker * count : (worker + 1) * count] for worker in range(self.workers)]
        with blamed_on(self.op, self.in_specs):
            return [
                self.kernel.bind(Call(self.op, inputs, outputs, scratch, *specs, packed, worker, self.workers))
                for worker, scratch in enumerate(own)
            ]


def _bind_reference(
    op: OperatorDef,
    schema: Operator,
    specs: Sequence[Optional[TensorSpec]],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
) -> Run:
    operands = [
        QuantizedTensor(x, *spec.quantization) if spec is not None and spec.quantization else x
        for x, spec in zip(inputs, specs)
    ]

    def run() -> None:
        with blamed_on(op, specs):
            for y, result in zip(outputs, schema.evaluate(op, operands)):
                if result.shape != y.shape or result.dtype != y.dtype:
                    raise OperatorError(
                        op, f"computed {result.dtype.name}{list(result.shape)}, inferred {y.dtype.name}{list(y.shape)}"
                    )
                y[...] = result

    return run


class Trace:
    """The first stage: values and steps of a straight run of operators, up to the border or the end."""

    def __init__(self, ops: Sequence[OperatorDef], start: int, env: Environment):
        self.env: Environment = dict(env)
        self.feeds = [value for value in env.values() if not value.foreign]
        self.steps: List[Step] = []
        self.border_at: Optional[int] = None
        for index in range(start, len(ops)):
            if not self._follow(index, ops[index]):
                self.border_at = index
                return

    def _follow(self, index: int, op: OperatorDef) -> bool:
        """Add the operator's step; False if it is a border."""
        values = [self._read(op, name) for name in op.input]
        specs = [None if value is None else value.spec for value in values]
        if self._follow_branch(index, op, specs):
            return True
        try:
            schema, results = infer_operator(op, specs)
        except DataDependent:
            return False
        if any(spec.dtype == object for spec in results if spec.value is None):
            return False
        self._write(index, op, schema, values, results)
        return True

    def _follow_branch(self, index: int, op: OperatorDef, specs: Sequence[Optional[TensorSpec]]) -> bool:
        """Add the steps of the sub-net that runs in place of the operator; False if that is not known, or has a
        border."""
        schema = lookup(op)
        with blamed_on(op, specs):
            schema.check_counts(op)
            branch = schema.branch(op, specs) if schema.branch is not None else None
        if branch is None:
            return False
        outside, count = self.env, len(self.steps)
        self.env = dict(outside)
        complete = all(self._follow(index, inner) for inner in branch.net.op)
        inside, self.env = self.env, outside
        if not complete:
            del self.steps[count:]
            return False
        self.env.update((name, inside[inner]) for name, inner in branch.outputs.items() if name)
        return True

    def _read(self, op: OperatorDef, name: str) -> Optional[Value]:
        if not name:
            return None
        value = self.env.get(name)
        if value is None:
            raise NetError(
                f"{op.signature()}: blob {name!r} has no value: it is neither fed, nor filled, nor computed before"
            )
        return value

    def _write(
        self, index: int, op: OperatorDef, schema: Operator, inputs: List[Optional[Value]], specs: Sequence[TensorSpec]
    ) -> None:
        at = len(self.steps)
        outputs = [Value(name, spec, at) for name, spec in zip(op.output, specs)]
        if not specs or any(spec.value is None for spec in specs):
            for value in inputs:
                if value is not None:
                    value.last = at
            self.steps.append(Step(index, op, schema, inputs, outputs))
        for value in outputs:
            if value.spec.value is not None:
                value = Value(value.name, value.spec, at, value.spec.value)
            if value.name:
                self.env[value.name] = value


def set_lifetimes(steps: Sequence[Step], feeds: Sequence[Value], survivors: Sequence[Value]) -> None:
    """Let every value live from the step that writes it to the last that reads it; survivors live to the end."""
    for value in feeds:
        value.first = value.last = FEED_STEP
    for at, step in enumerate(steps):
        for value in step.outputs:
            value.first = value.last = at
        for read in step.inputs:
            if read is not None:
                read.last = at
    for value in survivors:
        value.last = len(steps)
