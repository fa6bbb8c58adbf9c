"""A run that does not trust the memory plan: free memory is poisoned, and the results must be those without a plan.

Before every step, all bytes that hold no live value, and the scratch memory, are set to 0xFF, which is NaN for floats.
A step that reads the wrong bytes, or relies on the former content of its buffers, spoils the results. If every blob is
fetched, the plan cannot let blobs share memory; the results are compared with those of such a run, bit by bit.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, Sequence, Tuple

import numpy as np

from runtime_arm.errors import UsageError
from runtime_arm.execution.executor import walk_segments
from runtime_arm.execution.predictor import Predictor
from runtime_arm.execution.profiling import around_steps
from runtime_arm.netdef import Array
from runtime_arm.pair.pair import Pair
from runtime_arm.planning.plan import Segment
from runtime_arm.planning.steps import Step, Value
from runtime_arm.planning.verify import BrokenPlan
from runtime_arm.records import NamedTuple
from runtime_arm.registry.kernel import Run
from runtime_arm.registry.randomness import random_operator
from runtime_arm.registry.specs import QuantizedTensor


class Poisoned(NamedTuple):
    """A paranoid run that succeeded: the number of steps, the bytes poisoned before them, and the outputs."""

    steps: int
    nbytes: int
    outputs: Dict[str, Any]

    def __str__(self) -> str:
        return (
            f"paranoid: {self.nbytes:,} bytes of free memory poisoned before {self.steps} steps; "
            "the outputs equal those of a run without a memory plan, bit by bit"
        )


def run_paranoid(pair: Pair, feeds: Mapping[str, Any]) -> Poisoned:
    """Run the pair once in poisoned memory, in this process alone.

    BrokenPlan, naming the output, if its results are not those of a run whose blobs share no memory. UsageError for a
    net that draws random numbers.
    """
    random = random_operator(pair.predict_net)
    if random is not None:
        raise UsageError(f"{random.signature()}: its results differ from run to run, so two runs cannot be compared")
    with Predictor(pair, threads=1) as predictor:
        predictor.run(feeds)  # compiles all segments, also those after operators whose output shape depends on data
        segments = _segments(predictor)
        poison = _Poison(segments)
        with around_steps(predictor, poison.before):
            outputs = predictor.run(feeds)
    written = {name for op in pair.predict_net.op for name in op.output}
    everything = sorted(written.intersection(name for segment in segments for name in segment.env))
    with Predictor(pair, threads=1) as predictor:
        predictor.run(feeds)
        unplanned = predictor.run(feeds, keep=everything)
    for name, output in outputs.items():
        if not _same_bits(output, unplanned[name]):
            raise BrokenPlan(f"output {name!r} in poisoned memory differs from that without a memory plan")
    return Poisoned(sum(len(segment.running) for segment in segments), poison.nbytes, outputs)


def _segments(predictor: Predictor) -> List[Segment]:
    return [segment for root in predictor.executor.plans() for segment in walk_segments(root)]


class _Poison:
    """Poisons the memory that is free before each step."""

    def __init__(self, segments: Sequence[Segment]):
        self._free: Dict[Step, List[Array]] = {}
        self.nbytes = 0
        for segment in segments:
            self._free.update(_free_memory(segment))

    def before(self, step: Step, run: Run) -> Run:
        """A function that poisons the free memory and then runs the step."""
        memory = [*self._free[step], *(_bytes(buffer) for buffer in step.buffers if buffer.dtype != object)]
        self.nbytes += sum(piece.nbytes for piece in memory)

        def run_poisoned() -> None:
            for piece in memory:
                piece.fill(np.iinfo(piece.dtype).max)
            run()

        return run_poisoned


def _free_memory(segment: Segment) -> Iterator[Tuple[Step, List[Array]]]:
    """For each step that runs, the parts of the arena that are free before it."""
    values: Dict[Value, None] = dict.fromkeys(segment.feeds)
    for step in segment.steps:
        values.update(dict.fromkeys(value for value in (*step.inputs, *step.outputs) if value is not None))
    roots = {value: place.root for value, place in segment.layout.within.items()}
    placed = [
        value
        for value in values
        if not roots.get(value, value).foreign and value.array.dtype != object and value.array.size
    ]
    placed.sort(key=_range)
    running = set(segment.running)
    for at, step in enumerate(segment.steps):
        if step in running:
            live = [value for value in placed if value.first < at <= value.last]
            outside = _outside(placed, [_range(value) for value in live])
            yield step, [*outside, *(piece for value in placed for piece in _beside(value, live))]


def _outside(values: Sequence[Value], live: Sequence[Tuple[int, int]]) -> Iterator[Array]:
    """The memory of the values without these ranges of addresses. Both are sorted by address."""
    done = 0
    for value in values:
        if not value.array.flags.c_contiguous:
            continue  # a slice; the tiles that hold it are another of the values
        begin, end = _range(value)
        memory = _bytes(value.array)
        for first, last in [*live, (end, end)]:
            at = max(begin, done)
            if at < min(first, end):
                yield memory[at - begin : min(first, end) - begin]
            done = max(done, min(last, end))


def _beside(whole: Value, live: Sequence[Value]) -> Iterator[Array]:
    """The free channels of tiles of which live values are slices."""
    if whole.layout is None:
        return
    memory, done = whole.array, 0
    slices = [value for value in live if np.shares_memory(value.array, memory)]
    if not slices or any(value.array.strides != memory.strides for value in slices):
        return  # no slice of it is live, or other blobs are there
    channels = [(_range(value)[0] - _range(whole)[0]) // memory.itemsize for value in slices]
    most = [memory.shape[-1] - value.array.shape[-1] for value in slices]
    if not all(0 <= channel <= last for channel, last in zip(channels, most)):
        return
    for value, channel in zip(slices, channels):
        yield memory[..., done : max(done, channel)].view(f"u{memory.itemsize}")
        done = max(done, channel + value.array.shape[-1])
    yield memory[..., done:].view(f"u{memory.itemsize}")


def _range(value: Value) -> Tuple[int, int]:
    """The addresses of the begin and the end of a value."""
    begin = value.array.__array_interface__["data"][0]
    reach = sum(stride * (count - 1) for stride, count in zip(value.array.strides, value.array.shape))
    return begin, begin + reach + value.array.itemsize


def _bytes(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)


def _same_bits(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, QuantizedTensor):
        one, other = one.values, other.values
    if isinstance(one, list):  # a sequence
        return len(one) == len(other) and all(map(_same_bits, one, other))
    if one is None:  # an optional value that holds nothing
        return True
    if one.dtype == object:
        return bool(np.array_equal(one, other))
    return (one.shape, one.dtype, one.tobytes()) == (other.shape, other.dtype, other.tobytes())
