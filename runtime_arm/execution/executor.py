"""Runs a net: keeps the plans for the most recent input shapes, and runs one segment after the other."""

from __future__ import annotations

import os
import sys
from collections import OrderedDict
from contextlib import suppress
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Collection,
    Dict,
    Hashable,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
)

import numpy as np

from runtime_arm.errors import FeedError, there_are
from runtime_arm.machine import blas
from runtime_arm.machine.memory import memory_for
from runtime_arm.netdef import Array, NetDef, OperatorDef
from runtime_arm.pair.tuned import THREADS, UNTUNED, Tuned
from runtime_arm.planning.plan import PackedWeights, RunBorder, Segment
from runtime_arm.planning.steps import FEED_STEP, Environment, Value
from runtime_arm.registry.engine_preferences import preferring
from runtime_arm.registry.schema import DataDependent, Operator, lookup
from runtime_arm.registry.shape_inference import content, infer_net
from runtime_arm.registry.specs import Quantization, QuantizedTensor, TensorSpec

if TYPE_CHECKING:
    from typing import Set

    from runtime_arm.execution.carrying import Carried
    from runtime_arm.execution.steady import Steady
    from runtime_arm.execution.workers import WorkerPool
    from runtime_arm.pair.tuned import OnDevice
    from runtime_arm.planning.steps import Step

    PutSteps = Callable[[Sequence[Step], Set[Value], Optional[OnDevice]], List[Step]]  # the last: what was measured

PLANS_KEPT = 8  # the number of input shapes whose plans are kept
SEGMENTS_KEPT = 32  # segments after borders, of a whole net; more if one run needs more
SMALL_KEPT = 512  # of either, while all together take no more than SMALL: in loops, shapes change with each trip
SMALL = 1 << 22  # bytes
STEP_NBYTES = 1 << 13  # of a step's objects and functions; measured: 9 to 14 kB
LEAST_PAGES, MOST_PAGES = 1 << 16, 1 << 22  # bytes of results whose memory is reused


def _references(held: Mapping[str, Any], name: str) -> int:
    """The number of references to what the mapping holds; 0 if it cannot be determined."""
    count: Optional[Callable[[Any], int]] = getattr(sys, "getrefcount", None)
    shared = not getattr(sys, "_is_gil_enabled", lambda: True)()  # then other threads may count later
    return 0 if count is None or shared else count(held[name])


_ALONE = _references({"": np.empty(0)}, "") or -1  # if only the mapping refers to it


class Executor:
    """A net with its constants. ``run`` takes the other blobs that the net reads and returns the fetched ones.

    Only one call may run at a time. ``workers`` split the steps for which that pays; this process is one of them, and
    the others start with the first run. ``tuned`` returns, for the specs of the feeds, the engines that operators
    prefer, whether BLAS threads replace the workers, and what pays on a device. ``place`` puts steps on a device, see
    ``gpu/placement.py``.
    ``digest``: a hash of the net and its constants, with which the first plan is kept for the next start; "" for none.
    """

    def __init__(
        self,
        net: NetDef,
        constants: Mapping[str, Any],
        workers: int = 1,
        tuned: Callable[[Mapping[str, TensorSpec]], Tuned] = lambda feeds: UNTUNED,
        place: Optional[PutSteps] = None,
        digest: str = "",
        around: Mapping[str, Value] = {},
    ):
        """around: blobs of the enclosing net that this one reads, in memory that stays in place, never copied."""
        self.net = net
        self._around = around
        self._tuned = tuned
        self._place = place
        self._digest = digest
        self.constants = dict(constants)
        _look_up_operators(net)
        self._entries: OrderedDict[Hashable, Segment] = OrderedDict()
        self._behind: OrderedDict[Segment, Tuple[Segment, Hashable]] = OrderedDict()  # the segment before, and the key
        self._packed = PackedWeights()
        self._workers = workers
        self._pool: Optional[WorkerPool] = None
        self._process = os.getpid()
        self._carried: Optional[Carried] = None
        self._last: Dict[str, Array] = {}  # results of the last run whose memory is worth reusing, by blob

    def run(
        self,
        feeds: Mapping[str, Any],
        fetches: Sequence[str],
        out: Optional[Mapping[str, Array]] = None,
        carry: Optional[Mapping[str, str]] = None,
    ) -> Dict[str, Any]:
        """The fetched blobs by name: copies that belong to the caller, or the arrays of ``out`` for the names it has.

        Feeds are arrays or QuantizedTensors. carry: for a feed of the next run, the blob of this run that becomes it;
        such blobs are not fetched. Such a feed may be left out: then it is what the last run left.
        """
        with np.errstate(all="ignore"):
            if not carry and self._carried is not None:
                self._carried.forget()  # this run uses the memory in which it was left
            segment = self._walk_carrying(feeds, fetches, carry) if carry else self._walk(feeds, fetches)
            if not out:
                return self._results(segment, fetches)
            values = {name: self._fetch(segment, name) for name in fetches}
            for name, target in out.items():
                _check_target(name, target, values[name].array)
                np.copyto(target, values[name].array)
            return {name: out[name] if name in out else value.content() for name, value in values.items()}

    def run_inside(self, feeds: Mapping[str, Any], fetches: Sequence[str]) -> Dict[str, Any]:
        """Like ``run``, for a net inside one that is running, so NumPy's warnings are already off."""
        return self._results(self._walk(feeds, fetches), fetches)

    def _results(self, segment: Segment, fetches: Sequence[str]) -> Dict[str, Any]:
        results = {name: self._returned(name, self._fetch(segment, name)) for name in fetches}
        for name in [name for name in self._last if name not in results]:
            del self._last[name]
        return results

    def _returned(self, name: str, value: Value) -> Any:
        """A copy of a fetched value, owned by the caller.

        If the caller no longer holds the last run's copy, its memory is reused, because getting new pages from the
        system takes as long as writing them.
        """
        if not LEAST_PAGES <= value.array.nbytes <= MOST_PAGES or value.spec.dtype == object:
            return value.content()
        last = self._last.get(name)
        fits = last is not None and (last.shape, last.dtype) == (value.spec.shape, value.spec.dtype)
        del last
        if not fits or value.spec.quantization is not None or _references(self._last, name) != _ALONE:
            self._last.pop(name, None)
            returned = value.content()
            if isinstance(returned, np.ndarray):
                self._last[name] = returned
            return returned
        np.copyto(self._last[name], value.array)
        return self._last[name]

    def _walk_carrying(self, feeds: Mapping[str, Any], fetches: Sequence[str], carry: Mapping[str, str]) -> Segment:
        """Like ``_walk``, but takes what the last run left, and leaves blobs for the next one."""
        if self._carried is None:
            from runtime_arm.execution.carrying import Carried  # most nets start without it

            self._carried = Carried()
        surviving = list(dict.fromkeys([*fetches, *carry.values()]))
        missing = self._carried.missing(carry, feeds)
        if missing:
            feeds = {**feeds, **self._carried.arrays(missing)}
            first = self.plan(feeds, surviving)
            own = self._carried.placed(missing, first, walk_segments(first), self._place is None)
            feeds = {**feeds, **own}
        segment = self._walk(feeds, surviving)
        self._carried.leave(carry, segment, {name: self._fetch(segment, name) for name in carry.values()})
        return segment

    def carried(self) -> Dict[str, Array]:
        """What the last run carries into the next one, by input: arrays in the plan's memory, valid until that run."""
        return {} if self._carried is None else self._carried.left()

    def run_once(self, fetches: Sequence[str]) -> Dict[str, Any]:
        """The fetched blobs of a net without inputs that will not run again: constants are returned without a copy."""
        with np.errstate(all="ignore"):
            segment = self._walk({}, fetches)
            values = {name: self._fetch(segment, name) for name in fetches}
            return {
                name: value.content() if value.spec.value is None else content(value.spec)
                for name, value in values.items()
            }

    def plan(self, feeds: Mapping[str, Any], fetches: Sequence[str]) -> Segment:
        """The first segment for inputs like these; the segments after a border are compiled when they run."""
        self._leave_to_parent()
        key = (*fetches, *[(name, *_likeness(feeds[name])) for name in sorted(feeds)])
        segment = self._entries.get(key)
        if segment is None:
            self._make_room()
            with np.errstate(all="ignore"):
                specs = {name: spec_of(value) for name, value in feeds.items()}
                env: Environment = {name: _constant(name, array) for name, array in self.constants.items()}
                env.update((name, _inherited(value)) for name, value in self._around.items())
                env.update((name, Value(name, spec, FEED_STEP)) for name, spec in specs.items())
                segment = self._entries[key] = self._segment(0, env, fetches, self._tuned(specs))
        elif len(self._entries) > 1:
            self._entries.move_to_end(key)
        return segment

    def plans(self) -> List[Segment]:
        """The first segments of the plans that are kept, the most recent last."""
        return list(self._entries.values())

    def worker_processes(self) -> List[int]:
        """The process ids of its workers, without this process."""
        return [] if self._pool is None else self._pool.processes()

    def close(self) -> None:
        """End the workers; the next run starts new ones."""
        self._last.clear()
        if self._carried is not None:
            self._carried.forget()
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    @memory_for("planning")
    def _segment(
        self,
        start: int,
        env: Environment,
        fetches: Sequence[str],
        tuned: Tuned = UNTUNED,
        before: Optional[Segment] = None,
    ) -> Segment:
        engines, workers = tuned.engines, 1 if tuned.workers == THREADS else self._workers
        ops: Sequence[OperatorDef] = self.net.op
        if engines:
            ops = [preferring(op, engines[at]) if at in engines else op for at, op in enumerate(ops)]
        outputs, put, kept = self.net.external_output, self._place, None
        place = None if put is None else lambda steps, wanted: put(steps, wanted, tuned.device)
        if self._digest and not self._entries and not start and place is None and _may_have_cache():
            from runtime_arm.planning.plan_cache import CachedPlan  # nets without files need no cache

            fed = [(name, value.spec, value.spec.quantization) for name, value in env.items() if not value.foreign]
            kept = CachedPlan((self._digest, fed, fetches, outputs, workers), ops, env)
        before = before if place is None else None
        runner = self._border_runner
        return Segment(ops, start, env, fetches, outputs, self._packed, runner, workers, place, kept, before)

    def _leave_to_parent(self) -> None:
        """In a process that the user forked, forget the plans: their memory is shared with the parent, which uses
        it."""
        if self._workers > 1 and self._process != os.getpid():
            self._process = os.getpid()
            self._entries.clear()
            self._behind.clear()
            self.close()

    def _make_room(self) -> None:
        while _are_enough(self._entries.values(), PLANS_KEPT):
            self._forget(self._entries.popitem(last=False)[1])

    def _make_room_behind(self, segment: Segment) -> None:
        """Forget the least recently used segments that do not lead to this one."""
        way = {segment}
        while segment in self._behind:
            segment = self._behind[segment][0]
            way.add(segment)
        for oldest in [one for one in self._behind if one not in way]:
            if not _are_enough(self._behind, SEGMENTS_KEPT):
                break
            if oldest in self._behind:
                before, key = self._behind[oldest]
                self._forget(before.successors.pop(key))

    def _forget(self, segment: Segment) -> None:
        """Forget a segment and those compiled after it."""
        for one in walk_segments(segment):
            self._behind.pop(one, None)

    def _walk(self, feeds: Mapping[str, Any], fetches: Sequence[str]) -> Segment:
        segment = self.plan(feeds, fetches)
        self._execute(segment, feeds)
        while segment.border is not None:
            outputs = segment.border.run()
            segment = self._successor(segment, outputs, fetches)
            self._execute(segment, outputs)
        return segment

    def _execute(self, segment: Segment, feeds: Mapping[str, Any]) -> None:
        if not segment.is_split:
            segment.feed(feeds)
            segment.execute()
            return
        try:
            with blas.Threads(1):
                self._pool_of(segment).start(segment)
                segment.feed(feeds)
                segment.execute()
        except BaseException:  # the workers may be anywhere in the net
            self.close()
            raise

    def _pool_of(self, segment: Segment) -> WorkerPool:
        """Workers that know the segment: existing ones were forked before newer plans were made, and are replaced."""
        from runtime_arm.execution.workers import WorkerPool

        if self._pool is None or segment not in self._pool:
            self.close()
            segments = [one for root in self._entries.values() for one in walk_segments(root) if one.is_split]
            self._pool = WorkerPool(segments, self._workers)
        return self._pool

    def _successor(self, segment: Segment, outputs: Mapping[str, Any], fetches: Sequence[str]) -> Segment:
        key = tuple([(name, *_likeness(value)) for name, value in outputs.items() if name])
        successor = segment.successors.get(key)
        if successor is None:
            self._make_room_behind(segment)
            assert segment.border_at is not None
            specs = {name: spec_of(value) for name, value in outputs.items() if name}
            env = {name: _inherited(segment.env[name]) for name in segment.survivors if name in segment.env}
            env.update((name, Value(name, spec, FEED_STEP)) for name, spec in specs.items())
            successor = segment.successors[key] = self._segment(segment.border_at + 1, env, fetches, before=segment)
        self._behind[successor] = segment, key
        self._behind.move_to_end(successor)
        return successor

    def _fetch(self, segment: Segment, name: str) -> Value:
        if name not in segment.env:
            known = {*self.constants, *self.net.external_input, *(name for op in self.net.op for name in op.output)}
            raise FeedError(f"blob {name!r} is not in the net; it has {there_are(name, sorted(known - {''}))}")
        return segment.env[name]

    def _border_runner(self, op: OperatorDef, segment: Segment) -> RunBorder:
        schema = lookup(op)
        if not schema.control:
            return lambda op, inputs: _evaluate_checked(schema, op, inputs)
        subnets = SubNets(op, segment)
        return lambda op, inputs: schema.evaluate(op, [subnets, *_operands(inputs)])


def _are_enough(segments: Collection[Segment], kept: int) -> bool:
    """Whether one must be forgotten before another is added: ``kept`` may stay, or more if all are small."""
    if len(segments) < kept:
        return False
    nbytes = sum(one.arena_nbytes + STEP_NBYTES * len(one.steps) for one in segments)
    return len(segments) >= SMALL_KEPT or nbytes > SMALL


def _may_have_cache() -> bool:
    """Whether a cache folder may exist; this is faster than importing the module that would look for it."""
    places = (os.environ.get("ARMNET_CACHE"), os.environ.get("XDG_CACHE_HOME"), os.path.expanduser("~"))
    return any(place and os.path.isdir(place) for place in places)


def _operands(values: Sequence[Optional[Value]]) -> List[Any]:
    return [None if value is None else value.operand for value in values]


def _evaluate_checked(schema: Operator, op: OperatorDef, inputs: Sequence[Optional[Value]]) -> Sequence[Any]:
    """The outputs, once the shape function has accepted the inputs, whose content it now sees.

    If it also returns the content of the outputs, nothing else runs.
    """
    specs: Sequence[TensorSpec] = ()
    with suppress(DataDependent):
        specs = schema.infer(op, [None if value is None else value.known for value in inputs])
        if specs and all(spec.value is not None for spec in specs):
            return [content(spec) for spec in specs]
    results = list(schema.evaluate(op, _operands(inputs)))
    for i, spec in enumerate(specs):
        if spec.quantization is not None:
            results[i] = QuantizedTensor(results[i], *spec.quantization)
    return results


def _look_up_operators(net: NetDef) -> None:
    """UnknownOperator if the net or one of its sub-nets has an operator that is not declared."""
    for op in net.op:
        lookup(op)
        for inner in op.subnets():
            _look_up_operators(inner)


class SubNets:
    """Runs the nets among an operator's arguments; blobs from outside come from the surrounding segment."""

    def __init__(self, op: OperatorDef, segment: Segment):
        self._outside: Dict[int, Dict[str, Value]] = {}
        self._executors: Dict[int, Executor] = {}
        self._steady: Dict[int, Tuple[Segment, Optional[Steady]]] = {}
        for net in op.subnets():
            captured = {name: segment.env[name] for name in net.captures() if name in segment.env}
            constants = {name: value.operand for name, value in captured.items() if value.spec.value is not None}
            outside = {name: value for name, value in captured.items() if name not in constants}
            self._outside[id(net)] = outside
            self._executors[id(net)] = Executor(net, constants, around=outside)

    def run(self, net: NetDef, feeds: Mapping[str, Any], fetches: Sequence[str]) -> List[Any]:
        """The blobs ``fetches`` after one of the operator's nets has run with the explicit inputs ``feeds``."""
        outputs = self._executors[id(net)].run_inside(feeds, fetches)
        return [outputs[name] for name in fetches]

    def steady(self, net: NetDef, feeds: Mapping[str, Any], fetches: Sequence[str]) -> Optional[Steady]:
        """The net, a Loop's body, planned on fixed memory for inputs like these, in their order.

        None if it has several segments, or if a blob is not a plain array in that memory.
        """
        segment = self._executors[id(net)].plan(feeds, fetches)
        known = self._steady.get(id(net))
        if known is None or known[0] is not segment:
            known = self._steady[id(net)] = segment, _steady(segment, list(feeds), fetches)
        return known[1]

    def infer(self, net: NetDef, feeds: Mapping[str, TensorSpec], fetches: Sequence[str]) -> List[Optional[TensorSpec]]:
        """The specs that the blobs ``fetches`` would have for inputs of these specs, None if they depend on data."""
        constants = {name: _constant(name, value).spec for name, value in self._executors[id(net)].constants.items()}
        outside = {name: value.spec for name, value in self._outside[id(net)].items()}
        env = infer_net(net, {**constants, **outside, **feeds})
        return [env.get(name) for name in fetches]


def _steady(segment: Segment, inputs: Sequence[str], outputs: Sequence[str]) -> Optional[Steady]:
    from runtime_arm.execution.steady import Steady  # only loops need it

    if segment.border is not None or segment.is_split or segment.copies_late:
        return None
    values = [*segment.feeds, *(segment.env[name] for name in outputs)]
    if any(value.spec.quantization or value.spec.dtype == object or value.layout is not None for value in values):
        return None
    fed = {value.name: value.array for value in segment.feeds}
    arrays = [segment.env[name].array for name in outputs]
    return Steady.of([fed.get(name) for name in inputs], arrays, segment.execute)


def _constant(name: str, content: Any) -> Value:
    array = np.asarray(content.values if isinstance(content, QuantizedTensor) else content, order="C")
    spec = spec_of(content)
    return Value(name, TensorSpec(spec.shape, spec.dtype, array, spec.quantization), FEED_STEP, array)


def _check_target(name: str, target: Any, source: Array) -> None:
    if not isinstance(target, np.ndarray) or not target.flags.writeable:
        raise FeedError(f"out[{name!r}] must be an array that can be written")
    if target.shape != source.shape or target.dtype != source.dtype:
        raise FeedError(
            f"out[{name!r}] is {target.dtype.name}{list(target.shape)}, the blob is "
            f"{source.dtype.name}{list(source.shape)}"
        )


def _inherited(value: Value) -> Value:
    """The value as a later segment sees it, which finds it in memory; foreign values are the same in all segments."""
    return value if value.foreign else Value(value.name, value.spec, FEED_STEP, value.array)


def spec_of(value: Any) -> TensorSpec:
    """The spec of a value that a caller feeds."""
    if isinstance(value, QuantizedTensor):
        return TensorSpec(value.values.shape, value.values.dtype, None, Quantization(value.scale, value.zero_point))
    return TensorSpec(value.shape, value.dtype)


def _likeness(value: Any) -> Tuple[Hashable, ...]:
    """The properties of a fed value on which a plan depends."""
    return (value.shape, value.dtype) if isinstance(value, np.ndarray) else (spec_of(value),)


def walk_segments(segment: Segment) -> Iterator[Segment]:
    """The segment and every segment compiled after it so far."""
    yield segment
    for successor in segment.successors.values():
        yield from walk_segments(successor)
