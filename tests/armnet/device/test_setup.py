"""``armnet setup``: the scripts for devices, on machines whose programs note how they are called."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Iterator

import pytest

from armnet.__main__ import main
from armnet.commands.setup import KINDS
from armnet.device.setup import script_of
from device_tests.host.emulation.cache import EmulationUnavailable
from tests.support.commands import Armnet, refused
from tests.support.ssh_server import HOST, SshServer, ssh_server

PROGRAMS = ("apt-get", "sudo", "pkg", "sshd", "pgrep", "python", "python3", "hostname")


def fake_programs(folder: Path, calls: Path) -> None:
    """Programs that append their command line to the file ``calls`` and read all of their input."""
    for name in PROGRAMS:
        program = folder / name
        program.write_text(f'#!/bin/sh\necho {name} "$@" >> {calls}\ncat > /dev/null\n[ {name} != pgrep ]\n')
        program.chmod(0o755)


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes this machine one whose programs only note their calls, in the file that is returned."""
    fake_programs(tmp_path, tmp_path / "calls")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PREFIX", raising=False)
    return tmp_path / "calls"


def test_a_pi_gets_its_packages(device: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["setup", "pi", "local", "--tests"]) == 0, capfd.readouterr().err
    calls = device.read_text()
    assert "apt-get install --yes --no-install-recommends python3 python3-numpy" in calls
    assert "python3-pytest" in calls


def test_a_phone_gets_its_packages_and_an_ssh_server(
    armnet: Armnet, device: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFIX", "/data/data/com.termux/files/usr")
    status, out, _ = armnet("setup", "termux", "local", "--tests", "--json")
    assert status == 0
    facts = json.loads(out)
    assert facts["installed_on"] == "local"
    assert facts["packages"] == ["python", "python-numpy", "python-pillow", "openssh"]
    calls = device.read_text().splitlines()
    assert "pkg install --yes python python-numpy python-pillow openssh" in calls
    assert "python -m pip install --quiet pytest" in calls
    assert "sshd" in calls


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    try:
        with ssh_server(tmp_path_factory.mktemp("ssh")) as server:
            yield server
    except EmulationUnavailable as error:
        pytest.skip(str(error))


def test_a_pi_is_set_up_over_ssh(
    server: SshServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ARMNET_SSH_CONFIG", str(server.config))
    calls = server.folder / "calls"
    fake_programs(server.folder / "bin", calls)
    assert main(["setup", "pi", f"ssh://{HOST}"]) == 0, capfd.readouterr().err
    assert "apt-get install --yes --no-install-recommends python3 python3-numpy" in calls.read_text()


def test_what_fails_there_is_told_and_the_status_is_2(
    server: SshServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ARMNET_SSH_CONFIG", str(server.config))
    assert main(["setup", "termux", f"ssh://{HOST}"]) == 2
    assert "armnet setup termux: this is not Termux; name the phone" in capfd.readouterr().err
    assert main(["setup", "pi", "ssh://127.0.0.1:1", "--json"]) == 2
    told = capfd.readouterr()
    assert "ssh: connect to host 127.0.0.1 port 1" in told.err
    assert told.out == ""
    assert told.err.splitlines()[-1] == (
        "armnet: ssh://127.0.0.1:1 is not set up: exit status 255; the reason is given above"
    )


def test_mistakes_of_the_target(armnet: Armnet) -> None:
    refused(armnet("setup", "pi"), "give the machine", "local for this one")
    refused(armnet("setup", "pi", "emulated:arm64"), "takes ssh://[USER@]HOST[:PORT]", "'emulated:arm64'")
    refused(armnet("setup", "pi", "ssh://-oProxyCommand=x"), "is not an address")


@pytest.mark.parametrize("kind", KINDS)
def test_the_script_runs_from_standard_input_too(armnet: Armnet, kind: str) -> None:
    status, script, _ = armnet("setup", kind, "--script")
    assert (status, script) == (0, script_of(kind))
    listed = armnet("setup", kind, "--list")[1]
    command = ["bash", "-s", "--", "--list"]
    done = subprocess.run(command, input=script, capture_output=True, text=True, check=True)
    assert done.stdout == listed
    wrong = subprocess.run(["bash", "-s", "--", "--all"], input=script, capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
    assert wrong.stderr == f"armnet setup {kind}: unknown option --all; there are --tests and --list\n"
