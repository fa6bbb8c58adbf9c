"""Packed networks on emulated machines: SqueezeNet and the digits net give the same outputs there as here."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Iterator, List

import numpy as np
import pytest

from device_tests.host.counting.budgets import DEMO
from device_tests.host.counting.operator_counts import TIMEOUT
from device_tests.host.counting.regions import count
from device_tests.host.emulation.cache import EmulationUnavailable
from device_tests.host.emulation.machine import Machine
from device_tests.host.targets.factory import target_of
from device_tests.host.targets.target import DeviceError, Target
from exporter import export
from exporter.bundle.pack import pack
from optimize import optimize
from runtime_arm import Pair
from runtime_arm.netdef import NetDef

RUNTIME_AND_SAMPLE = 1_470_000  # bytes
SECOND_START = 610_000_000  # instructions


@pytest.fixture(params=["emulated:arm64", "emulated:armhf"])
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    try:
        with target_of(request.param) as opened:
            yield opened
    except EmulationUnavailable as error:
        pytest.skip(str(error))


def weights_nbytes(net: NetDef) -> int:
    """Bytes of the weights."""
    return sum(op.get_tensor("values").nbytes for op in net.op if op.has("values"))


@pytest.fixture(scope="module")
def squeezenet(shared: Path) -> Pair:
    return optimize(export(str(shared / "models/onnx/squeezenet_v1.1/squeezenet_v1.1.onnx")))


@pytest.fixture(scope="module")
def reference(shared: Path) -> Any:
    """Input ``in_data`` and output ``out_0`` of onnxruntime."""
    return np.load(shared / "models/references/onnx_squeezenet_v1.1.npz")


@pytest.fixture(scope="module")
def bundle(squeezenet: Pair, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundles") / "squeezenet.pyz"
    pack(squeezenet, path)
    return path


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("digits") / "digits.pyz"
    pack(export(str(DEMO / "digits.onnx")), path)
    return path


def test_a_bundle_is_hardly_larger_than_its_weights(squeezenet: Pair, bundle: Path) -> None:
    assert os.path.getsize(bundle) <= 1.1 * weights_nbytes(squeezenet.init_net) + RUNTIME_AND_SAMPLE


def test_squeezenet_gives_its_reference_answers(target: Target, bundle: Path, reference: Any, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", data=reference["in_data"])
    target.deploy({"squeezenet.pyz": bundle, "in.npz": tmp_path / "in.npz"})
    words = ["squeezenet.pyz", "in.npz", "--top", "5", "--json", "--output", "out.npz"]
    (run,) = json.loads(target.output(["-I", *words]))["runs"]
    wanted = reference["out_0"].reshape(-1)
    best: List[int] = np.argsort(-wanted)[:5].tolist()
    assert [answer["number"] for answer in run["top"]] == best
    assert [answer["score"] for answer in run["top"]] == pytest.approx(wanted[best].tolist(), rel=1e-3)


def test_a_bundle_damaged_in_transfer_is_refused(target: Target, digits: Path, tmp_path: Path) -> None:
    data = bytearray(digits.read_bytes())
    at = data.find(b"pair/init_net.pb") + 50_000
    data[at] ^= 1
    (tmp_path / "digits.pyz").write_bytes(data)
    target.deploy({"digits.pyz": tmp_path / "digits.pyz"})
    done = target.run(["-I", "digits.pyz", "--self-test"])
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "'pair/init_net.pb' is not the one that was packed" in done.stderr


def test_a_second_start_costs_half_as_much(arm64: Machine, counting: Path, digits: Path, tmp_path: Path) -> None:
    """Whole processes, from the start of Python, which takes 27 million instructions and NumPy 260, to the end."""
    words, kept = ["-I", str(digits), "--self-test"], {"ARMNET_CACHE": str(tmp_path)}
    first, second = (count(arm64, words, TIMEOUT, kept).total.instructions for _ in range(2))
    assert second <= SECOND_START
    assert first >= 1.5 * second, "the first start keeps its compiled code"


def test_without_numpy_a_bundle_says_so(target: Target, digits: Path) -> None:
    target.deploy({"digits.pyz": digits})
    with pytest.raises(DeviceError, match="needs NumPy: apt-get install python3-numpy"):
        target.output(["-S", "digits.pyz", "--info"])
