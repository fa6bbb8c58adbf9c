"""When packed weights are unpacked to floats: once, when a net is planned, or in each run, into memory that is shared.

If they are unpacked in each run, memory holds only the packed weights and the floats of one layer at a time, but a run
takes longer.
"""

from __future__ import annotations

from typing import AbstractSet

from optimize.rewriting.subnets import all_operators
from runtime_arm.errors import UsageError
from runtime_arm.netdef import NetDef
from runtime_arm.pair.pair import Pair
from runtime_arm.registry.schema import find
from runtime_arm.registry.shape_inference import EACH_RUN, infer_operator

LOAD, RUN = "load", "run"


def unpacked_nbytes(pair: Pair) -> int:
    """The bytes of the floats of all packed weights."""
    total, stored = 0, {op.output[0]: op for op in pair.init_net.op if len(op.output) == 1}
    for op in all_operators(with_unpacking(pair.predict_net, RUN)):
        if op.get_bool(EACH_RUN) and all(name in stored for name in op.reads()):
            inputs = [infer_operator(stored[name], [])[1][0] if name else None for name in op.input]
            total += sum(spec.nbytes for spec in infer_operator(op, inputs)[1])
    return total


def with_unpacking(net: NetDef, when: str) -> NetDef:
    """The net whose operators that unpack weights do so then, those in the branches of If, too."""
    if when not in (LOAD, RUN):
        raise UsageError(f"weights can be unpacked at {LOAD} or in each {RUN}; got {when!r}")
    return _with_unpacking(net, when, frozenset())


def _with_unpacking(net: NetDef, when: str, around: AbstractSet[str]) -> NetDef:
    """around: the blobs that operators outside write."""
    ops, written = [], {*around, *(name for op in net.op for name in op.output)}
    for op in net.op:
        if op.full_type == "If":
            branches = (
                arg if arg.n is None else arg.replace(n=_with_unpacking(arg.n, when, written)) for arg in op.arg
            )
            op = op.replace(arg=tuple(branches))
        schema = find(op)
        unpacks = schema is not None and schema.unpacks and written.isdisjoint(op.reads())
        if unpacks and op.get_bool(EACH_RUN) != (when == RUN):
            op = op.with_args(each_run=1 if when == RUN else None)
        ops.append(op)
    return net.replace(op=tuple(ops))
