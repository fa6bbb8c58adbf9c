"""Emulated machines run Python and NumPy, repair themselves, and say what is missing."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from armnet.__main__ import main
from device_tests.host import prepare
from device_tests.host.emulation.machine import Machine, emulated, with_variables
from device_tests.host.prepare import KEPT
from runtime_arm.errors import UsageError
from runtime_arm.machine.cache import cache_root

ABOUT_ITSELF = """
import json, platform, sys
import numpy as np
ones = np.ones((64, 32), np.float32)
print(json.dumps({
    "machine": platform.machine(), "pointer_bits": np.intp(0).nbytes * 8, "executable": sys.executable,
    "product": float((ones @ ones.T).sum()), "cpuinfo": open("/proc/cpuinfo").read(),
}))
"""

CHILDREN = """
import multiprocessing, platform, subprocess, sys

def machine(_):
    return platform.machine()

if __name__ == "__main__":
    print(subprocess.run([sys.executable, "-c", "import platform; print(platform.machine())"],
                         capture_output=True, text=True, check=True).stdout.strip())
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            print(*set(pool.map(machine, range(2))))
"""

UNAME = {"arm64": "aarch64", "armhf": "armv7l"}
POINTER_BITS = {"arm64": 64, "armhf": 32}
CPU_PARTS = {"cortex-a53": "0xd03", "cortex-a72": "0xd08", "cortex-a7": "0xc07", "max": "0x051"}


def is_running(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_numpy_runs(machine: Machine) -> None:
    done = machine.run(["-c", ABOUT_ITSELF], timeout=120)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["machine"] == UNAME[machine.architecture]
    assert answer["pointer_bits"] == POINTER_BITS[machine.architecture]
    assert answer["executable"] == str(machine.python)
    assert answer["product"] == 64 * 64 * 32
    assert CPU_PARTS[machine.cpu] in answer["cpuinfo"]


def test_numpy_uses_openblas(machine: Machine) -> None:
    program = "import numpy; numpy.ones((2, 2)) @ numpy.ones((2, 2)); print(open('/proc/self/maps').read())"
    assert "libopenblas" in machine.run(["-c", program], timeout=120).stdout


@pytest.mark.parametrize("name", ["arm64", "armhf"])
def test_subprocess_and_multiprocessing_stay_on_the_machine(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    machine: Machine = request.getfixturevalue(name)
    program = tmp_path / "children.py"
    program.write_text(CHILDREN)
    done = machine.run([str(program)], timeout=120)
    assert done.stdout.split() == [UNAME[machine.architecture]] * 3, done.stderr


def test_the_wrapper_is_an_ordinary_program(armhf: Machine) -> None:
    done = subprocess.run([armhf.python, "-c", "import sys; sys.exit(7)"], check=False)
    assert done.returncode == 7


def test_the_environment_is_the_one_given(arm64: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/of/the/host")
    program = "import os; print(os.environ.get('PYTHONPATH'), os.environ.get('GIVEN'))"
    assert arm64.run(["-c", program], timeout=60, env={"GIVEN": "here"}).stdout.split() == ["None", "here"]


def test_a_program_that_times_out_dies_with_its_children(arm64: Machine, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    program = (
        "import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); "
        f"open({str(pid_file)!r}, 'w').write(str(child.pid)); child.wait()"
    )
    with pytest.raises(subprocess.TimeoutExpired):
        arm64.run(["-S", "-c", program], timeout=5)
    child = int(pid_file.read_text())
    deadline = time.monotonic() + 60
    while is_running(child) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not is_running(child)


def test_unknown_machines_are_refused() -> None:
    with pytest.raises(UsageError, match="no emulated architecture 'mips'; there are arm64, armhf"):
        emulated("mips")
    with pytest.raises(UsageError, match="no emulated CPU 'arm1176' of armhf; there are cortex-a7"):
        emulated("armhf", "arm1176")


def test_a_broken_machine_is_repaired(arm64: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for part in ("qemu", "sysroot"):
        (tmp_path / part).symlink_to(cache_root() / part)
    monkeypatch.setenv("ARMNET_CACHE", str(tmp_path))
    machine = emulated("arm64", arm64.cpu)
    machine.python.unlink()
    assert emulated("arm64", arm64.cpu) == machine
    assert machine.run(["-c", "print('again')"], timeout=60).stdout == "again\n"
    given = with_variables(machine, "given", {"LD_LIBRARY_PATH": "/of/the/machine"})
    child = "import os; print(os.environ['LD_LIBRARY_PATH'])"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    assert given.run(["-c", program], timeout=60).stdout == "/of/the/machine\n"


class TestWhereItCannotBeHad:
    """``armnet device prepare`` says in one line what is missing, with exit status 2."""

    @pytest.fixture(autouse=True)
    def empty_cache(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ARMNET_CACHE", str(tmp_path / "cache"))

    def reason(self, capsys: pytest.CaptureFixture[str]) -> str:
        assert main(["device", "prepare", "arm64"]) == 2
        output = capsys.readouterr()
        *progress, line = output.err.splitlines()
        assert all("downloading" in line for line in progress)
        assert not output.out
        return line

    def test_without_apt(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        monkeypatch.setenv("PATH", "/nonexistent")
        assert self.reason(capsys).endswith("not installed here: apt-get, apt-config, dpkg, dpkg-deb, tar")

    @pytest.mark.skipif(shutil.which("apt-get") is None, reason="apt-get is not installed")
    def test_with_an_unreachable_mirror(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        sources = tmp_path / "nowhere.list"
        sources.write_text("deb [trusted=yes] file:/nonexistent/mirror stable main\n")
        monkeypatch.setenv("ARMNET_APT_SOURCES", str(sources))
        line = self.reason(capsys)
        assert "apt cannot download qemu-user" in line
        assert "/nonexistent/mirror" in line
        assert not list((tmp_path / "cache").rglob("*.partial"))

    def test_with_an_invalid_sources_file(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("ARMNET_APT_SOURCES", "/nonexistent.list")
        if shutil.which("apt-get") is None:
            pytest.skip("apt-get is not installed")
        assert "ARMNET_APT_SOURCES=/nonexistent.list is not a .list or .sources file" in self.reason(capsys)

    def test_unknown_parts(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["device", "prepare", "mips"]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line == "armnet: no part 'mips'; there are arm64, armhf, counting, full-system"


def test_the_key_changes_with_the_package_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = tmp_path / "a.list"
    monkeypatch.setenv("ARMNET_APT_SOURCES", str(sources))
    keys = []
    for text in ("deb mirror:/one stable main\n", "deb mirror:/two stable main\n", "deb mirror:/one stable main\n"):
        sources.write_text(text)
        keys.append(prepare.key())
    assert keys[0] == keys[2] != keys[1]
    assert re.fullmatch("[0-9a-f]{64}", keys[0])


def test_what_a_ci_keeps_is_all_that_a_machine_needs(arm64: Machine) -> None:
    inside = {arm64.root, arm64.qemu, arm64.root.joinpath("usr").resolve()}
    assert {path.relative_to(cache_root()).parts[0] for path in inside} == {"machine", "qemu", "sysroot"} <= set(KEPT)
