"""Machines over ssh, through a real sshd whose logins land on an emulated ARM machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Iterator

import pytest

from device_tests.host.emulation.cache import EmulationUnavailable
from device_tests.host.emulation.machine import Machine
from device_tests.host.targets.ssh import Address, SshTarget, parse_address
from device_tests.host.targets.target import DeviceError
from runtime_arm.errors import UsageError
from tests.support.paths import ROOT
from tests.support.ssh_server import HOST, SshServer, ssh_server

NAME = f"ssh://{HOST}"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    try:
        with ssh_server(tmp_path_factory.mktemp("ssh")) as server:
            yield server
    except EmulationUnavailable as error:
        pytest.skip(str(error))


@pytest.fixture
def server(running: SshServer, monkeypatch: pytest.MonkeyPatch) -> SshServer:
    """The server in its default state; the device's Python is the one that runs the tests."""
    monkeypatch.setenv("ARMNET_SSH_CONFIG", str(running.config))
    (running.folder / "profile").unlink(missing_ok=True)
    running.use_python(sys.executable)
    return running


def refused(server: SshServer, *fragments: str, name: str = NAME) -> None:
    """Opening the target fails with a message of one line, and leaves nothing behind."""
    with pytest.raises(DeviceError) as caught, SshTarget(name):
        pass
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(name)
    for fragment in fragments:
        assert fragment in message
    assert server.left_behind() == []


def test_files_are_copied_programs_run_and_results_come_back(server: SshServer, arm64: Machine, tmp_path: Path) -> None:
    server.use_python(arm64.python)
    (tmp_path / "data").write_bytes(bytes(range(256)) * 9999)
    (tmp_path / "module.py").write_text(
        "import platform, sys\n"
        "data = open('a b/$(touch x)\\'').read\n"
        "print(platform.machine(), *sys.argv[1:])\n"
        "open('result', 'wb').write(open('a b/;x', 'rb').read()[::-1])\n"
        "sys.exit(5)\n"
    )
    (tmp_path / "odd").write_text("")
    files = {"a b/;x": tmp_path / "data", "a b/$(touch x)'": tmp_path / "odd", "module.py": tmp_path / "module.py"}
    with SshTarget(NAME) as target:
        target.deploy(files)
        done = target.run(["-m", "module", "two words", "'; rm -rf $HOME", "-x"])
        assert (done.returncode, done.stdout, done.stderr) == (5, "aarch64 two words '; rm -rf $HOME -x\n", "")
        assert target.fetch("result") == (bytes(range(256)) * 9999)[::-1]
        with pytest.raises(DeviceError, match="No such file"):
            target.fetch("nowhere")
    assert server.left_behind() == []


def test_the_output_of_a_login_script_is_ignored(server: SshServer) -> None:
    (server.folder / "profile").write_text("echo welcome\necho to the device >&2\n")
    with SshTarget(NAME) as target:
        assert target.output(["-c", "print(1)"]) == "1\n"


def test_addresses_may_have_a_user_and_a_port(server: SshServer) -> None:
    import getpass

    with SshTarget(f"ssh://{getpass.getuser()}@127.0.0.1:{server.port}") as target:
        assert target.output(["-c", "print(1)"]) == "1\n"


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("ssh://pi", Address("pi", None)),
        ("ssh://10.0.0.2/", Address("10.0.0.2", None)),
        ("ssh://pi@raspberry.local:2222", Address("pi@raspberry.local", 2222)),
        ("ssh://u0_a1@[fe80::1%wlan0]:8022", Address("u0_a1@fe80::1%wlan0", 8022)),
    ],
)
def test_addresses(name: str, address: Address) -> None:
    assert parse_address(name) == address


@pytest.mark.parametrize(
    "name",
    [
        "ssh://",
        "ssh://-oProxyCommand=x",
        "ssh://-l@host",
        "ssh://a b",
        "ssh://host;x",
        "ssh://$(x)",
        "ssh://host:0",
        "ssh://host:65536",
        "ssh://host:-1",
        "ssh://host/path",
        "ssh://user@",
        "ssh://h\nx",
        "ssh://u@h@i",
        "ssh://\u0661",
    ],
)
def test_invalid_addresses_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is not an address"):
        parse_address(name)


def test_a_dead_host(server: SshServer) -> None:
    refused(server, "Connection refused", name="ssh://127.0.0.1:1")
    refused(server, "nowhere.invalid", name="ssh://nowhere.invalid")


def test_a_wrong_key(server: SshServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = server.config.read_text().replace(f"{server.folder}/user", f"{server.folder}/stranger")
    (tmp_path / "config").write_text(config)
    monkeypatch.setenv("ARMNET_SSH_CONFIG", str(tmp_path / "config"))
    refused(server, "Permission denied (publickey")


def test_an_unknown_host_and_a_host_that_has_changed(
    server: SshServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "known_hosts").write_text("")
    (tmp_path / "config").write_text(server.config.read_text().replace(f"{server.folder}/known", f"{tmp_path}/known"))
    monkeypatch.setenv("ARMNET_SSH_CONFIG", str(tmp_path / "config"))
    refused(server, "Host key verification failed")
    changed = " ".join((server.folder / "stranger.pub").read_text().split()[:2])
    (tmp_path / "known_hosts").write_text(f"[127.0.0.1]:{server.port} {changed}\n")
    refused(server, "Host key verification failed")


def test_a_device_without_numpy(server: SshServer) -> None:
    server.use_python(sys.executable, "-S")
    refused(server, "no NumPy", "apt-get install python3-numpy")


def test_a_python_that_is_too_old(server: SshServer, tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text("import sys\nsys.version_info = (3, 7, 3)\nexec(sys.argv[2])\n")
    server.use_python(sys.executable, tmp_path / "old.py")
    refused(server, "Python 3.7.3", "3.9 or newer is needed")


def test_no_python_at_all(server: SshServer) -> None:
    with pytest.raises(DeviceError, match="there is no such program"), SshTarget(NAME, "python3.99"):
        pass
    with pytest.raises(DeviceError, match="there is no such program"), SshTarget(NAME, "'$(touch x)"):
        pass
    assert not (server.folder / "x").exists()


def test_a_file_over_the_size_limit(server: SshServer, tmp_path: Path) -> None:
    (server.folder / "profile").write_text("ulimit -f 8\n")  # the largest size of a file, in blocks
    (tmp_path / "big").write_bytes(bytes(5_000_000))
    with pytest.raises(DeviceError, match="too large"), SshTarget(NAME) as target:
        target.deploy({"big": tmp_path / "big"})
    assert server.left_behind() == []


def test_a_full_disk(server: SshServer, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "armnet", str(small)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a small file system")
    try:
        (server.folder / "profile").write_text(f"TMPDIR={small}\n")
        (tmp_path / "big").write_bytes(bytes(5_000_000))
        with pytest.raises(DeviceError, match="No space left on device"), SshTarget(NAME) as target:
            target.deploy({"big": tmp_path / "big"})
        assert list(small.iterdir()) == []
    finally:
        subprocess.run(["umount", small], check=True)


def test_a_temporary_folder_that_cannot_be_written(server: SshServer) -> None:
    (server.folder / "profile").write_text("ulimit -f 0\ncd /proc\n")
    refused(server, "temporary directory")


def test_stderr_is_delivered_while_the_program_runs(server: SshServer, tmp_path: Path) -> None:
    program = f"""
import os, sys, time
print("ready", file=sys.stderr, flush=True)
while not os.path.exists({str(tmp_path / "heard")!r}):
    time.sleep(0.02)
print("done")
"""
    with SshTarget(NAME) as target:
        done = target.run(["-c", program], 60, lambda line: (tmp_path / "heard").write_text(line) and None)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "ready\n")
    assert (tmp_path / "heard").read_text() == "ready\n"


def test_a_program_that_is_killed(server: SshServer) -> None:
    with pytest.raises(DeviceError, match="killed there by signal 9"), SshTarget(NAME) as target:
        target.run(["-c", "import os; os.kill(os.getpid(), 9)"])
    assert server.left_behind() == []


def test_a_program_that_times_out_is_stopped_on_the_device(server: SshServer) -> None:
    program = f"import os, time; open('{server.folder}/pid', 'w').write(str(os.getpid())); time.sleep(600)"
    with pytest.raises(DeviceError, match="no answer in time"), SshTarget(NAME) as target:
        target.run(["-c", program], timeout=2)
    assert server.left_behind() == []
    assert not Path("/proc", (server.folder / "pid").read_text()).exists()


# Kills the sshd that serves this connection and creates the file named by its argument; does neither if it exists.
DROP = """
import os, sys, time

def field(pid, name):
    return next(line.split()[1] for line in open(f"/proc/{pid}/status") if line.startswith(name))

pid = os.getpid()
while field(pid, "Name") != "sshd":
    pid = int(field(pid, "PPid"))
if not os.path.exists(sys.argv[1]):
    open(sys.argv[1], "w")
    os.kill(pid, 9)
    time.sleep(600)
print("done")
"""


def test_a_dropped_connection_is_reopened(
    server: SshServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "drop.py").write_text(DROP)
    with SshTarget(NAME) as target:
        target.deploy({"drop.py": tmp_path / "drop.py"})
        assert target.output(["drop.py", str(tmp_path / "once")]) == "done\n"
    assert "ssh://device: the connection was lost" in capsys.readouterr().err
    assert server.left_behind() == []


def test_a_connection_that_drops_again_is_given_up(server: SshServer, tmp_path: Path) -> None:
    (tmp_path / "drop.py").write_text(DROP)
    with SshTarget(NAME) as target:
        target.deploy({"drop.py": tmp_path / "drop.py"})
        with pytest.raises(DeviceError, match="connection was lost") as caught:
            target.run(["drop.py", "once"])  # relative to the target's folder, which is a new one after each drop
        assert "\n" not in str(caught.value)
    assert server.left_behind() == []


def test_when_this_side_is_killed_the_device_cleans_up(server: SshServer) -> None:
    program = f"""
from device_tests.host.targets.ssh import SshTarget
with SshTarget({NAME!r}) as target:
    print("open", flush=True)
    target.run(["-c", "import os, time; open('{server.folder}/pid', 'w').write(str(os.getpid())); time.sleep(600)"])
"""
    root = ROOT
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=root) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        assert list(server.devices.iterdir())
        process.send_signal(signal.SIGKILL)
    assert server.left_behind() == []


def test_leftovers_of_a_lost_session_are_removed_by_the_next(server: SshServer) -> None:
    (server.devices / "armnet-device-lost/inner").mkdir(parents=True)
    with SshTarget(NAME), SshTarget(NAME) as other:
        assert len(list(server.devices.iterdir())) == 2
        assert other.output(["-c", "print(1)"]) == "1\n"
    assert server.left_behind() == []


def test_a_file_that_changes_while_it_is_copied(server: SshServer, tmp_path: Path) -> None:
    class Growing(type(tmp_path)):  # type: ignore[misc]
        """Claims to be longer than it is."""

        def stat(self, **options: bool) -> os.stat_result:
            return os.stat_result((*super().stat(**options)[:6], 100, 0, 0, 0))

    (tmp_path / "file").write_bytes(b"x" * 99)
    with pytest.raises(DeviceError, match="file became shorter while it was being copied"), SshTarget(NAME) as target:
        target.deploy({"file": Growing(tmp_path / "file")})
    assert server.left_behind() == []
