"""The public names: each is on a page of the reference, and the examples in the docstrings print what they show."""

from __future__ import annotations

import doctest
import inspect
from pathlib import Path
from typing import List

import pytest

import armnet
from tests.docs.pages import DOCS
from tests.support.paths import DEMO

MODULES = [name for name in armnet.__all__ if inspect.ismodule(getattr(armnet, name))]
OBJECTS = [name for name in armnet.__all__ if name not in MODULES]


@pytest.mark.parametrize("name", OBJECTS)
def test_examples_print_what_they_show(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("onnx", "onnxruntime", "PIL"):
        pytest.importorskip(package, reason=f"the examples need {package}")
    (tmp_path / "demo").symlink_to(DEMO)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ARMNET_CACHE", str(tmp_path / "cache"))
    tests = [one for one in doctest.DocTestFinder().find(getattr(armnet, name), name, globs={}) if one.examples]
    assert tests, f"armnet.{name} has no example"
    told: List[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for one in tests:
        runner.run(one, out=told.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(told)


@pytest.mark.parametrize("name", armnet.__all__)
def test_every_public_name_is_in_the_reference(name: str) -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in (DOCS / "api").glob("*.md"))
    assert f"\n::: armnet.{name}\n" in pages
