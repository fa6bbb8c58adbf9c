"""Checks the memory of a compiled segment, whoever planned it: every read sees what its writer wrote.

The steps are replayed over addresses. Whatever is written is remembered as the bytes of its writer; what a step reads
must still be those bytes. Nothing here knows of lifetimes or offsets; only the bound arrays count.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Dict, List, NamedTuple, Sequence, Tuple

from runtime_arm.netdef import Array
from runtime_arm.trace import Step, Value

if TYPE_CHECKING:
    from runtime_arm.plan import Segment


class BrokenPlan(RuntimeError):
    """A memory plan under which a step would read or overwrite what it must not: a bug of ours."""


class Piece(NamedTuple):
    """Some bytes of a writer, from its byte ``begin`` on. The writer of foreign memory is the address itself."""

    nbytes: int
    writer: object
    begin: int


Content = List[Piece]
_FOREIGN = "memory of somebody else"


class _Memory:
    """Who wrote which addresses last."""

    def __init__(self) -> None:
        self._begins: List[int] = []
        self._pieces: List[Piece] = []

    def write(self, address: int, piece: Piece) -> None:
        if not piece.nbytes:
            return
        first, stop = self._touched(address, address + piece.nbytes)
        begins, pieces = [address], [piece]
        for begin, old in zip(self._begins[first:stop], self._pieces[first:stop]):
            if begin < address:
                begins.insert(0, begin)
                pieces.insert(0, old._replace(nbytes=address - begin))
            if begin + old.nbytes > address + piece.nbytes:
                cut = address + piece.nbytes - begin
                begins.append(begin + cut)
                pieces.append(Piece(old.nbytes - cut, old.writer, old.begin + cut))
        self._begins[first:stop], self._pieces[first:stop] = begins, pieces

    def read(self, address: int, nbytes: int) -> Content:
        """What lies there, in order; unwritten bytes are left out."""
        content = []
        first, stop = self._touched(address, address + nbytes)
        for begin, piece in zip(self._begins[first:stop], self._pieces[first:stop]):
            low, high = max(begin, address), min(begin + piece.nbytes, address + nbytes)
            content.append(Piece(high - low, piece.writer, piece.begin + low - begin))
        return content

    def _touched(self, begin: int, end: int) -> Tuple[int, int]:
        first = max(bisect_right(self._begins, begin) - 1, 0)
        if first < len(self._begins) and self._begins[first] + self._pieces[first].nbytes <= begin:
            first += 1
        return first, max(first, bisect_left(self._begins, end))


def verify(segment: Segment) -> None:
    """BrokenPlan, naming the step and the blob, unless every read sees its writer."""
    memory = _Memory()
    expected: Dict[Value, Content] = {}
    running = set(segment.running)
    read = [value for step in segment.steps for value in step.inputs if value is not None]
    for value in [*segment.env.values(), *read]:
        if value.foreign and value not in expected:
            piece = Piece(value.array.nbytes, _FOREIGN, _address(value.array))
            memory.write(piece.begin, piece)
            expected[value] = [piece]
    for value in segment.feeds:
        _write(memory, expected, value)
    for step in segment.steps:
        if step not in running:
            _follow(step, expected)
            continue
        _check_operands(step)
        for buffer in step.buffers:
            memory.write(_address(buffer), Piece(buffer.nbytes, "scratch", 0))
        for given in step.inputs:
            if given is not None:
                _check_read(memory, expected, given, step.op.signature())
        for result in step.outputs:
            _write(memory, expected, result)
    for name in segment.survivors:
        if name in segment.env:
            _check_read(memory, expected, segment.env[name], "what is fetched")


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def _write(memory: _Memory, expected: Dict[Value, Content], value: Value) -> None:
    piece = Piece(value.array.nbytes, value, 0)
    memory.write(_address(value.array), piece)
    expected[value] = [piece]


def _check_read(memory: _Memory, expected: Dict[Value, Content], value: Value, reader: str) -> None:
    found = _merged(memory.read(_address(value.array), value.array.nbytes))
    wanted = _merged(expected[value])
    if found != wanted:
        raise BrokenPlan(f"{reader}: {value.name!r} should hold {_described(wanted)}, it holds {_described(found)}")


def _merged(content: Sequence[Piece]) -> Content:
    """Neighbouring pieces of one writer as one; without empty ones."""
    merged: Content = []
    for piece in content:
        if merged and merged[-1].writer is piece.writer and merged[-1].begin + merged[-1].nbytes == piece.begin:
            merged[-1] = merged[-1]._replace(nbytes=merged[-1].nbytes + piece.nbytes)
        elif piece.nbytes:
            merged.append(piece)
    return merged


def _described(content: Content) -> str:
    names = [piece.writer.name if isinstance(piece.writer, Value) else piece.writer for piece in content]
    return ", ".join(f"{piece.nbytes} bytes of {name!r}" for piece, name in zip(content, names)) or "nothing"


def _follow(step: Step, expected: Dict[Value, Content]) -> None:
    """A step that does nothing must find its results where they are: a view, parts of a whole, a whole of parts."""
    inputs = [value for value in step.inputs if value is not None]
    if step.schema.view:
        _require_at(step, step.outputs[0], inputs[0].array)
        expected[step.outputs[0]] = expected[inputs[0]]
    elif step.joins is not None:
        whole = step.outputs[0]
        for part, index in zip(inputs, step.joins(step.op, step.in_specs, step.out_specs)):
            _require_at(step, part, whole.array[index])
        expected[whole] = [piece for part in inputs for piece in expected[part]]
    elif step.splits is not None:
        whole = inputs[0]
        for part, index in zip(step.outputs, step.splits(step.op, step.in_specs, step.out_specs)):
            piece = whole.array[index]
            _require_at(step, part, piece)
            begin = _address(piece) - _address(whole.array) if piece.size else 0
            expected[part] = _cut(expected[whole], begin, part.array.nbytes)
    else:
        raise BrokenPlan(f"{step.op.signature()}: nothing runs for it")


def _require_at(step: Step, value: Value, place: Array) -> None:
    same = place.flags.c_contiguous and place.nbytes == value.array.nbytes and place.dtype == value.array.dtype
    if not same or (place.size and _address(place) != _address(value.array)):
        raise BrokenPlan(f"{step.op.signature()}: {value.name!r} does not lie where it should")


def _cut(content: Content, begin: int, nbytes: int) -> Content:
    """The bytes from ``begin`` on of some content."""
    result, at = [], 0
    for piece in content:
        low, high = max(begin, at), min(begin + nbytes, at + piece.nbytes)
        if low < high:
            result.append(Piece(high - low, piece.writer, piece.begin + low - at))
        at += piece.nbytes
    return result


def _check_operands(step: Step) -> None:
    """Outputs, scratch buffers and inputs lie apart, but for what the schema lets an output overwrite."""
    outputs = [(value.name, _span(value.array)) for value in step.outputs]
    buffers = [("scratch", _span(buffer)) for buffer in step.buffers]
    for index, (_, span) in enumerate(buffers):
        if any(_overlap(span, taken) for _, taken in buffers[:index]):
            raise BrokenPlan(f"{step.op.signature()}: scratch buffers overlap")
    for index, (name, span) in enumerate(outputs):
        for other, taken in [*outputs[:index], *buffers]:
            if _overlap(span, taken):
                raise BrokenPlan(f"{step.op.signature()}: output {name!r} overlaps {other!r}")
        for position, value in enumerate(step.inputs):
            if value is None or not _overlap(span, _span(value.array)):
                continue
            if position not in step.schema.inplace.get(index, ()) or span != _span(value.array):
                raise BrokenPlan(f"{step.op.signature()}: output {name!r} overwrites {value.name!r}")


def _span(array: Array) -> Tuple[int, int]:
    return _address(array), _address(array) + array.nbytes


def _overlap(one: Tuple[int, int], other: Tuple[int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1] and one[0] < one[1] and other[0] < other[1]
