"""Swish and HardSwish in three passes, if weights and bias are multiplied with a constant beforehand:

    Swish(X)     = V (1 + tanh(V))                                       V = X / 2
    HardSwish(X) = V clip(V + 3 / sqrt(6), 0, sqrt(6))                   V = X / sqrt(6)

So the scaling, a pass or two more, costs nothing while a net runs.
"""

from __future__ import annotations

import mmap
from copy import copy as twin_of
from functools import partial
from typing import Callable, Iterator, Optional

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.formulas import CLIPS_FAST
from runtime_arm.records import NamedTuple
from runtime_arm.registry.kernel import Call
from runtime_arm.registry.steps import ONE, Step, clip

LARGE = 1 << 14  # bytes


class Gate(NamedTuple):
    """An activation Y = V g(V) of V, which is X times the factor; ``steps(v, t)`` makes t = g(v)."""

    factor: float
    steps: Callable[[Array, Array], Iterator[Step]]


def gate(activation: OperatorDef) -> Optional[Gate]:
    """A Swish or HardSwish as a gate; None where that is not faster."""
    if activation.type == "Swish":
        return Gate(0.5, _swish_gate) if activation.get_float("alpha", 1.0) == 1 else None
    return Gate(6**-0.5, _hard_swish_gate) if CLIPS_FAST else None


def prescaled(call: Call, factor: float) -> Call:
    """The call of a convolution with its constant weights and bias multiplied with the factor of its gate."""
    twin = twin_of(call)
    x, *constants = call.inputs
    twin.inputs = [x, *(None if constant is None else _scaled(constant, factor) for constant in constants)]
    twin.prescaled = True
    return twin


def _scaled(constant: Array, factor: float) -> Array:
    """In memory that goes back to the system at once when the kernel has packed it, if that is much."""
    scaled: Array
    if constant.nbytes < LARGE:
        scaled = np.empty_like(constant)
    else:
        scaled = np.frombuffer(mmap.mmap(-1, constant.nbytes), constant.dtype).reshape(constant.shape)
    np.multiply(constant, np.float32(factor), out=scaled)
    return scaled


def _swish_gate(v: Array, t: Array) -> Iterator[Step]:
    yield partial(np.tanh, v, out=t)
    yield partial(np.add, t, ONE, out=t)


def _hard_swish_gate(v: Array, t: Array) -> Iterator[Step]:
    yield partial(np.add, v, np.array(3 * 6**-0.5, np.float32), out=t)
    yield clip(t, 0, 6**0.5, t)
