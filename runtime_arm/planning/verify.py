"""Checks the memory of compiled steps, independent of the planner: every read must see what its writer wrote.

The steps are replayed. A write spoils every other value in the same memory, and a spoiled value must not be read. This
module knows nothing of lifetimes or offsets; only the bound arrays count. NumPy's exact test says whether two of them
share memory; it can tell channel slices of the same tiles apart.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from itertools import accumulate
from typing import Callable, Dict, Iterable, List, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.planning.steps import Step, Value
from runtime_arm.records import NamedTuple
from runtime_arm.registry.layouts import Tiles


class BrokenPlan(RuntimeError):
    """A memory plan with which a step would read or overwrite the wrong bytes: a bug of armnet."""


class _Extent(NamedTuple):
    """The memory of an array: the addresses of its start and end, and the array."""

    begin: int
    end: int
    array: Array

    def meets(self, other: _Extent) -> bool:
        """Whether any byte belongs to both."""
        if self.begin >= other.end or other.begin >= self.end or self.begin == self.end or other.begin == other.end:
            return False
        whole = self.array.flags.c_contiguous and other.array.flags.c_contiguous
        return whole or bool(np.shares_memory(self.array, other.array))


def _extent(array: Array) -> _Extent:
    begin = end = _address(array)
    if array.flags.c_contiguous:
        end += array.nbytes
    elif array.size:
        reach = [stride * (size - 1) for stride, size in zip(array.strides, array.shape)]
        begin += sum(step for step in reach if step < 0)
        end += sum(step for step in reach if step > 0) + array.itemsize
    return _Extent(begin, end, array)


def _reach(value: Value) -> Tuple[int, int]:
    """Where the memory of a value begins and ends. It is kept, as many segments check the same foreign values."""
    if value.reach is None:
        value.reach = _extent(value.array)[:2]
    return value.reach


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


class _Memory:
    """Which values are intact, and which step spoiled each of the others. No step may write to foreign values."""

    def __init__(self, foreign: Iterable[Value]):
        self._intact: Dict[Value, _Extent] = {}
        self._begins: List[Tuple[int, int]] = []  # of the values in use: sorted addresses, and numbers in ``_held``
        self._held: List[Value] = []
        self._longest = 0
        self._spoiled_by: Dict[Value, str] = {}
        self._extents: Dict[int, _Extent] = {}  # by the identity of the array, which the extent keeps alive
        self._foreign = sorted([(*_reach(value), value.name) for value in foreign])
        self._foreign_ends = list(accumulate((end for _, end, _ in self._foreign), max))

    def extent(self, array: Array) -> _Extent:
        """The memory of an array. NumPy takes two microseconds to say it, so the answer is kept."""
        known = self._extents.get(id(array))
        if known is None:
            known = self._extents[id(array)] = _extent(array)
        return known

    def write(self, array: Array, writer: str) -> None:
        extent = self.extent(array)
        before = bisect_left(self._foreign, (extent.end,))
        if before and extent.begin < min(extent.end, self._foreign_ends[before - 1]):
            owner = next(name for _, end, name in self._foreign[:before] if end > extent.begin)
            raise BrokenPlan(f"{writer} overwrites {owner!r}, which lives on")
        near = slice(
            bisect_left(self._begins, (extent.begin - self._longest,)), bisect_left(self._begins, (extent.end,))
        )
        for value in dict.fromkeys(self._held[number] for _, number in self._begins[near]):
            held = self._intact.get(value)
            if held is not None and held.meets(extent):
                self.forget(value)
                self._spoiled_by[value] = writer

    def hold(self, value: Value) -> None:
        """The value is in its memory now."""
        extent = self._intact[value] = self.extent(value.array)
        self._longest = max(self._longest, extent.end - extent.begin)
        insort(self._begins, (extent.begin, len(self._held)))
        self._held.append(value)

    def require(self, value: Value, reader: str) -> None:
        if not value.foreign and value not in self._intact:
            reason = f"{self._spoiled_by[value]} wrote there" if value in self._spoiled_by else "nobody wrote it"
            raise BrokenPlan(f"{reader}: {value.name!r} is not in its memory: {reason}")

    def forget(self, value: Value) -> None:
        """The value need not be intact any longer."""
        extent = self._intact.pop(value, None)
        if extent is not None:
            at = bisect_left(self._begins, (extent.begin,))
            while self._held[self._begins[at][1]] is not value:
                at += 1
            del self._begins[at]


def verify(
    steps: Sequence[Step],
    running: Iterable[Step],
    feeds: Sequence[Value],
    fetched: Iterable[Value],
    foreign: Iterable[Value],
) -> None:
    """BrokenPlan, naming the step and the blob, unless every read sees what its writer wrote.

    running: those of the ``steps`` that execute something. feeds: the values that are written before the first step.
    fetched: the values that are read after the last one. foreign: values that no step may write to, besides those that
    the steps read.
    """
    kept, executed = set(fetched), set(running)
    read = [value for step in steps for value in step.inputs if value is not None]
    memory = _Memory({value for value in [*foreign, *read] if value.foreign})
    read_last = {value: at for at, step in enumerate(steps) for value in step.inputs if value is not None}
    read_last.update(dict.fromkeys(kept, len(steps)))
    for feed in feeds:
        memory.write(feed.array, "what is fed")
        memory.hold(feed)
    for at, step in enumerate(steps):
        if step in executed:
            _replay(step, memory)
        else:
            _follow(step, memory)
        for value in [*step.inputs, *step.outputs]:
            if value is not None and read_last.get(value, -1) <= at:
                memory.forget(value)
    for value in kept:
        memory.require(value, "what is fetched")


def _replay(step: Step, memory: _Memory) -> None:
    """Replay a step that runs: it writes its scratch, reads its inputs and writes its outputs."""
    name, written = step.op.signature(), _written(step)
    _check_slices(step)
    _check_operands(step, name, written, memory.extent)
    for buffer in step.buffers:
        memory.write(buffer, f"scratch of {name}")
    for value in step.inputs:
        if value is not None:
            memory.require(value, name)
    for _, _, array in written:
        memory.write(array, name)
    for result in step.outputs:
        memory.hold(result)


def _follow(step: Step, memory: _Memory) -> None:
    """Check a step that runs nothing: its results must already be in place, as a view, as parts or as a whole."""
    source, name = step.inputs[0] if step.inputs else None, step.op.signature()
    if step.schema.joins is not None:
        ends = _joined(step)
    elif step.schema.splits is not None and source is not None:
        places = step.schema.splits(step.op, step.in_specs, step.out_specs)
        ends = [_part(source, part, index) for part, index in zip(step.outputs, places)]
    elif step.schema.view and source is not None:
        ends = [(step.outputs[0], source.array, source.layout is None and step.outputs[0].layout is None)]
    else:
        raise BrokenPlan(f"{name}: nothing runs for it")
    for value, place, fits in ends:
        if not fits or not _same(value.array, place):
            raise BrokenPlan(f"{name}: {value.name!r} does not lie where it should")
    for given in step.inputs:
        if given is not None:
            memory.require(given, name)
    for result in step.outputs:
        memory.hold(result)


_Part = Tuple[Value, Array, bool]  # a value, where it should be, and whether its layout fits that place


def _joined(step: Step) -> List[_Part]:
    assert step.schema.joins is not None
    places = step.schema.joins(step.op, step.in_specs, step.out_specs)
    return [_part(step.outputs[0], part, index) for part, index in zip(step.inputs, places) if part is not None]


def _part(whole: Value, part: Value, index: Tuple[slice, ...]) -> _Part:
    """Where a part should be in the whole; in tiles a part consists of channels, their last dimension."""
    if whole.layout is None:
        return part, whole.array[index], part.layout is None
    channels = index[1] if len(index) > 1 else slice(None)
    if not isinstance(whole.layout, Tiles):
        return part, whole.array, False
    return part, whole.array[..., channels], part.layout == whole.layout._replace(channels=part.spec.shape[1])


def _same(one: Array, other: Array) -> bool:
    """Whether two arrays are the same bytes in the same order."""
    if one.dtype != other.dtype or one.nbytes != other.nbytes or (one.size and _address(one) != _address(other)):
        return False
    in_one_piece = one.flags.c_contiguous and other.flags.c_contiguous
    return in_one_piece or (one.shape, one.strides) == (other.shape, other.strides)


def _written(step: Step) -> List[Tuple[int, str, Array]]:
    """What a step writes: the output's index, its name and the memory, without joined parts that are already in
    place."""
    whole = [(index, value.name, value.array) for index, value in enumerate(step.outputs)]
    if step.schema.joins is None:
        return whole
    missing = [place for part, place, fits in _joined(step) if not fits or not _same(part.array, place)]
    return [(0, step.outputs[0].name, place) for place in missing] + whole[1:]


def _check_slices(step: Step) -> None:
    """Memory that is not contiguous must be a channel slice, and the kernel must be able to handle slices."""
    kernel = step.kernel
    for values, can in ((step.inputs, kernel and kernel.reads_slices), (step.outputs, kernel and kernel.writes_slices)):
        for value in values:
            if value is None or value.foreign or value.array.flags.c_contiguous:
                continue
            if not can:
                raise BrokenPlan(f"{step.op.signature()}: {value.name!r} is a slice, which {step.engine} cannot handle")
            if not _is_channel_slice(value):
                raise BrokenPlan(f"{step.op.signature()}: {value.name!r} lies in pieces")


def _is_channel_slice(value: Value) -> bool:
    array, shape = value.array, value.storage.shape
    if value.layout is None or array.shape != shape:
        return False
    apart = array.strides[2]
    strides = (shape[1] * shape[2] * apart, shape[2] * apart, apart, array.itemsize)
    return array.strides == strides and apart >= shape[3] * array.itemsize and apart % array.itemsize == 0


def _check_operands(
    step: Step, name: str, written: Sequence[Tuple[int, str, Array]], extent_of: Callable[[Array], _Extent]
) -> None:
    """Outputs, scratch buffers and inputs must not overlap, except where the schema lets an output overwrite an
    input."""
    buffers = [("scratch", extent_of(buffer)) for buffer in step.buffers]
    for index, (_, extent) in enumerate(buffers):
        if any(extent.meets(taken) for _, taken in buffers[:index]):
            raise BrokenPlan(f"{name}: scratch buffers overlap")
    outputs = [(output, extent_of(array)) for _, output, array in written]
    inputs = [None if value is None else (value, extent_of(value.array)) for value in step.inputs]
    for at, ((index, output, array), (_, extent)) in enumerate(zip(written, outputs)):
        for other, taken in [*outputs[:at], *buffers]:
            if extent.meets(taken):
                raise BrokenPlan(f"{name}: output {output!r} overlaps {other!r}")
        for position, given in enumerate(inputs):
            if given is None or not extent.meets(given[1]):
                continue
            if position not in step.schema.inplace.get(index, ()) or not _same(array, given[0].array):
                raise BrokenPlan(f"{name}: output {output!r} overwrites {given[0].name!r}")


__all__ = ["BrokenPlan", "verify"]
