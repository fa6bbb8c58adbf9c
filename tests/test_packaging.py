"""What a user gets by pip."""

from __future__ import annotations

import subprocess
import sys
import zipfile

import pytest

from tests.support.paths import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(folder),
        str(ROOT),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return zipfile.ZipFile(next(folder.glob("armnet-*.whl")))


def test_the_wheel_has_these_top_level_names_and_no_others(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist() if ".dist-info/" not in name}
    assert tops == {"armnet", "runtime_arm", "optimize", "exporter", "device_tests"}


def test_the_wheel_holds_every_module_and_the_schema(wheel: zipfile.ZipFile) -> None:
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    tracked = subprocess.run(
        ["git", "ls-files", "armnet", "runtime_arm", "optimize", "exporter", "device_tests"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    wanted = {name for name in tracked if name.endswith((".py", ".proto", ".desc", ".typed", ".c"))}
    assert wanted <= packed, f"not in the wheel: {sorted(wanted - packed)}"


def test_the_wheel_is_pure_python(wheel: zipfile.ZipFile) -> None:
    assert wheel.filename is not None
    assert wheel.filename.endswith("-py3-none-any.whl")


def test_the_command_starts_without_numpy() -> None:
    program = "import sys, armnet.__main__; print(sorted({'numpy', 'onnx', 'google'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
