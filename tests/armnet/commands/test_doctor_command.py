"""``armnet doctor``: facts, warnings, and whether a network fits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict

import pytest

from armnet.commands import doctor
from device_tests.host.emulation.cache import EmulationUnavailable
from device_tests.host.emulation.machine import emulated, environment, run_group
from tests.support.commands import Armnet, refused
from tests.support.paths import ROOT

OPENBLAS = {"name": "OpenBLAS", "core": "cortexa72", "config": "", "path": "/usr/lib/libopenblas.so"}


def facts(**changes: Any) -> Dict[str, Any]:
    """The facts of a healthy machine, with these changes."""
    known: Dict[str, Any] = {
        "identity": {"blas": OPENBLAS, "machine": "aarch64", "features": ["asimd", "crc32"]},
        "condition": {"slowed": [], "celsius": {"cpu": 50.0}, "available_nbytes": 1 << 30},
        "network": None,
    }
    for name, value in changes.items():
        known[name] = {**known[name], **value} if known[name] else value
    return known


def _on_arm32(*features: str, **blas: str) -> Dict[str, Any]:
    """The changes that make it a machine of 32 bits with such a BLAS."""
    return {"identity": {"machine": "armv7l", "features": ["neon", *features], "blas": {**OPENBLAS, **blas}}}


def test_a_healthy_machine_has_no_warnings() -> None:
    assert doctor.warnings(facts()) == []


@pytest.mark.parametrize(
    ("changes", "warning"),
    [
        ({"identity": {"blas": None}}, "NumPy HAS NO BLAS"),
        ({"identity": {"blas": {"name": "libblas.so.3", "path": "/usr/lib/blas/libblas.so.3"}}}, "REFERENCE BLAS"),
        (_on_arm32(core="ARMV6"), "built for ARMV6 and multiplies number by number; no package of Debian's is faster"),
        (_on_arm32("crc32", core="ARMV6"), "this CPU can run a 64-bit system"),
        (_on_arm32(name="libblas.so.3", path="/usr/lib/blis-pthread/libblas.so.3"), "NumPy's BLAS is BLIS"),
        (_on_arm32(name="libblas.so.3", path="/usr/lib/atlas/libblas.so.3"), "NumPy's BLAS is ATLAS"),
        ({"condition": {"slowed": ["under-voltage"]}}, "the CPU is slowed down: under-voltage"),
        ({"condition": {"celsius": {"cpu": 84.6}}}, "cpu is at 85 degrees Celsius"),
        ({"network": {"fits": False}}, "does not fit"),
    ],
)
def test_each_problem_causes_a_warning(changes: Dict[str, Any], warning: str) -> None:
    (found,) = doctor.warnings(facts(**changes))
    assert warning in found


def test_facts_of_this_machine_and_a_network(armnet: Armnet, digits: Path) -> None:
    status, out, _ = armnet("doctor", digits, "--json")
    assert status == 0
    answer = json.loads(out)
    assert (answer["schema"], answer["command"]) == (1, "doctor")
    assert answer["identity"]["cores"] >= 1
    assert answer["gflops"] > 0
    network = answer["network"]
    assert network["fits"]
    assert network["ms"] > 0
    assert network["needs_nbytes"] > network["weights_nbytes"] + network["arena_nbytes"]
    assert "inferences" in network["how"]


def test_a_network_too_slow_to_run_once_is_estimated(
    armnet: Armnet, digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "SECONDS", 0.0)
    network = json.loads(armnet("doctor", digits, "--json")[1])["network"]
    assert network["how"].startswith("from 1 of ")
    assert network["ms"] > 0


def test_a_network_that_does_not_fit(armnet: Armnet, digits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from runtime_arm.machine import identity as machine

    healthy = machine.condition()
    monkeypatch.setattr(machine, "condition", lambda: {**healthy, "available_nbytes": 100_000})
    status, out, _ = armnet("doctor", digits)
    assert status == 0
    assert "DOES NOT FIT" in out
    assert "WARNING      the network does not fit into the free memory" in out


def test_a_path_without_a_pair_is_refused(armnet: Armnet, tmp_path: Path) -> None:
    refused(armnet("doctor", tmp_path / "nowhere"), "nowhere")


def test_a_numpy_with_the_reference_blas_causes_a_prominent_warning() -> None:
    try:
        machine = emulated("arm64")
    except EmulationUnavailable as error:
        pytest.skip(str(error))
    (libraries,) = {folder.parent for folder in machine.root.glob("usr/lib/*/blas")}
    python = machine.command(["-E", f"LD_LIBRARY_PATH={libraries}/blas:{libraries}/lapack"])
    done = run_group([*python, "-m", "armnet", "doctor"], 120, environment(), ROOT)
    assert done.returncode == 0, done.stderr
    assert "BLAS         libblas.so.3" in done.stdout
    assert "WARNING      NumPy uses the REFERENCE BLAS" in done.stdout


def test_debians_openblas_for_32_bits_causes_a_warning() -> None:
    try:
        machine = emulated("armhf")
    except EmulationUnavailable as error:
        pytest.skip(str(error))
    done = machine.run(["-m", "armnet", "doctor"], timeout=120, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    (warning,) = (line for line in done.stdout.splitlines() if line.startswith("WARNING"))
    assert "OpenBLAS is built for ARMV6 and multiplies number by number; no package of Debian's" in warning
