"""Instruction counts are exact and repeatable, and are separate for each kind and region."""

from __future__ import annotations

from pathlib import Path

import pytest

from device_tests.host.counting.regions import CountedProgramError, CountReport, count
from device_tests.host.emulation.machine import Machine
from device_tests.suite import regions
from tests.support.paths import ROOT

PROGRAM = """
import subprocess, sys
import numpy as np
from device_tests.suite.regions import region

a = np.ones((256, 256), np.float32)
b = np.empty_like(a)
c = np.empty_like(a)

def spin():
    for _ in range(1000):
        pass

for work in (lambda: np.matmul(a, a, out=c), lambda: np.add(a, a, out=b), spin):
    work()
with region("matmul"):
    np.matmul(a, a, out=c)
for _ in range(3):
    with region("add"):
        np.add(a, a, out=b)
with region("outer"):
    spin()
    with region("inner"):
        spin()
with region("child"):
    subprocess.run([sys.executable, "-c", "from device_tests.suite.regions import region\\nwith region('x'): pass"],
                   check=True)
print(c[0, 0])
"""
MULTIPLY_ADDS = 256**3
ELEMENTS = 256**2


def counted(machine: Machine, program: str = PROGRAM) -> CountReport:
    return count(machine, ["-c", program], timeout=300, env={"PYTHONPATH": str(ROOT)})


@pytest.fixture(scope="module")
def report64(arm64: Machine, counting: Path) -> CountReport:
    return counted(arm64)


@pytest.fixture(scope="module")
def report32(armhf: Machine, counting: Path) -> CountReport:
    return counted(armhf)


def test_counts_repeat(report64: CountReport, arm64: Machine) -> None:
    """Multiply-adds repeat exactly; totals only nearly, because a run sometimes waits for locks or the allocator."""
    again = counted(arm64).regions
    for name in ("matmul", "add", "outer", "inner"):
        first, second = report64.regions[name], again[name]
        assert second.multiply_add == first.multiply_add
        assert second.instructions == pytest.approx(first.instructions, rel=1e-4, abs=1000)
        assert second.load_store == pytest.approx(first.load_store, rel=1e-4, abs=1000)


def test_matmul_on_arm64_is_one_multiply_add_per_four_products(report64: CountReport) -> None:
    matmul = report64.regions["matmul"]
    assert matmul.multiply_add == MULTIPLY_ADDS // 4
    assert 5_000_000 < matmul.instructions < 7_000_000
    assert matmul.multiply_add < matmul.simd_fp < matmul.instructions - matmul.load_store


def test_matmul_on_armhf_is_one_multiply_add_per_product(report32: CountReport) -> None:
    matmul = report32.regions["matmul"]
    assert MULTIPLY_ADDS <= matmul.multiply_add < 1.02 * MULTIPLY_ADDS
    assert matmul.multiply_add < matmul.simd_fp < matmul.instructions - matmul.load_store


def test_an_addition_is_one_instruction_per_four_elements(report64: CountReport) -> None:
    add = report64.regions["add"]
    assert add.entries == 3
    assert add.multiply_add == 0
    assert ELEMENTS // 4 <= add.simd_fp / add.entries < 1.02 * ELEMENTS / 4
    vectors_moved = 3 * ELEMENTS / 4
    assert vectors_moved / 2 <= add.load_store / add.entries < vectors_moved  # some instructions move two vectors


@pytest.mark.parametrize("report", ["report64", "report32"])
def test_python_bytecode_is_integer_work(report: str, request: pytest.FixtureRequest) -> None:
    inner = request.getfixturevalue(report).regions["inner"]
    assert inner.simd_fp < 0.01 * inner.instructions
    assert 0.2 < inner.load_store / inner.instructions < 0.6
    assert 50 < inner.instructions / 1000 < 500


@pytest.mark.parametrize("report", ["report64", "report32"])
def test_regions_nest(report: str, request: pytest.FixtureRequest) -> None:
    whole: CountReport = request.getfixturevalue(report)
    outer, inner = whole.regions["outer"], whole.regions["inner"]
    assert 1.9 * inner.instructions < outer.instructions < 2.2 * inner.instructions
    assert whole.total.instructions > sum(whole.regions[name].instructions for name in ("matmul", "add", "outer"))


def test_child_processes_are_not_counted(report64: CountReport) -> None:
    assert "x" not in report64.regions
    assert report64.regions["child"].instructions < report64.total.instructions / 2
    assert report64.stdout == "256.0\n"


def test_a_program_without_regions_has_a_total(arm64: Machine, counting: Path) -> None:
    report = counted(arm64, "print('done')")
    assert report.regions == {}
    assert report.total.instructions > report.total.load_store > 0
    assert report.total.entries == 1


def test_a_failing_program_gives_its_last_line(arm64: Machine, counting: Path) -> None:
    with pytest.raises(CountedProgramError, match=r"exit status 1: ZeroDivisionError: division by zero"):
        counted(arm64, "1 / 0")


def test_outside_an_emulator_a_region_does_nothing() -> None:
    with regions.region("anything") as entered:
        assert entered is None


def test_too_many_regions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regions, "_numbers", {"first": 0})
    monkeypatch.setattr(regions, "_MAX_REGIONS", 1)
    regions.region("first")
    with pytest.raises(ValueError, match="'second': there are more than"):
        regions.region("second")
