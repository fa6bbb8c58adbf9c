"""The files that make up a model of each format, and the messages for other files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, List

import pytest

from exporter import export
from exporter.compare.witness import witness
from exporter.formats import FORMATS
from exporter.support import support
from runtime_arm.errors import ArmnetError, FormatError, MissingDependency, UsageError

COMPLETE = [row.suffixes[-1] for row in FORMATS]  # one model of each format, every file given


@pytest.mark.parametrize("paths", [[], ["a.onnx", "b.onnx"], ["a.txt"], ["a.prototxt"] * 2, ["a.pb", "b.pb", "c.pb"]])
def test_files_that_do_not_form_a_model_are_refused(paths: List[str]) -> None:
    for task in (export, support, lambda *files: witness(files, {})):
        with pytest.raises(UsageError, match=r"cannot \w+ .*: give an \.onnx file, a \.tflite file, a \.prototxt and"):
            task(*paths)


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


@pytest.mark.parametrize("package", ["onnx", "tflite"])
def test_without_the_package_of_a_format_the_extra_is_named(
    package: str, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = next((shared / "models" / package).glob(f"*/*.{package}"))
    for module in list(sys.modules):
        if module.startswith((f"exporter.{package}.", f"{package}.")) or module == package:
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(sys, "meta_path", [Withheld(package), *sys.meta_path])
    reading = (export, support) if package == "tflite" else ()  # armnet reads ONNX itself
    for task in (*reading, lambda path: witness([path], {})):
        with pytest.raises(MissingDependency, match=rf"needs the package {package}: pip install 'armnet\[export\]'"):
            task(file)
