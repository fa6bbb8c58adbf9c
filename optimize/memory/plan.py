"""How much memory a net needs, without running it or allocating anything.

Blobs count as plain arrays here. The runtime may choose padded layouts for some; ``Predictor.plan().arena_nbytes`` is
the size of the arena then.
"""

from __future__ import annotations

from typing import Mapping, NamedTuple, Sequence

import numpy as np

from optimize.memory.lower_bound import least_nbytes
from runtime_arm.errors import ShapeError
from runtime_arm.netdef import NetDef
from runtime_arm.planning.memory_sharing import plan_memory
from runtime_arm.planning.steps import FEED_STEP, Value
from runtime_arm.planning.trace import Trace
from runtime_arm.registry.specs import TensorSpec


class MemoryPlan(NamedTuple):
    """In bytes. arena: with the scratch memory of kernels. blobs: without it. least: a lower bound of ``blobs`` for any
    order of operators and any placement."""

    arena: int
    blobs: int
    least: int


def plan_net(net: NetDef, specs: Mapping[str, TensorSpec]) -> MemoryPlan:
    """The plan for external inputs of these specs; inputs with a value are constants.

    OperatorError if the inputs do not fit; ShapeError if shapes depend on data.
    """
    trace = _traced(net, specs)
    arena = plan_memory(trace.steps, trace.feeds).nbytes
    for step in trace.steps:
        step.scratch = []
    return MemoryPlan(arena, plan_memory(trace.steps, trace.feeds).nbytes, least_nbytes(trace.steps, trace.feeds))


def arena_nbytes(net: NetDef, specs: Mapping[str, TensorSpec]) -> int:
    """``plan_net(net, specs).arena``."""
    trace = _traced(net, specs)
    return plan_memory(trace.steps, trace.feeds).nbytes


def _traced(net: NetDef, specs: Mapping[str, TensorSpec]) -> Trace:
    given = {name: specs[name] for name in net.external_input if name in specs}
    trace = Trace(net.op, 0, {name: Value(name, spec, FEED_STEP, spec.value) for name, spec in given.items()})
    if trace.border_at is not None:
        raise ShapeError(net.op[trace.border_at], "its output's shape depends on data")
    for name in net.external_output:
        trace.env[name].last = len(trace.steps)
    return trace


def weight(shape: Sequence[int], dtype: str = "float32") -> TensorSpec:
    """The spec of a weight whose content does not matter; it occupies no memory."""
    return TensorSpec(shape, dtype, np.broadcast_to(np.zeros((), dtype), tuple(shape)))
