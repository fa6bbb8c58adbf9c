"""Where packages for emulated machines come from."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn, Optional

import pytest

from device_tests.host.emulation import sources
from device_tests.host.emulation.sources import DEBIAN, chosen_sources, write_sources


def no_keys() -> NoReturn:
    raise AssertionError("nobody asked for Debian's keys")


@pytest.mark.parametrize(
    ("release", "own"),
    [
        ("ID=debian\n", False),
        ('PRETTY_NAME=x\nID="debian"\n', False),
        ("ID=ubuntu\nID_LIKE=debian\n", True),
        ("ID=raspbian\nID_LIKE=debian\n", True),
        ("ID=fedora\n", True),
        (None, True),
    ],
)
def test_debians_own_are_used_where_the_host_is_another_system(
    release: Optional[str], own: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ARMNET_APT_SOURCES", raising=False)
    monkeypatch.setattr(sources, "OS_RELEASE", tmp_path / "os-release")
    monkeypatch.setattr(sources, "host_sources", lambda: [tmp_path / "host.list"])
    if release is not None:
        (tmp_path / "os-release").write_text(release)
    assert chosen_sources() == ([DEBIAN] if own else [tmp_path / "host.list"])


def test_the_variable_chooses_on_every_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.list").touch()
    monkeypatch.setenv("ARMNET_APT_SOURCES", str(tmp_path / "a.list"))
    assert chosen_sources() == [tmp_path / "a.list"]


@pytest.mark.parametrize("has_keys", [True, False])
def test_debians_keys_are_the_systems_or_unpacked_ones(
    has_keys: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system, unpacked = tmp_path / "system.gpg", tmp_path / "unpacked.gpg"
    if has_keys:
        system.touch()
    monkeypatch.setattr(sources, "SYSTEM_KEYS", system)
    write_sources([DEBIAN], tmp_path, "deb-src", no_keys if has_keys else lambda: unpacked)
    lines = (tmp_path / DEBIAN.name).read_text().splitlines()
    signed = {line for line in lines if line.startswith("Signed-By:")}
    own = "/usr/share/keyrings/debian-archive-keyring.gpg"
    assert signed == {f"Signed-By: {own if has_keys else unpacked}"}
    assert [line for line in lines if line.startswith("Types:")] == ["Types: deb-src"] * 2


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "a.list",
            "# deb x\ndeb [signed-by=/k] mirror:/x stable main\ndeb-src mirror:/x stable main\n",
            "# deb x\ndeb-src [signed-by=/k] mirror:/x stable main\n\n",
        ),
        ("a.sources", "Types: deb deb-src\nURIs: mirror:/deb\n", "Types: deb-src\nURIs: mirror:/deb\n"),
    ],
)
def test_package_sources_become_those_of_source_packages(tmp_path: Path, name: str, text: str, expected: str) -> None:
    (tmp_path / name).write_text(text)
    (tmp_path / "copy").mkdir()
    write_sources([tmp_path / name], tmp_path / "copy", "deb-src", no_keys)
    assert (tmp_path / "copy" / name).read_text() == expected
