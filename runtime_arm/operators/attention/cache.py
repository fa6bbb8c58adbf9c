"""Keys and values of attention: past ones followed by new ones, in outputs or in scratch memory."""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, List, Optional, Sequence

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.attention.core import Heads
from runtime_arm.registry.kernel import Call
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import Step, copy

Steps = Callable[[Heads], List[Step]]


def store_specs(op: OperatorDef, first: int, needed: bool, specs: Sequence[TensorSpec]) -> List[TensorSpec]:
    """Scratch for keys and values that must be put together and are no outputs; those are outputs from ``first`` on."""
    return [spec for at, spec in enumerate(specs, first) if needed and at >= len(op.output)]


def stores(call: Call, first: int, needed: bool, spare: Sequence[Array]) -> List[Optional[Array]]:
    """Where keys and values are put together: the outputs, else the scratch of ``store_specs``, else nowhere (None)."""
    left = list(spare)
    outputs = [call.outputs[at] if at < len(call.outputs) else None for at in (first, first + 1)]
    return [output if output is not None else left.pop(0) if needed else None for output in outputs]


def storing(store: Array, past: Optional[Array], new: Array, bias: Optional[Array] = None) -> Steps:
    """Steps that fill some heads of ``store`` (B, N, T, D): the past (B, N, P, D), then ``new`` + bias (N, 1, D)."""
    length = 0 if past is None else past.shape[2]

    def steps(part: Heads) -> List[Step]:
        batch, heads = part
        fresh = store[batch, heads, length : length + new.shape[2]]
        if bias is None:
            last = copy(fresh, new[batch, heads])
        else:
            last = partial(np.add, new[batch, heads], bias[heads], out=fresh)
        return [last] if past is None else [copy(store[batch, heads, :length], past[batch, heads]), last]

    return steps


def adding(target: Array, source: Array, bias: Array) -> Steps:
    """Steps of target = source + bias for heads of keys: (B, N, G, S, D) and (N, G, 1, D)."""
    return lambda part: [partial(np.add, source[part], bias[part[1]], out=target[part])]


def together(steps: Sequence[Steps]) -> Any:
    """A ``Prepare`` that runs the steps of all; None if there are none."""
    if not steps:
        return None

    def prepare(part: Heads) -> Any:
        whole = [step for make in steps for step in make(part)]

        def run() -> None:
            for step in whole:
                step()

        return run

    return prepare
