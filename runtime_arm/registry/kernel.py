"""Kernels: the fast ways to run an operator, their arguments, and the choice among them.

A kernel is declared by ``@schema.kernel("ENGINE", ...)``; see ``schema.py``.
"""

from __future__ import annotations

from copy import copy
from typing import Any, Callable, Dict, List, Mapping, Optional, Protocol, Sequence, Tuple, TypeVar

from runtime_arm.files import drop_pages
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.records import NamedTuple
from runtime_arm.registry.engine_preferences import DEFAULT, is_refused, open_variants, wanted_engines
from runtime_arm.registry.specs import TensorSpec

Specs = Sequence[Optional[TensorSpec]]
Run = Callable[[], Any]
Block = TypeVar("Block")

REFERENCE = "REFERENCE"


class Call:
    """One operator with its buffers, as a kernel is given it.

    ``inputs`` and ``outputs`` are arrays (None where left out) that stay in place for the life of the plan. They are
    C-contiguous, except for channel slices, which only a kernel gets that ``reads_slices`` or ``writes_slices``.
    ``scratch`` holds the buffers that the kernel's ``scratch`` function asked for; other operators use the same memory.
    ``in_specs`` and ``out_specs`` say what is constant (``spec.value``) and how blobs are quantised. A kernel that
    splits its work is bound once for each of the ``workers``, each time with its own scratch, and does what is
    ``mine``. ``crew_scratch`` holds the scratch of every worker, for kernels that run in ``Phases``. prescaled: whether
    the weights already contain the factor that the activation asks for (``conv/gates.py``). ragged: whether a kernel
    may leave output 0, in Tiles, as it is outside the images, because nothing reads that.
    """

    def __init__(
        self,
        op: OperatorDef,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        scratch: Sequence[Array],
        in_specs: Specs,
        out_specs: Sequence[TensorSpec],
        packed: Dict[str, Any],
    ):
        self.op = op
        self.inputs = inputs
        self.outputs = outputs
        self.scratch = scratch
        self.crew_scratch: Sequence[Sequence[Array]] = [scratch]
        self.in_specs = in_specs
        self.out_specs = out_specs
        self._packed = packed
        self.released: List[Array] = []
        self.worker = 0
        self.workers = 1
        self.prescaled = False
        self.ragged = False

    def for_each_worker(self, workers: int) -> List[Call]:
        """The same call for each of this many workers; ``scratch`` holds their buffers, one worker after the other."""
        if workers == 1:
            return [self]
        count = len(self.scratch) // workers
        crew_scratch = [self.scratch[worker * count : (worker + 1) * count] for worker in range(workers)]
        calls = [copy(self) for _ in range(workers)]
        for worker, call in enumerate(calls):
            call.scratch, call.crew_scratch = crew_scratch[worker], crew_scratch
            call.worker, call.workers = worker, workers
        return calls

    def of(self, op: OperatorDef) -> Call:
        """The same call for another operator."""
        twin = copy(self)
        twin.op = op
        return twin

    def packed(self, key: str, make: Callable[[], Any]) -> Any:
        """The result of ``make``, which derives something from constant inputs (packed weights).

        It is made once and kept when the net is planned again.
        """
        if key not in self._packed:
            self._packed[key] = make()
        return self._packed[key]

    def release(self, constant: Array) -> None:
        """Says that the kernel no longer needs a constant input and does not read it when it runs: its memory may be
        given back. ``packed`` may read it again when the net is planned for other shapes."""
        if not any(constant is one for one in self.released):
            drop_pages(constant)
            self.released.append(constant)

    def mine(self, blocks: Sequence[Block]) -> Sequence[Block]:
        """This worker's part of ``blocks``: consecutive ones, the same number for each worker, give or take one."""
        return blocks[self.slice_of(len(blocks))]

    def slice_of(self, count: int) -> slice:
        """This worker's part of ``count`` indices."""
        return slice(count * self.worker // self.workers, count * (self.worker + 1) // self.workers)

    def part(self, shape: Sequence[int]) -> Tuple[slice, ...]:
        """The index of this worker's part of an array that is no scalar: a slice of the first dimension that divides
        well."""
        if self.workers == 1:
            return (slice(None),) * len(shape)
        waste = [-(-size // self.workers) / size if size else 1.0 for size in shape]
        axis = min(range(len(shape)), key=lambda axis: round(waste[axis], 1))
        return (slice(None),) * axis + (self.slice_of(shape[axis]),)


class Phases:
    """A worker's part of a step in which workers read each other's results.

    All workers have the same number of phases, and none begins a phase before all have ended the previous one. Calling
    it runs the phases one after the other, which is right if there is only one worker.
    """

    def __init__(self, runs: Sequence[Run]):
        self.runs = tuple(runs)

    def __call__(self) -> None:
        for run in self.runs:
            run()


def phases_of(part: Run) -> Sequence[Run]:
    """The phases of a worker's part of a step; most have one."""
    return part.runs if isinstance(part, Phases) else (part,)


def no_hints(op: OperatorDef) -> Sequence[str]:
    return ()


class Supports(Protocol):
    """A pure function: the reason why the engine cannot run this operator, or None if it can."""

    def __call__(self, op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]: ...


def always(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    return None


def no_scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    return ()


class Work(NamedTuple):
    """An estimate of one run of a kernel; the unit is the time of one multiply-add in a large matrix product.

    multiplies: the time of its products. moves: the time of everything else, copies and transforms. error: the rounding
    error of its results, as a multiple of that of a direct sum.
    """

    multiplies: float
    moves: float = 0.0
    error: float = 1.0

    @property
    def time(self) -> float:
        return self.multiplies + self.moves


WorkFunction = Callable[[OperatorDef, Specs, Sequence[TensorSpec]], Work]


class Kernel(NamedTuple):
    """A fast kernel. ``bind(call)`` returns the function that runs it, which must write every element of its outputs.

    work: estimates one run. variants: the ways to run it that ``op.engine`` may name (see ``engine_preferences``);
    ``supports``, ``scratch``, ``work`` and ``bind`` find those that are allowed with ``open_variants``.
    splits_work: it can be bound once for each worker; each binding writes its own part of the outputs and nothing else,
    and together they write everything. reads_slices: its inputs in Tiles may be channel slices of wider tiles, arrays
    (tile, tile, positions, channels) whose positions lie further apart than their channels need. writes_slices: the
    same for its outputs. skips_outside: its results do not depend on the content outside the images of its inputs.
    hints: the hints (see ``engine_preferences``) that change how it runs this operator.
    """

    engine: str
    bind: Callable[[Call], Run]
    supports: Supports = always
    scratch: Callable[[OperatorDef, Specs, Sequence[TensorSpec]], Sequence[TensorSpec]] = no_scratch
    work: Optional[WorkFunction] = None
    variants: Tuple[str, ...] = ()
    splits_work: bool = False
    reads_slices: bool = False
    writes_slices: bool = False
    skips_outside: bool = False
    hints: Callable[[OperatorDef], Sequence[str]] = no_hints

    def refusal(self, op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
        """The reason why this kernel must not run the operator, or None if it may."""
        if is_refused(op, self.engine):
            return "the operator rules it out"
        if self.variants and not open_variants(op, self.engine, self.variants):
            return f"the operator leaves none of its variants {', '.join(self.variants)} open"
        return self.supports(op, inputs, outputs)


def choose(
    kernels: Mapping[str, Kernel], op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]
) -> Tuple[Optional[Kernel], Dict[str, str]]:
    """The kernel to run, None for the reference kernel, and the reason why each other engine was not chosen.

    The operator's own preferences in ``op.engine`` come first: an engine that is unknown or refuses is skipped, as in
    Caffe2. Then follow the kernels in the order of their declaration: the first that supports the operator is chosen,
    or, if that one estimates its work, the one with the least work of those that do.
    """
    refusals: Dict[str, str] = {}
    for engine in wanted_engines(op):
        if engine == REFERENCE:
            return None, refusals
        kernel = kernels.get(engine)
        if kernel is None:
            if engine != DEFAULT:
                refusals[engine] = "no such engine for this operator"
            continue
        reason = kernel.refusal(op, inputs, outputs)
        if reason is None:
            return kernel, refusals
        refusals[engine] = reason
    return _cheapest(kernels, op, inputs, outputs, refusals), refusals


def _cheapest(
    kernels: Mapping[str, Kernel],
    op: OperatorDef,
    inputs: Specs,
    outputs: Sequence[TensorSpec],
    refusals: Dict[str, str],
) -> Optional[Kernel]:
    """The preferred kernel if the operator asks for none; adds the reasons against the others to ``refusals``."""
    times: Dict[str, float] = {}
    for engine, kernel in kernels.items():
        if engine in refusals or (times and kernel.work is None):
            continue
        reason = kernel.refusal(op, inputs, outputs)
        if reason is not None:
            refusals[engine] = reason
        elif kernel.work is None:
            return kernel
        else:
            times[engine] = kernel.work(op, inputs, outputs).time
    if not times:
        return None
    best = min(times, key=lambda engine: times[engine])
    for engine in times.keys() - {best}:
        refusals[engine] = f"it takes the time of {times[engine]:.3g} multiplies, {best} that of {times[best]:.3g}"
    return kernels[best]
