"""An island: neighbouring operators that run on the device, with one copy in and one copy out for each blob.

An island is two steps of a plan. The first copies its inputs to the device and puts its kernels into the queue; the
second waits and copies the results back. Steps that need neither run in between. If the device fails, the second step
computes the island on the processor instead, and the device is not used again.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.errors import DeviceError
from runtime_arm.gpu.builder import BLOCKS, PLAIN, Builder, Weights
from runtime_arm.gpu.device import Buffer, Device, Launch
from runtime_arm.gpu.lowering.registry import lowering_of
from runtime_arm.gpu.programs import Programs
from runtime_arm.gpu.synced_memory import SyncedMemory
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.planning.plan import PackedWeights, Segment
from runtime_arm.planning.steps import FEED_STEP, Environment, Step, Value
from runtime_arm.records import NamedTuple
from runtime_arm.registry.kernel import Call, Kernel, Run
from runtime_arm.registry.schema import Operator
from runtime_arm.registry.specs import TensorSpec

TOLERANCE, TOLERANCE_OF_HALVES = 1e-3, 0.1  # of the largest magnitude of an output
LEAST_MAGNITUDE = 0.01  # errors of smaller outputs count as if they were this large: Sigmoid is only so precise near 0


class Session:
    """The use of a device by one net: its programs and weights, and whether it can still be trusted."""

    def __init__(self, device: Device, programs: Programs, half: bool = False):
        self.device = device
        self.programs = programs
        self.half = half
        self.weights = Weights()
        self.failure: Optional[str] = None
        self.notes: List[str] = []

    def fail(self, error: DeviceError) -> None:
        """Stop using the device, and say so once."""
        if self.failure is None:
            self.failure = f"{self.device.spec} failed: {error}; the processor finished the run and will do the next"
            self.note(self.failure)

    def note(self, line: str) -> None:
        """Tell the user once."""
        if line not in self.notes:
            self.notes.append(line)


class Traffic(NamedTuple):
    """The traffic between processor and device: copies, bytes up and bytes down."""

    copies: int
    up: int
    down: int


class Island:
    """The steps that run on the device together, ready to run any number of times once they are bound.

    inputs: the values that come from outside. outputs: those that are read outside.
    """

    def __init__(self, session: Session, steps: Sequence[Step], inputs: Sequence[Value], outputs: Sequence[Value]):
        self.session = session
        self.steps = list(steps)
        self.inputs = list(inputs)
        self.outputs = list(outputs)
        self._launches: List[Launch] = []
        self._labels: List[Optional[Step]] = []
        self._uploads: List[SyncedMemory] = []
        self._downloads: List[Tuple[SyncedMemory, Buffer]] = []
        self._host: Optional[_Host] = None
        self._running = False

    @property
    def traffic(self) -> Traffic:
        """The traffic of all runs so far."""
        up = sum(memory.copies * memory.nbytes for memory in self._uploads)
        down = sum(memory.copies * memory.nbytes for memory, _ in self._downloads)
        copies = sum(memory.copies for memory in [*self._uploads, *(memory for memory, _ in self._downloads)])
        return Traffic(copies, up, down)

    def as_steps(self) -> Tuple[Step, Step]:
        """The step that starts the island and the step that finishes it."""
        name = f"{self.session.device.spec} island of {len(self.steps)} operators"
        token = Value(f"{self.steps[0].op.output[0]} on {self.session.device.spec}", TensorSpec((1,), np.uint8), 0)
        start = _step(self.steps[0].index, "DeviceStart", name, self.inputs, [token], self._bind_start, self)
        finish = _step(
            self.steps[-1].index, "DeviceFinish", name, [token, *self.inputs], self.outputs, self._bind_finish, self
        )
        return start, finish

    def build(self) -> None:
        """Compile and prepare everything, unless that has been done."""
        if self._launches:
            return
        session = self.session
        builder = Builder(session.device, session.programs, session.weights, session.half)
        for value in self.inputs:
            self._uploads.append(_arrive(builder, value))
        last = {value: at for at, step in enumerate(self.steps) for value in step.inputs if value is not None}
        alive = set(self.outputs)
        for at, step in enumerate(self.steps):
            builder.label = step
            lowering = lowering_of(step.op)
            assert lowering is not None
            lowering.lower(builder, step)
            known = [value for value in [*step.inputs, *step.outputs] if value is not None and value.spec.value is None]
            gone = [value for value in dict.fromkeys(known) if last.get(value, -1) <= at and value not in alive]
            for value in gone:
                builder.forget(value, [other for other in builder.held() if other is not value])
        builder.label = None
        self._downloads = [_leave(builder, value) for value in self.outputs]
        self._launches, self._labels = builder.launches, builder.labels

    def verify(self) -> None:
        """DeviceError, naming the driver, unless the device computes the same as the processor for random inputs."""
        random = np.random.default_rng(0)
        feeds = [random.standard_normal(value.spec.shape).astype(np.float32) for value in self.inputs]
        wanted = self.host.run(feeds)
        results = [np.full(value.spec.shape, np.nan, np.float32) for value in self.outputs]
        self.run(feeds, results)
        tolerance = TOLERANCE_OF_HALVES if self.session.half else TOLERANCE
        for value, result, expected in zip(self.outputs, results, wanted):
            error = _distance(result, expected)
            if not error <= tolerance:
                device = self.session.device
                raise DeviceError(
                    f"{device.spec} ({device.name}, {device.driver}) computes {value.name!r} wrongly: it is off by "
                    f"{error:.2g} of the largest magnitude; the device is not used"
                )

    def run(self, inputs: Sequence[Array], results: Sequence[Array]) -> None:
        """One run of an island that is built. The arrays are C-contiguous."""
        self._start(inputs, results)
        self._finish()

    @property
    def host(self) -> _Host:
        """The island as the processor computes it."""
        if self._host is None:
            self._host = _Host(self.steps, self.inputs, self.outputs)
        return self._host

    def seconds(self) -> List[Tuple[Optional[Step], str, float]]:
        """The time of every kernel by the device's clock, with the operator that it belongs to; None for crossings."""
        times = self.session.device.seconds(self._launches)
        return [(step, launch.name, time) for step, launch, time in zip(self._labels, self._launches, times)]

    def _bind_start(self, call: Call) -> Run:
        if self.session.failure is None:
            self.build()
            self.verify()
        inputs = list(call.inputs)

        def run() -> None:
            self._running = False
            if self.session.failure is None:
                try:
                    self._start(inputs, None)
                except DeviceError as error:
                    self.session.fail(error)

        return run

    def _bind_finish(self, call: Call) -> Run:
        inputs, outputs = list(call.inputs[1:]), list(call.outputs)
        bound = False

        def run() -> None:
            nonlocal bound
            if self._running:
                try:
                    if not bound:
                        self._results(outputs)
                        bound = True
                    self._finish()
                    return
                except DeviceError as error:
                    self.session.fail(error)
            for output, result in zip(outputs, self.host.run(inputs)):
                np.copyto(output, result)

        return run

    def _results(self, arrays: Sequence[Array]) -> None:
        """Let the results arrive in these arrays."""
        for (memory, buffer), array in zip(self._downloads, arrays):
            memory.set_cpu_data(array)
            memory.set_gpu_data(buffer)

    def _start(self, inputs: Sequence[Array], results: Optional[Sequence[Array]]) -> None:
        for memory, array in zip(self._uploads, inputs):
            memory.set_cpu_data(array)
            memory.gpu_data()
        for launch in self._launches:
            launch.enqueue()
        if results is not None:
            self._results(results)
        for memory, buffer in self._downloads:
            memory.set_gpu_data(buffer)
        self.session.device.flush()
        self._running = True

    def _finish(self) -> None:
        self._running = False
        for memory, _ in self._downloads:
            memory.cpu_data()


def _step(
    index: int,
    type: str,
    engine: str,
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    bind: Callable[[Call], Run],
    island: Island,
) -> Step:
    def shape(op: OperatorDef, *inputs: TensorSpec) -> List[TensorSpec]:
        return [value.spec for value in outputs]

    schema = Operator(
        type=type,
        domain="armnet",
        inputs=(0, None),
        outputs=(0, None),
        inplace={},
        dtypes=(),
        view=False,
        pure=True,
        control=False,
        shape=shape,
        joins=None,
        splits=None,
        kind=None,
        formula=None,
        fused=None,
        fusion=None,
        multiply_adds=None,
        unpacks=False,
    )
    schema.kernels[engine] = Kernel(engine, bind)
    op = OperatorDef(
        type=type,
        domain="armnet",
        input=tuple(value.name for value in inputs),
        output=tuple(value.name for value in outputs),
    )
    step = IslandStep(index, op, schema, list(inputs), list(outputs))
    step.island = island
    return step


class IslandStep(Step):
    """A step that starts or finishes an island."""

    island: Island


def _arrive(builder: Builder, value: Value) -> SyncedMemory:
    """The memory in which an input crosses to the device, and the launches that make a blob of it."""
    memory = SyncedMemory(value.spec.nbytes, builder.device)
    staging = builder.device.allocate(value.spec.nbytes)
    memory.set_gpu_data(staging)
    if value.spec.ndim in (3, 4):
        builder.convert(staging, builder.output(value, BLOCKS), value.spec, "pack")
    elif builder.half:
        target = builder.output(value, PLAIN)
        builder.launch("move", "narrow", {}, (value.spec.size,), (64,), staging, target, value.spec.size)
    else:
        builder.hold(value, PLAIN, staging)
        builder.keep(staging)
    return memory


def _leave(builder: Builder, value: Value) -> Tuple[SyncedMemory, Buffer]:
    """The memory in which an output crosses back, and the launches that fill it."""
    memory = SyncedMemory(value.spec.nbytes, builder.device)
    staging = builder.device.allocate(value.spec.nbytes)
    if builder.has(value, PLAIN):
        read = builder.read(value, PLAIN)
        if not builder.half:
            staging = read
            if staging.nbytes != value.spec.nbytes:
                staging = builder.device.allocate(value.spec.nbytes)
                builder.launch("move", "widen", {}, (value.spec.size,), (64,), read, staging, value.spec.size)
        else:
            builder.launch("move", "widen", {}, (value.spec.size,), (64,), read, staging, value.spec.size)
    else:
        builder.convert(builder.read(value, BLOCKS), staging, value.spec, "unpack")
    return memory, staging


class _Host:
    """An island's operators, planned for the processor."""

    def __init__(self, steps: Sequence[Step], inputs: Sequence[Value], outputs: Sequence[Value]):
        names: Dict[Value, str] = {}

        def name(value: Optional[Value]) -> str:
            return "" if value is None else names.setdefault(value, f"{len(names)} {value.name}")

        ops = [
            step.op.replace(input=tuple(map(name, step.inputs)), output=tuple(map(name, step.outputs)))
            for step in steps
        ]
        constants = {
            value: None for step in steps for value in step.inputs if value is not None and value.spec.value is not None
        }
        env: Environment = {
            name(value): Value(name(value), value.spec, FEED_STEP, value.spec.value) for value in constants
        }
        env.update((name(value), Value(name(value), value.spec, FEED_STEP)) for value in inputs)
        self._inputs = [name(value) for value in inputs]
        self._outputs = [name(value) for value in outputs]
        self._segment = Segment(ops, 0, env, self._outputs, self._outputs, PackedWeights(), _no_border)

    def run(self, inputs: Sequence[Array]) -> List[Array]:
        """The outputs, which are overwritten by the next run."""
        with np.errstate(all="ignore"):
            self._segment.feed(dict(zip(self._inputs, inputs)))
            self._segment.execute()
        return [self._segment.env[name].array for name in self._outputs]


def _no_border(op: OperatorDef, segment: Segment) -> Callable[..., Sequence[Any]]:
    raise AssertionError(f"{op.signature()}: its shape is known")


def _distance(actual: Array, expected: Array) -> float:
    """The largest error, as a fraction of the largest magnitude; NaN if they are not finite at the same places."""
    finite = np.isfinite(expected)
    if not np.array_equal(finite, np.isfinite(actual)):
        return float("nan")
    largest = max(float(np.abs(expected[finite]).max(initial=0.0)), LEAST_MAGNITUDE)
    return float(np.abs(actual[finite].astype(np.float64) - expected[finite]).max(initial=0.0)) / largest
