"""A real sshd on loopback whose logins land on an emulated ARM machine. It has its own keys, port and files, and runs
as any user.

sshd is unpacked into the cache, not installed. When root runs it, it requires /run/sshd and a user "sshd", which
libnss-wrapper simulates.
"""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator, List

from device_tests.host.emulation.apt import download_alone, host_architecture
from device_tests.host.emulation.cache import EmulationUnavailable, built, locked
from device_tests.host.emulation.sysroot import unpack
from runtime_arm.machine.cache import cache_root

PACKAGES = ("openssh-server", "libwrap0", "libnss-wrapper")
RECIPE = 1
PRIVILEGE_SEPARATION = Path("/run/sshd")
HOST = "device"  # an alias in the client's configuration


@dataclass(frozen=True)
class SshServer:
    """A running server. ``config`` is a client's configuration that calls it HOST; ``devices`` is TMPDIR on it."""

    folder: Path
    port: int
    config: Path
    devices: Path
    process: subprocess.Popen[bytes]

    def use_python(self, *command: object) -> None:
        """Makes ``python3`` on the device run this command."""
        python = self.folder / "bin/python3"
        python.write_text("#!/bin/sh\nexec " + " ".join(f"'{word}'" for word in command) + ' "$@"\n')
        python.chmod(0o755)

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def left_behind(self) -> List[str]:
        """What remains in the device's temporary folder once it has had up to 20 s to clean up."""
        deadline = time.monotonic() + 20
        while any(self.devices.iterdir()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return [path.name for path in self.devices.iterdir()]


def server_files() -> Path:
    """The root directory that contains sshd; raises EmulationUnavailable if it cannot be provided."""
    if shutil.which("ssh") is None or shutil.which("ssh-keygen") is None:
        raise EmulationUnavailable("this computer has no ssh client")
    cache = cache_root()

    def build(folder: Path) -> None:
        archives = folder / "archives"
        archives.mkdir()
        download_alone(PACKAGES, host_architecture(), archives)
        unpack(archives, folder / "root")
        shutil.rmtree(archives)

    with locked(cache):
        return built(cache / "sshd", [RECIPE, PACKAGES], build) / "root"


@contextmanager
def ssh_server(folder: Path) -> Iterator[SshServer]:
    """A server that lives in ``folder`` and admits the current user with a key that only ``config`` names."""
    root = server_files()
    for name in ("bin", "devices"):
        (folder / name).mkdir()
    for name in ("host", "user", "stranger"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    _configure(folder, port)
    made = os.getuid() == 0 and not PRIVILEGE_SEPARATION.exists()
    if made:
        PRIVILEGE_SEPARATION.mkdir(mode=0o755)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [root / "usr/sbin/sshd", "-D", "-e", "-f", folder / "sshd_config"],
            stdin=subprocess.DEVNULL,
            stderr=log,
            env=_environment(root, folder),
        )
    server = SshServer(folder, port, folder / "config", folder / "devices", process)
    try:
        _wait_until_it_listens(server)
        yield server
    finally:
        process.terminate()
        process.wait()
        if made:
            PRIVILEGE_SEPARATION.rmdir()


def _configure(folder: Path, port: int) -> None:
    (folder / "authorized_keys").write_text((folder / "user.pub").read_text())
    (folder / "login").write_text(
        f"#!/bin/sh\ncd {folder}\nexport TMPDIR={folder}/devices PATH={folder}/bin:/usr/bin:/bin\n"
        '[ ! -f profile ] || . ./profile\neval "$SSH_ORIGINAL_COMMAND"\n'
    )
    (folder / "login").chmod(0o755)
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized_keys\n"
        f"PidFile none\nUsePAM no\nStrictModes no\nPasswordAuthentication no\nForceCommand {folder}/login\n"
    )
    host_key = " ".join((folder / "host.pub").read_text().split()[:2])
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {host_key}\n")
    (folder / "config").write_text(
        f"Host {HOST}\n HostName 127.0.0.1\n Port {port}\n"
        f"Host *\n User {getpass.getuser()}\n IdentityFile {folder}/user\n IdentitiesOnly yes\n"
        f" UserKnownHostsFile {folder}/known_hosts\n GlobalKnownHostsFile none\n"
    )


def _environment(root: Path, folder: Path) -> dict[str, str]:
    passwd = folder / "passwd"
    passwd.write_text(Path("/etc/passwd").read_text() + "\nsshd:x:64999:64999::/run/sshd:/usr/sbin/nologin\n")
    (libraries,) = {path.parent for path in root.glob("usr/lib/*/libnss_wrapper.so")}
    return {
        "LD_LIBRARY_PATH": str(libraries),
        "LD_PRELOAD": str(libraries / "libnss_wrapper.so"),
        "NSS_WRAPPER_PASSWD": str(passwd),
        "NSS_WRAPPER_GROUP": "/etc/group",
        "PATH": "/usr/bin:/bin",
    }


def _wait_until_it_listens(server: SshServer) -> None:
    while "Server listening" not in server.log():
        if server.process.poll() is not None:
            raise EmulationUnavailable(f"sshd does not start here: {server.log().strip()}")
        time.sleep(0.02)
