"""LookUp: a table for all integers of 8 bits."""

from __future__ import annotations

import numpy as np
import pytest

from device_tests.suite.kernels import assert_engines_match_reference
from runtime_arm.errors import ShapeError
from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.schema import lookup
from runtime_arm.registry.shape_inference import infer_operator
from runtime_arm.registry.specs import TensorSpec

OP = OperatorDef.of("LookUp", ["x", "table"], ["y"], domain="armnet")
TABLE = np.random.default_rng(0).integers(-128, 128, 256).astype(np.int8)


def test_negative_numbers_count_from_the_end() -> None:
    every = np.arange(-128, 128).astype(np.int8)
    (found,) = lookup(OP).evaluate(OP, [every, TABLE])
    assert found.tolist() == [int(TABLE[number]) for number in every.tolist()]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_the_fast_kernel(dtype: type) -> None:
    x = np.random.default_rng(1).integers(0, 256, (3, 50, 7)).astype(np.uint8).view(dtype)
    assert_engines_match_reference(OP, [x, TABLE])


@pytest.mark.parametrize(("x", "table"), [(np.int16, TABLE), (np.uint8, TABLE[:255]), (np.uint8, TABLE.astype("f4"))])
def test_what_does_not_fit_is_refused(x: type, table: np.ndarray) -> None:
    with pytest.raises(ShapeError, match=r"table|X must be"):
        infer_operator(OP, [TensorSpec((2,), x), TensorSpec.known(table)])
