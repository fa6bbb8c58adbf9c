"""Orders in which the operators of a net may run."""

from __future__ import annotations

from typing import Dict, List, Mapping, Sequence, Set

from optimize.memory.name_reuse import Range
from optimize.memory.order_search import Scheduler, Task
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.registry.schema import find


def live_ranges(net: NetDef) -> Dict[str, Range]:
    """For each blob that the net writes, the operators during which it must keep its content."""
    first: Dict[str, int] = {}
    last: Dict[str, int] = {}
    for place, op in enumerate(net.op):
        for name in op.output:
            first.setdefault(name, place)
        last.update(dict.fromkeys((*op.reads(), *op.output), place))
    return {name: Range(first[name], last[name]) for name in first if name}


def orders(net: NetDef, sizes: Mapping[str, int]) -> List[NetDef]:
    """The net as it is, and in orders that keep fewer bytes live. Every blob counts with memory of its own."""
    tasks = [Task(frozenset(op.reads()), frozenset(filter(None, op.output))) for op in net.op]
    return _ordered(net, Scheduler(tasks, dependencies(net.op), sizes, kept=frozenset(net.external_output)))


def orders_for_arena(net: NetDef, sizes: Mapping[str, int]) -> List[NetDef]:
    """The same, if results may overwrite operands, views take no memory, and parts lie in their whole."""
    alias: Dict[str, str] = {}
    tasks = [_task(op, sizes, alias) for op in net.op]
    fed, kept = (
        frozenset(alias.get(name, name) for name in names) for names in (net.external_input, net.external_output)
    )
    return _ordered(net, Scheduler(tasks, dependencies(net.op), sizes, fed, kept))


def _task(op: OperatorDef, sizes: Mapping[str, int], alias: Dict[str, str]) -> Task:
    schema = find(op)
    if schema is not None and schema.view and op.output and op.input[0]:
        alias[op.output[0]] = alias.get(op.input[0], op.input[0])
    reads = [alias.get(name, name) for name in op.reads()]
    writes = [alias.get(name, name) for name in op.output if name]
    if schema is None:
        return Task(frozenset(reads), frozenset(writes))
    pairs = [
        (alias.get(op.output[y], op.output[y]), alias.get(op.input[x], op.input[x]))
        for y, candidates in schema.inplace.items()
        if y < len(op.output)
        for x in candidates
        if x < len(op.input) and op.input.count(op.input[x]) == 1
    ]
    overwrites = tuple((y, x) for y, x in pairs if y and sizes.get(y) == sizes.get(x))
    joint = schema.joins is not None or schema.splits is not None
    return Task(frozenset(reads), frozenset(writes), overwrites, joint)


def _ordered(net: NetDef, scheduler: Scheduler) -> List[NetDef]:
    best = scheduler.search()
    found = [*([] if best is None else [best]), *scheduler.greedy()]
    now = scheduler.peak(range(len(net.op)))
    better = [order for order in found if scheduler.peak(order) < now]
    return [net, *(net.replace(op=tuple(net.op[place] for place in order)) for order in better)]


def dependencies(ops: Sequence[OperatorDef]) -> List[Set[int]]:
    """For each operator, those that must run first: it reads what they write, or overwrites what they need."""
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
        if not any(op.output):  # it runs for its effect: all operators before it in the net must run before it
            needed.update(range(place))
        before.append(needed - {place})
    return before
