"""Other orders in which a net may run."""

from __future__ import annotations

from typing import Callable, Dict, List, Mapping, Sequence, Set, Tuple

from optimize.blob_sharing import Range
from runtime_arm.netdef import NetDef, OperatorDef

Choose = Callable[[int, int], Tuple[int, int]]  # (place in the net, growth of the live bytes) -> rank, least first


def live_ranges(net: NetDef) -> Dict[str, Range]:
    """From which operator to which each blob that the net writes must keep its content."""
    first: Dict[str, int] = {}
    last: Dict[str, int] = {}
    for place, op in enumerate(net.op):
        for name in op.output:
            first.setdefault(name, place)
        last.update(dict.fromkeys((*op.reads(), *op.output), place))
    return {name: Range(first[name], last[name]) for name in first if name}


def orders(net: NetDef, sizes: Mapping[str, int]) -> List[NetDef]:
    """The net as it is, and in orders that keep few bytes alive: what frees most first; branches one by one."""
    choices: Sequence[Choose] = (lambda place, growth: (growth, place), lambda place, growth: (growth > 0, -place))
    return [net, *(net.replace(op=_scheduled(net.op, sizes, choose)) for choose in choices)]


def dependencies(ops: Sequence[OperatorDef]) -> List[Set[int]]:
    """For each operator those that must run before it: it reads what they write, or overwrites what they need."""
    writer: Dict[str, int] = {}
    readers: Dict[str, List[int]] = {}
    before: List[Set[int]] = []
    for place, op in enumerate(ops):
        needed = {writer[name] for name in (*op.reads(), *op.output, *op.control_input) if name in writer}
        for name in op.output:
            needed.update(readers.pop(name, ()))
        for name in op.reads():
            readers.setdefault(name, []).append(place)
        writer.update(dict.fromkeys((name for name in op.output if name), place))
        if not any(op.output):  # there for its effect: everything before it comes before it
            needed.update(range(place))
        before.append(needed - {place})
    return before


def _scheduled(ops: Sequence[OperatorDef], sizes: Mapping[str, int], choose: Choose) -> List[OperatorDef]:
    before = dependencies(ops)
    readers_left: Dict[str, int] = {}
    for op in ops:
        for name in op.reads():
            readers_left[name] = readers_left.get(name, 0) + 1
    written: Set[str] = set()
    waiting, order = set(range(len(ops))), []
    while waiting:
        ready = [place for place in waiting if before[place].isdisjoint(waiting)]
        chosen = min(ready, key=lambda place: choose(place, _growth(ops[place], sizes, readers_left, written)))
        for name in ops[chosen].reads():
            readers_left[name] -= 1
        written.update(ops[chosen].output)
        waiting.remove(chosen)
        order.append(ops[chosen])
    return order


def _growth(op: OperatorDef, sizes: Mapping[str, int], readers_left: Mapping[str, int], written: Set[str]) -> int:
    """Bytes that are live after the operator and were not before it."""
    made = sum(sizes.get(name, 0) for name in op.output if name not in written)
    freed = sum(sizes.get(name, 0) for name in op.reads() if name in written and readers_left[name] == 1)
    return made - freed
