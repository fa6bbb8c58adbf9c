"""What pip installs."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile

import pytest

from runtime_arm.imports import OURS
from tests.support.paths import ROOT, tracked


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel, built from a clean copy: setuptools would pack the leftovers of earlier builds."""
    folder = tmp_path_factory.mktemp("wheel")
    for path in tracked():
        target = folder / "source" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, target)
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    command = [sys.executable, "-m", "pip", "wheel", *options, str(folder / "source")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return zipfile.ZipFile(next(folder.glob("armnet-*.whl")))


def test_the_wheel_has_these_top_level_names_and_no_others(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist() if ".dist-info/" not in name}
    assert tops == set(OURS)


def test_the_wheel_holds_every_module_and_the_schema_and_no_other_module(wheel: zipfile.ZipFile) -> None:
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    wanted = {
        str(path)
        for path in tracked(*OURS)
        if path.suffix in (".py", ".proto", ".desc", ".typed", ".c", ".cl", ".html", ".css", ".js")
    }
    assert wanted <= packed, f"not in the wheel: {sorted(wanted - packed)}"
    modules = {name for name in packed if name.endswith(".py")}
    assert modules <= wanted, f"in the wheel alone: {sorted(modules - wanted)}"


def test_the_wheel_is_pure_python(wheel: zipfile.ZipFile) -> None:
    assert wheel.filename is not None
    assert wheel.filename.endswith("-py3-none-any.whl")


def test_the_command_starts_without_numpy() -> None:
    program = "import sys, armnet.__main__; print(sorted({'numpy', 'onnx', 'google'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_pytest_finds_the_plugin(wheel: zipfile.ZipFile) -> None:
    (name,) = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
    assert "[pytest11]\narmnet = armnet.pytest_plugin.plugin\n" in wheel.read(name).decode()


def test_the_pytest_plugin_imports_nothing_until_it_is_used() -> None:
    program = """import sys, pytest; before = set(sys.modules)
import armnet.pytest_plugin.plugin
print(sorted({name.partition('.')[0] for name in set(sys.modules) - before}), 'numpy' in sys.modules)"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['armnet', 'runtime_arm'] False"
