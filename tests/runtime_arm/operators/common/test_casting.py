"""Floats that become integers: the vectorised conversion against the documented rule, one number at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from runtime_arm.operators.common.casting import to_integers
from tests.support.exact import assert_same

INTEGERS = ["uint8", "int8", "uint16", "int16", "int32", "int64", "uint32", "uint64"]


def in_c(number: float, dtype: np.dtype[Any]) -> int:
    """The documented rule, one number at a time."""
    wide = {"int64": 64, "uint32": 64, "uint64": 64}.get(dtype.name, 32)
    low, high = (0, 2**64 - 1) if dtype == np.uint64 else (-(2 ** (wide - 1)), 2 ** (wide - 1) - 1)
    whole = low if np.isnan(number) else high if number == np.inf else low if number == -np.inf else int(number)
    bits = max(low, min(high, whole)) % 2 ** (8 * dtype.itemsize)
    return bits - 2 ** (8 * dtype.itemsize) if dtype.kind == "i" and bits >= 2 ** (8 * dtype.itemsize - 1) else bits


@given(arrays.arrays(st.sampled_from(["f4", "f8", "f2"]), st.integers(0, 6)), st.sampled_from(INTEGERS))
@settings(max_examples=300)
def test_floats_become_integers_by_the_rule(x: Any, name: str) -> None:
    dtype = np.dtype(name)
    with np.errstate(all="raise"):
        assert_same(to_integers(x, dtype), np.array([in_c(float(number), dtype) for number in x], dtype))
