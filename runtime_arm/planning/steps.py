"""The parts of a compiled net: values, and the steps that make them."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

from runtime_arm.errors import OperatorError, ResourceError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.records import NamedTuple
from runtime_arm.registry.kernel import REFERENCE, Call, Kernel, Run, no_scratch
from runtime_arm.registry.layouts import Layout
from runtime_arm.registry.schema import Operator
from runtime_arm.registry.shape_inference import blamed_on
from runtime_arm.registry.specs import QuantizedTensor, TensorSpec

FEED_STEP = -1  # inputs are written before step 0
LARGE = 1 << 21  # bytes of content computed when a net is planned


class Value:
    """One write of one blob, and its lifetime: the first and the last step that need it.

    Constants and values of an earlier segment have memory from the start and are ``foreign``: this segment neither
    places nor overwrites them. The others get their memory from ``bind``. ``layout``: the layout in memory, None for
    the blob's own shape. ragged: whether its content outside the images is arbitrary, since no step reads it. reach:
    the addresses of the start and end of its memory, once ``verify`` has asked for them.
    """

    __slots__ = ("_array", "first", "foreign", "last", "layout", "name", "ragged", "reach", "spec")

    def __init__(self, name: str, spec: TensorSpec, first: int, array: Optional[Array] = None):
        self.name = name
        self.spec = spec
        self.first = first
        self.last = first
        self.foreign = array is not None
        self.layout: Layout = None
        self.ragged = False
        self.reach: Optional[Tuple[int, int]] = None
        self._array = array

    @property
    def storage(self) -> TensorSpec:
        """The shape and the dtype of its memory."""
        return self.spec if self.layout is None else self.layout.storage(self.spec.dtype)

    @property
    def array(self) -> Array:
        """Its memory, once it is bound."""
        assert self._array is not None, f"{self.name} is not bound"
        return self._array

    @property
    def operand(self) -> Any:
        """Its memory in the form that reference kernels take: a QuantizedTensor if the blob is quantised."""
        return self.array if self.spec.quantization is None else QuantizedTensor(self.array, *self.spec.quantization)

    @property
    def known(self) -> TensorSpec:
        """Its spec with its content, once it has one."""
        return self.spec if self.spec.value is not None else self.spec.with_content(self.array)

    def bind(self, array: Array) -> None:
        """Use this memory, which has the shape and dtype of ``storage`` and may be a channel slice of wider tiles."""
        self._array, self.reach = array, None

    def content(self) -> Any:
        """A copy for the caller: an array, or a QuantizedTensor if the blob is quantised. ResourceError if there is no
        memory for it."""
        try:
            copy = self.array.copy()
        except MemoryError:
            what = f"a copy of blob {self.name!r} of shape {self.spec.shape}"
            raise ResourceError(f"{what} needs {self.spec.nbytes:,} bytes, which are not available") from None
        return copy if self.spec.quantization is None else QuantizedTensor(copy, *self.spec.quantization)


Environment = Dict[str, Value]


class Choice(NamedTuple):
    """How an operator runs: its kernel (None: the reference kernel), why engines refused it, and its scratch memory."""

    kernel: Optional[Kernel]
    refusals: Dict[str, str]
    scratch: Sequence[TensorSpec]


class Step:
    """One operator that runs: its kernel (None: the reference kernel), its values, and why engines refused it.

    ``workers`` split it, initially one. Each worker has its own scratch buffers; ``scratch`` lists those of all
    workers, one worker after the other. ``within``: if other steps were merged into this one, the one whose operator
    names the engine.
    """

    def __init__(
        self,
        index: int,
        op: OperatorDef,
        schema: Operator,
        inputs: List[Optional[Value]],
        outputs: List[Value],
        choice: Optional[Choice] = None,
    ):
        """choice: that of an earlier step for the same operator and specs, if it is known."""
        self.index = index
        self.op = op
        self.within: Optional[Step] = None
        self.schema = schema
        self.inputs = inputs
        self.outputs = outputs
        self.kernel: Optional[Kernel]
        self.tiled = False
        self.buffers: Sequence[Array] = ()  # the memory of the scratch, once the step is bound
        self.released: Sequence[Array] = ()  # constants that it does not read when it runs
        if choice is not None:
            self.kernel, self.refusals, self.workers = choice.kernel, dict(choice.refusals), 1
            self.scratch: List[TensorSpec] = [*choice.scratch]
            return
        in_specs = self.in_specs
        with blamed_on(op, in_specs):
            self.kernel, self.refusals = schema.choose(op, in_specs, self.out_specs)
        self.split(1)

    def choice(self) -> Choice:
        """How the step runs, to be reused for an equal one."""
        return Choice(self.kernel, dict(self.refusals), tuple(self.scratch))

    def split(self, workers: int) -> None:
        """Split the step among this many workers; to be called before the step is bound."""
        self.workers = workers
        self.scratch = []
        if self.kernel is not None and self.kernel.scratch is not no_scratch:
            in_specs = self.in_specs
            with blamed_on(self.op, in_specs):
                self.scratch = [*self.kernel.scratch(self.op, in_specs, self.out_specs)] * workers

    def run_tiled(self, kernel: Kernel) -> None:
        """Run by this kernel, which reads and writes values in their layouts."""
        self.kernel, self.tiled = kernel, True
        self.refusals.pop(kernel.engine, None)  # that was about the plain kernel
        self.split(self.workers)

    @property
    def origin(self) -> Step:
        """The step whose operator names the engine of this one: the step itself, unless steps were merged."""
        return self if self.within is None else self.within

    @property
    def engine(self) -> str:
        return self.kernel.engine if self.kernel else REFERENCE

    @property
    def in_specs(self) -> List[Optional[TensorSpec]]:
        return [None if value is None else value.spec for value in self.inputs]

    @property
    def out_specs(self) -> List[TensorSpec]:
        return [value.spec for value in self.outputs]

    def bind(self, buffers: Sequence[Array], packed: Dict[str, Any]) -> List[Run]:
        """The functions that run the step with this scratch memory, one for each worker."""
        self.buffers = buffers
        inputs = [None if value is None else value.array for value in self.inputs]
        outputs = [value.array for value in self.outputs]
        in_specs = self.in_specs
        if self.kernel is None:
            return [_bind_reference(self.op, self.schema, in_specs, inputs, outputs)]
        call = Call(self.op, inputs, outputs, buffers, in_specs, self.out_specs, packed)
        call.ragged = bool(self.outputs) and self.outputs[0].ragged
        with blamed_on(self.op, in_specs):
            parts = [self.kernel.bind(part) for part in call.for_each_worker(self.workers)]
        self.released = call.released
        return parts


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
