"""Equality to the last bit, for operators that only move elements."""

from __future__ import annotations

from typing import Any

import numpy as np


def assert_same(actual: Any, expected: Any) -> None:
    """Raises AssertionError unless both arrays have one shape, one dtype and the same elements; NaN equals NaN."""
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual, expected)
