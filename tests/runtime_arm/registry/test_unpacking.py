"""Weights are unpacked in no more memory than their floats and what a kernel works in, to the reference's numbers."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from optimize.quantization.packing.formats import FORMATS
from runtime_arm.registry.schema import lookup
from runtime_arm.registry.shape_inference import infer_operator
from runtime_arm.registry.specs import TensorSpec


@pytest.mark.parametrize("format", FORMATS)
def test_one_copy_of_the_floats(format: str) -> None:
    weight = np.random.default_rng(0).standard_normal((512, 2048)).astype(np.float32)
    packed = FORMATS[format](weight, 0)
    assert packed is not None
    op = packed.unpack(tuple(packed.stored), "w")
    specs = [TensorSpec.known(value) for value in packed.stored.values()]
    infer_operator(op, specs)
    tracemalloc.start()
    try:
        restored = infer_operator(op, specs)[1][0].value
        assert tracemalloc.get_traced_memory()[1] < 1.3 * weight.nbytes
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(restored, lookup(op).evaluate(op, list(packed.stored.values()))[0])
