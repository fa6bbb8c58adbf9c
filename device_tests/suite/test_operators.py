"""Operators give the same results as on the host, by the reference kernel and by every engine."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Dict, List

import numpy as np
import pytest

from device_tests.suite.conftest import DATA
from device_tests.suite.kernels import amplification_of, run_kernel, supporting_engines
from device_tests.suite.tolerance import assert_close
from device_tests.suite.vectors import Vector, read_vectors
from runtime_arm.registry.kernel import REFERENCE
from runtime_arm.registry.schema import DataDependent, lookup
from runtime_arm.registry.specs import QuantizedTensor

ARCHIVE = DATA / "vectors.pb"


def vectors_by_type() -> List[Any]:
    """Parameters for pytest: one for each operator type, with all its vectors."""
    if not ARCHIVE.exists():
        return [pytest.param([], marks=pytest.mark.skip(reason="no golden vectors were prepared for this device"))]
    found: Dict[str, List[Vector]] = defaultdict(list)
    for vector in read_vectors(ARCHIVE):
        found[vector.op.full_type].append(vector)
    return [pytest.param(vectors, id=type) for type, vectors in found.items()]


@pytest.mark.parametrize("vectors", vectors_by_type())
def test_operator_gives_its_golden_vectors(vectors: List[Vector]) -> None:
    for vector in vectors:
        for engine in engines_of(vector):
            check(vector, engine)


def engines_of(vector: Vector) -> List[str]:
    """The reference kernel, and the engines that support the operator, unless its shapes depend on data."""
    try:
        return [REFERENCE, *supporting_engines(vector.op, vector.inputs, vector.constants)]
    except DataDependent:
        return [REFERENCE]


def check(vector: Vector, engine: str) -> None:
    """AssertionError unless the engine computes the vector's results."""
    try:
        results = run_kernel(vector.op, vector.inputs, engine, vector.constants)
    except DataDependent:
        results = lookup(vector.op).evaluate(vector.op, vector.inputs)
    assert len(results) == len(vector.outputs)
    grown = amplification_of(vector.op, vector.inputs, engine, vector.constants)
    for actual, expected in zip(results, vector.outputs):
        what = f"{vector.op.signature()} by {engine}"
        if isinstance(expected, QuantizedTensor):
            assert (np.float32(actual.scale), actual.zero_point) == (np.float32(expected.scale), expected.zero_point), (
                what
            )
            actual, expected = actual.values, expected.values
        assert_close(actual, expected, terms=vector.terms, amplification=grown, what=what)
