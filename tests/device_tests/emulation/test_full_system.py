"""The emulated computer boots into Python, and its root directory is archived in the format that Linux reads."""

from __future__ import annotations

import io
import json
import stat
from pathlib import Path
from typing import Dict, Tuple

import pytest

from device_tests.host.emulation.boot_full_system import main
from device_tests.host.emulation.cache import EmulationUnavailable
from device_tests.host.emulation.full_system import FullSystem, full_system
from device_tests.host.emulation.initramfs import InitramfsWriter
from runtime_arm.machine.cache import cache_root

ABOUT_ITSELF = """
import json, os, platform, sys
import numpy as np
print(json.dumps({
    "machine": platform.machine(), "system": platform.version(), "cpus": os.cpu_count(), "first": os.getppid(),
    "memory_kib": int(open("/proc/meminfo").read().split()[1]), "copied": open("/some/where/file").read(),
    "product": float((np.ones((8, 8), np.float32) @ np.ones((8, 8), np.float32)).sum()), "given": os.environ["GIVEN"],
}))
sys.exit(3)
"""


@pytest.fixture(scope="module")
def computer() -> FullSystem:
    if not (cache_root() / "kernel").exists():
        pytest.skip("the full system is not prepared: armnet device prepare full-system")
    try:
        return full_system()
    except EmulationUnavailable as error:
        pytest.skip(str(error))


def test_it_boots_into_python(computer: FullSystem, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("from the host")
    done = computer.run(
        ["-c", ABOUT_ITSELF],
        timeout=300,
        env={"GIVEN": "yes"},
        copies={"/some/where/file": tmp_path / "file"},
        cpus=3,
        memory_mib=700,
    )
    assert done.returncode == 3, done.stdout
    answer = json.loads(done.stdout)
    assert "Debian" in answer.pop("system")
    assert 600 * 1024 < answer.pop("memory_kib") < 700 * 1024
    assert answer == {
        "machine": "aarch64",
        "cpus": 3,
        "first": 1,
        "copied": "from the host",
        "product": 512.0,
        "given": "yes",
    }


def test_too_little_memory_to_boot_is_reported(computer: FullSystem, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--memory", "100", "--", "-c", "pass"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "the emulated system stopped before -c pass ended" in line


def entries(archive: bytes) -> Dict[str, Tuple[int, bytes]]:
    """The mode and content of each entry of a cpio archive in the newc format, by name."""
    found: Dict[str, Tuple[int, bytes]] = {}
    at = 0
    while at < len(archive):
        assert archive[at : at + 6] == b"070701"
        fields = [int(archive[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in range(13)]
        mode, nbytes, name_nbytes = fields[1], fields[6], fields[11]
        name = archive[at + 110 : at + 109 + name_nbytes].decode()
        at += (110 + name_nbytes + 3) // 4 * 4
        found[name] = (mode, archive[at : at + nbytes])
        at += (nbytes + 3) // 4 * 4
    return found


def test_an_initramfs_holds_files_links_and_folders(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/odd").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("inner/odd")
    file = io.BytesIO()
    with InitramfsWriter(file) as archive:
        archive.add_tree("", tmp_path)
        archive.add_folders_above("a/b/copy")
        archive.add_tree("a/b/copy", tmp_path / "inner")
        archive.add_program("init", "#!/bin/true\n")
    found = entries(file.getvalue())
    assert list(found) == ["inner", "inner/odd", "link", "a", "a/b", "a/b/copy", "a/b/copy/odd", "init", "TRAILER!!!"]
    assert found["link"] == (stat.S_IFLNK | 0o777, b"inner/odd")
    assert found["a/b/copy/odd"][1] == b"12345"
    assert found["init"] == (stat.S_IFREG | 0o755, b"#!/bin/true\n")
    assert all(stat.S_ISDIR(found[name][0]) for name in ("inner", "a", "a/b", "a/b/copy"))
