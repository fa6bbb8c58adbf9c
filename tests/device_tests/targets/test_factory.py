"""Targets on this computer, and the errors when they cannot be used."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Iterator, List

import pytest

from device_tests.host.emulation.cache import EmulationUnavailable
from device_tests.host.suite_run import runtime_files
from device_tests.host.targets.factory import known_targets, target_of
from device_tests.host.targets.target import DeviceError, Target, last_line
from runtime_arm.errors import UsageError

NAMES = ["local", "emulated:arm64", "emulated:armhf"]


@pytest.fixture(params=NAMES)
def target(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Target]:
    """Each kind of target in turn, open, with its folder in ``tmp_path``; it must leave nothing there."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    try:
        with target_of(request.param) as opened:
            yield opened
    except EmulationUnavailable as error:
        pytest.skip(str(error))
    assert list(tmp_path.glob("armnet-device-*")) == []


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(
        "import os, sys\nopen('result', 'wb').write(open('in/data', 'rb').read()[::-1])\nprint(*sys.argv[1:])\n"
        "print('problem', file=sys.stderr)\nsys.exit(int(sys.argv[1]))\n"
    )
    return path


def test_programs_run_in_a_folder_of_their_own(target: Target, program: Path, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"abc")
    target.deploy({"program.py": program, "in/data": tmp_path / "data"})
    done = target.run(["program.py", "3", "a b"])
    assert (done.returncode, done.stdout, done.stderr) == (3, "3 a b\n", "problem\n")
    assert target.fetch("result") == b"cba"
    assert target.output(["program.py", "0"]) == "0\n"
    with pytest.raises(DeviceError, match=f"{target.name}: problem$"):
        target.output(["program.py", "1"])
    with pytest.raises(DeviceError, match="nowhere: No such file"):
        target.fetch("nowhere")


def test_the_machine_identifies_itself(target: Target) -> None:
    target.deploy(runtime_files())
    machines = {"local": os.uname().machine, "emulated:arm64": "aarch64", "emulated:armhf": "armv7l"}
    identity = target.identity()
    assert identity["machine"] == machines[target.name]
    assert identity["numpy"]
    assert json.dumps(identity)


def test_timeouts_and_killed_programs_are_reported(target: Target) -> None:
    with pytest.raises(DeviceError, match="not finished after 2 s"):
        target.run(["-S", "-c", "import time; time.sleep(600)"], timeout=2)
    with pytest.raises(DeviceError, match="killed there by signal 9"):
        target.run(["-S", "-c", "import os; os.kill(os.getpid(), 9)"])


def test_stderr_is_delivered_while_the_program_runs(target: Target, tmp_path: Path) -> None:
    program = f"""
import os, sys, time
print("ready", file=sys.stderr, flush=True)
while not os.path.exists({str(tmp_path / "heard")!r}):
    time.sleep(0.02)
"""
    done = target.run(["-S", "-c", program], 60, lambda line: (tmp_path / "heard").write_text(line) and None)
    assert (done.returncode, done.stderr) == (0, "ready\n")
    assert (tmp_path / "heard").read_text() == "ready\n"


def test_a_file_that_cannot_be_copied(target: Target, tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="cannot copy"):
        target.deploy({"x": tmp_path / "nowhere"})


def test_closing_twice_does_nothing(target: Target) -> None:
    target.close()
    target.close()


def test_every_listed_target_can_be_named() -> None:
    names: List[str] = [name for name, _ in known_targets()]
    assert "local" in names
    assert "emulated:arm64:cortex-a53" in names
    assert all(what for _, what in known_targets())


@pytest.mark.parametrize(
    "name", ["", "pi", "emulated", "emulated:mips", "emulated:arm64:z80", "full-system:armhf", "ftp://x"]
)
def test_unknown_targets_are_refused(name: str) -> None:
    with pytest.raises(UsageError):
        target_of(name)


@pytest.mark.parametrize("name", ["ssh://pi@board", "full-system:arm64"])
def test_only_targets_on_this_computer_are_given_a_driver(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} runs kernels with its own driver"):
        target_of(name, with_driver=True)


def test_the_last_line_is_the_last_that_is_not_blank() -> None:
    assert last_line("a\n b \n\n") == "b"
    assert last_line(" \n") == ""
