"""Packages that not every machine has."""

from __future__ import annotations

import pytest

from runtime_arm.errors import MissingDependency
from runtime_arm.imports import needed_for


def test_a_missing_package_is_named_with_what_installs_it() -> None:
    wanted = r"reading it needs the package onnx: pip install 'armnet\[export\]'"
    with pytest.raises(MissingDependency, match=wanted), needed_for("reading it"):
        raise ModuleNotFoundError("No module named 'onnx.helper'", name="onnx.helper")


def test_a_bundle_names_the_package_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match="package PIL: pip install pillow"), needed_for("a picture"):
        raise ModuleNotFoundError("No module named 'PIL'", name="PIL")


def test_a_missing_module_of_our_own_is_a_bug_and_keeps_its_traceback() -> None:
    with pytest.raises(ModuleNotFoundError), needed_for("reading it"):
        raise ModuleNotFoundError("No module named 'exporter.nothing'", name="exporter.nothing")
