"""The device beside the processor computes what the reference kernels did on the host, if there is a driver."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Dict, List, Optional, Tuple

import pytest

from device_tests.suite.conftest import prepared
from device_tests.suite.islands import on_device
from device_tests.suite.kernels import specs_of
from device_tests.suite.test_networks import read_sample
from device_tests.suite.test_operators import ARCHIVE
from device_tests.suite.tolerance import assert_close, assert_network_close
from device_tests.suite.vectors import Vector, read_vectors
from runtime_arm import Pair, Predictor
from runtime_arm.errors import ArmnetError, NoDriver
from runtime_arm.gpu.device import Device
from runtime_arm.gpu.devices import open_device
from runtime_arm.gpu.lowering.registry import refusal
from runtime_arm.gpu.opencl.library import Library
from runtime_arm.gpu.programs import Programs
from runtime_arm.registry.schema import DataDependent, lookup

DEVICE = "opencl:0"


@pytest.fixture(scope="module")
def opened() -> Tuple[Device, Programs]:
    try:
        return open_device(DEVICE)
    except NoDriver as error:
        pytest.skip(str(error))


def vectors_by_type() -> List[Any]:
    """Parameters for pytest: one for each operator type that the device can do, with its vectors."""
    try:
        Library()
    except ArmnetError as error:
        return [pytest.param([], marks=pytest.mark.skip(reason=str(error)))]
    found: Dict[str, List[Vector]] = defaultdict(list)
    for vector in read_vectors(ARCHIVE) if ARCHIVE.exists() else ():
        if refused(vector) is None:
            found[vector.op.full_type].append(vector)
    nothing = pytest.param([], marks=pytest.mark.skip(reason="no golden vectors were prepared for this device"))
    return [pytest.param(vectors, id=type) for type, vectors in found.items()] or [nothing]


def refused(vector: Vector) -> Optional[str]:
    """Why the device does not compute the vector; None if it does."""
    specs = specs_of(vector.inputs, constants_of(vector))
    try:
        return refusal(vector.op, specs, lookup(vector.op).infer(vector.op, specs))
    except DataDependent:
        return "its shape depends on data"


def constants_of(vector: Vector) -> List[int]:
    """The inputs that the plan knows as constants; none if it would know all, because then nothing would be left to
    compute.
    """
    return [] if len(vector.constants) == len(vector.inputs) else vector.constants


@pytest.mark.parametrize("vectors", vectors_by_type())
def test_opencl_gives_golden_vectors(opened: Tuple[Device, Programs], vectors: List[Vector]) -> None:
    for vector in vectors:
        known = constants_of(vector)
        named = [(at, name, x) for at, (name, x) in enumerate(zip(vector.op.input, vector.inputs)) if name]
        feeds = {name: x for at, name, x in named if at not in known}
        constants = {name: x for at, name, x in named if at in known}
        (y,) = on_device(opened, [vector.op], feeds, constants).values()
        assert_close(y, vector.outputs[0], terms=vector.terms, what=f"{vector.op.signature()} on {DEVICE}")


def test_small_networks_on_opencl_give_what_the_reference_kernels_gave_on_the_host(
    opened: Tuple[Device, Programs],
) -> None:
    for network in prepared("networks/*"):
        inputs, expected = read_sample(network / "sample.npz")
        with Predictor(Pair.load(network), threads=1, device=DEVICE) as predictor:
            for _ in range(2):
                outputs = predictor.run(inputs)
                for name, wanted in expected.items():
                    assert_network_close(outputs[name], wanted, what=f"{name} of {network.name}")
            assert predictor.placement is not None
            assert predictor.placement.islands or predictor.placement.reasons
            assert predictor.notes == []
