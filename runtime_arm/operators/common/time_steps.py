"""Sequences of TensorFlow Lite's recurrent layers, whatever their layout."""

from __future__ import annotations

import numpy as np

from runtime_arm.netdef import Array, OperatorDef


def by_time(op: OperatorDef, x: Array) -> Array:
    """A sequence as a view (time, batch, ...): it is given so, batch first without ``time_major``, or is one step."""
    turned: Array = x[np.newaxis] if x.ndim == 2 else x if op.get_bool("time_major", True) else x.swapaxes(0, 1)
    return turned
