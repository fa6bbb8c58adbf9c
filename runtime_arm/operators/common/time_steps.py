"""Helpers of TensorFlow Lite's recurrent layers: sequences in any layout, and memories of the last steps."""

from __future__ import annotations

from functools import partial

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.registry.steps import Step


def by_time(op: OperatorDef, x: Array) -> Array:
    """A sequence as a view (time, batch, ...): it is given so, batch first without ``time_major``, or is one step."""
    turned: Array = x[np.newaxis] if x.ndim == 2 else x if op.get_bool("time_major", True) else x.swapaxes(0, 1)
    return turned


def aged(state: Array, held: Array) -> Step:
    """The step that moves the content of a memory (..., size), except the first place, by one place into ``held``,
    whose last place is filled later. One long copy takes a tenth of the time of short rows; numbers that cross from row
    to row end up in last places."""
    return partial(np.copyto, held.reshape(-1)[:-1], state.reshape(-1)[1:])
