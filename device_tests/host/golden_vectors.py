"""Computes golden vectors: the results of ``golden_cases`` by the reference kernels, which accumulate in float64."""

from __future__ import annotations

from pathlib import Path
from typing import Iterator

import numpy as np

from device_tests.host.golden_cases import golden_cases
from device_tests.host.golden_cases.case import Case
from device_tests.suite.vectors import Vector, write_vectors
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.registry.schema import lookup


def save_golden_vectors(path: Path) -> None:
    """Writes the vectors of all cases to one file."""
    write_vectors(path, golden_vectors())


def golden_vectors() -> Iterator[Vector]:
    """The vectors of all cases."""
    yield from map(_vector, golden_cases())


def _vector(case: Case) -> Vector:
    op = _as_read(case.op)
    with np.errstate(all="ignore"):
        outputs = lookup(op).evaluate(op, case.inputs)
    return Vector(op, case.inputs, case.constants, outputs)


def _as_read(op: OperatorDef) -> OperatorDef:
    """The operator as it is read from a file, in which its numbers have single precision."""
    return NetDef.from_bytes(NetDef("one", (op,)).to_bytes()).op[0]
