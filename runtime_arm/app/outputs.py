"""Outputs as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.registry.specs import QuantizedTensor


def plain(value: Any) -> Array:
    """The array of an output; of a quantised output its integers."""
    return value.values if isinstance(value, QuantizedTensor) else np.asarray(value)
