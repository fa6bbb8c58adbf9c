"""The Debian package: its fields and files, its dependencies, and the command on an emulated machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from email.message import Message
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Dict

import pytest

from armnet.device.setup import packages_of
from device_tests.host.emulation import sources
from device_tests.host.emulation.apt import require_packages
from device_tests.host.emulation.cache import EmulationUnavailable
from device_tests.host.emulation.machine import emulated
from device_tests.host.emulation.tools import require_tools
from runtime_arm.version import VERSION
from tests.support.paths import SCRIPTS
from tests.support.publishing.distributions import REPOSITORY, Distributions

PATH = {"PATH": os.environ["PATH"]}
MODULES = Path("usr/lib/python3/dist-packages")


@pytest.fixture(scope="module")
def package(distributions: Distributions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("dpkg-deb") is None:
        pytest.skip("dpkg-deb is not installed")
    output = tmp_path_factory.mktemp("debian")
    command = [sys.executable, str(SCRIPTS / "debian_package"), "--wheel", str(distributions.wheel), "-o", str(output)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "86400", "DEBEMAIL": "anna@host.example"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    path = Path(done.stdout.strip())
    assert path == output / f"armnet_{VERSION}_all.deb"
    return path


@pytest.fixture(scope="module")
def unpacked(package: Path) -> Path:
    tree = package.with_name("tree")
    subprocess.run(["dpkg-deb", "--raw-extract", str(package), str(tree)], check=True)
    return tree


def test_its_fields(unpacked: Path) -> None:
    lines = (unpacked / "DEBIAN/control").read_text().splitlines()
    fields: Dict[str, str] = dict(line.split(": ", 1) for line in lines if not line.startswith(" "))
    assert fields["Package"] == "armnet"
    assert fields["Version"] == VERSION
    assert fields["Architecture"] == "all"
    assert fields["Depends"] == "python3 (>= 3.9), python3-numpy (>= 1:1.19)"
    assert fields["Homepage"] == REPOSITORY
    assert fields["Maintainer"] == "The authors of armnet <anna@host.example>"
    nbytes = sum(path.stat().st_size for path in (unpacked / "usr").rglob("*") if path.is_file())
    assert nbytes <= int(fields["Installed-Size"]) * 1024 < 1.5 * nbytes


def test_its_maintainer_is_who_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    loader = SourceFileLoader("debian_package", str(SCRIPTS / "debian_package"))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    script = module_from_spec(spec)
    loader.exec_module(script)
    for variable in ("DEBFULLNAME", "DEBEMAIL"):
        monkeypatch.delenv(variable, raising=False)
    alone, address = Message(), Message()
    alone["Author"], address["Author-email"] = "Anna", "Anna <anna@host.example>"
    assert [script.maintainer_of(one) for one in (alone, address)] == ["Anna", "Anna <anna@host.example>"]
    monkeypatch.setenv("DEBEMAIL", "berta@host.example")
    assert [script.maintainer_of(one) for one in (alone, address)] == ["Anna <berta@host.example>"] * 2
    monkeypatch.setenv("DEBFULLNAME", "Berta")
    assert script.maintainer_of(alone) == "Berta <berta@host.example>"


def test_it_holds_what_the_wheel_holds(unpacked: Path, distributions: Distributions) -> None:
    packed = {str(path.relative_to(unpacked / MODULES)) for path in (unpacked / MODULES).rglob("*") if path.is_file()}
    assert packed == set(zipfile.ZipFile(distributions.wheel).namelist())
    subprocess.run(["md5sum", "--check", "--quiet", "DEBIAN/md5sums"], cwd=unpacked, check=True)
    for document in ("copyright", "changelog.gz"):
        assert (unpacked / "usr/share/doc/armnet" / document).stat().st_size > 100


def test_files_belong_to_root_and_are_as_old_as_asked(package: Path) -> None:
    listed = subprocess.run(
        ["dpkg-deb", "--contents", str(package)], capture_output=True, text=True, check=True, env={"TZ": "UTC", **PATH}
    ).stdout.splitlines()
    for line in listed:
        mode, owner, _, date = line.split()[:4]
        assert owner == "root/root"
        assert date == "1970-01-02"
        executable = line.endswith(("/", "./usr/bin/armnet"))
        assert mode[1:] == ("rwxr-xr-x" if executable else "rw-r--r--"), line


@pytest.mark.parametrize("architecture", ["arm64", "armhf"])
def test_apt_finds_all_that_it_and_armnet_setup_need(
    package: Path, architecture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        require_tools()
    except EmulationUnavailable as error:
        pytest.skip(str(error))
    if architecture == "arm64":  # as on Ubuntu: from Debian, with keys that are unpacked from a package
        monkeypatch.delenv("ARMNET_APT_SOURCES", raising=False)
        monkeypatch.setenv("ARMNET_CACHE", str(tmp_path / "cache"))
        (tmp_path / "os-release").write_text('NAME="Ubuntu"\nID=ubuntu\nID_LIKE=debian\n')
        monkeypatch.setattr(sources, "OS_RELEASE", tmp_path / "os-release")
        monkeypatch.setattr(sources, "SYSTEM_KEYS", tmp_path / "none")
        assert sources.chosen_sources() == [sources.DEBIAN]
    require_packages([*packages_of("pi", ["--tests"]), str(package)], architecture, tmp_path / "apt")


def test_the_command_runs_on_an_emulated_machine(unpacked: Path) -> None:
    try:
        machine = emulated("armhf")
    except EmulationUnavailable as error:
        pytest.skip(str(error))
    environment = {"PYTHONPATH": str(unpacked / MODULES), "PYTHONDONTWRITEBYTECODE": "1"}
    done = machine.run([str(unpacked / "usr/bin/armnet"), "--version"], timeout=120, env=environment)
    assert done.stdout == f"armnet {VERSION}\n", done.stderr
