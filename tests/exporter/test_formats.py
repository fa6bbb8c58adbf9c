"""The files that make up a model of each format, and the messages for other files."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any, List

import pytest

from exporter import export
from exporter.compare.original_run import run_original
from exporter.formats import FORMATS
from exporter.support import support
from runtime_arm.errors import ArmnetError, FormatError, MissingDependency, UsageError
from tests.support.paths import ROOT

COMPLETE = [row.suffixes[-1] for row in FORMATS]  # one model of each format, every file given


@pytest.mark.parametrize("paths", [[], ["a.onnx", "b.onnx"], ["a.txt"], ["a.prototxt"] * 2, ["a.pb", "b.pb", "c.pb"]])
def test_files_that_do_not_form_a_model_are_refused(paths: List[str], tmp_path: Path) -> None:
    files = [tmp_path / path for path in paths]
    for task in (export, support, lambda *files: run_original(files, {})):
        for file in files:
            file.write_bytes(b"something")
        with pytest.raises(UsageError, match=r"cannot \w+ .*: give an \.onnx file, a \.tflite file, a \.prototxt and"):
            task(*files)
        for file in set(files):
            file.unlink()
        if files:
            with pytest.raises(UsageError, match=f"{re.escape(str(files[0]))}: no such file"):
                task(*files)


@pytest.mark.parametrize("suffixes", COMPLETE, ids="".join)
def test_the_files_of_a_model_may_come_in_any_order(suffixes: List[str], tmp_path: Path) -> None:
    paths = [tmp_path / f"{index}{suffix}" for index, suffix in enumerate(suffixes)]
    for given in (paths, paths[::-1]):
        with pytest.raises(ArmnetError, match=r"[nN]o such file"):
            export(*given)


def test_one_of_two_nets_of_caffe2_is_not_enough_to_export(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"predict_net\.pb is one of two nets: give init_net\.pb and predict_net\.pb"):
        export(tmp_path / "predict_net.pb")


def test_a_tflite_file_is_recognised_by_its_content_where_its_suffix_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(b"\x10\0\0\0TFL3")
    for task in (export, support):
        with pytest.raises(FormatError, match=r"model\.bin: "):
            task(path)
    path.write_bytes(b"\x10\0\0\0ABCD")
    with pytest.raises(UsageError, match=r"cannot export .*model\.bin: give"):
        export(path)


class Withheld:
    """An import finder for which a package is not installed."""

    def __init__(self, package: str):
        self._package = package

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.partition(".")[0] == self._package:
            raise ModuleNotFoundError(f"No module named {self._package!r}", name=self._package)


@pytest.mark.parametrize("suffix", ["onnx", "tflite"])
def test_reading_needs_no_package_of_a_format(suffix: str, shared: Path) -> None:
    file = next((shared / "models" / suffix).glob(f"*/*.{suffix}"))
    program = f"""
import sys
sys.modules.update(dict.fromkeys(["onnx", "google", "tflite", "flatbuffers"]))
import armnet
assert not [row for row in armnet.support({str(file)!r}) if row.problem]
assert armnet.export({str(file)!r}).predict_net.op
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT, timeout=120)


@pytest.mark.parametrize(("package", "extra"), [("onnx", "export"), ("onnxruntime", "validate")])
def test_without_the_package_of_a_runtime_the_extra_is_named(
    package: str, extra: str, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = next((shared / "models/onnx").glob("*/*.onnx"))
    for module in list(sys.modules):
        if module.partition(".")[0] == package or module == "exporter.onnx.original_run":
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(sys, "meta_path", [Withheld(package), *sys.meta_path])
    with pytest.raises(MissingDependency, match=rf"needs the package {package}: pip install 'armnet\[{extra}\]'"):
        run_original([file], {})
