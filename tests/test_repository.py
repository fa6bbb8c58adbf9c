"""How the repository is kept: the size of its folders, what its packages import, what GitHub reads."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, Sequence

import pytest

from runtime_arm.imports import OURS
from tests.support.interpreter import NUMPY_ALONE, python
from tests.support.paths import ROOT, tracked

MOST_FILES = 25  # Python files in one folder, without __init__.py
GITHUB = ROOT / ".github"
TEMPLATES = sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yml"))


def test_no_folder_has_too_many_python_files() -> None:
    files = [path for path in tracked(*OURS, "tests", "scripts") if path.suffix == ".py" and path.stem != "__init__"]
    counts = Counter(str(path.parent) for path in files)
    assert sum(counts.values()) > 500
    assert {folder: count for folder, count in counts.items() if count > MOST_FILES} == {}


def test_what_patches_and_merges_leave_behind_is_not_kept() -> None:
    files = tracked("*")
    assert len(files) > 1500
    assert [path for path in files if path.suffix in (".orig", ".rej")] == []


def test_ruff_checks_the_python_scripts_that_have_no_suffix() -> None:
    scripts = [path for path in (ROOT / "scripts").iterdir() if path.is_file() and not path.suffix]
    ours = [path.name for path in scripts if path.read_bytes().startswith(b"#!/usr/bin/env python3")]
    line = re.search(r"^extend-include = (\[.*\])$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert line is not None
    assert json.loads(line[1]) == sorted(f"scripts/{name}" for name in ours)


@pytest.mark.parametrize(
    ("package", "without"),
    [
        ("runtime_arm", []),
        ("optimize", []),
        ("exporter", ["exporter.onnx", "exporter.to_onnx", "exporter.onnx_backend"]),
        (
            "armnet",
            ["armnet.onnx_backend", "armnet.device.count", "armnet.pytest_plugin", "armnet.serving.application"],
        ),
    ],
)
def test_modules_import_nothing_but_numpy(package: str, without: Sequence[str]) -> None:
    """A device has only NumPy, so modules outside ``without`` import other packages only where they use them."""
    program = f"""{NUMPY_ALONE}
import importlib, pkgutil
done = 0
for info in pkgutil.walk_packages(importlib.import_module({package!r}).__path__, "{package}."):
    excluded = any(f"{{info.name}}.".startswith(f"{{name}}.") for name in {list(without)!r})
    if not excluded and not info.name.endswith("__main__"):
        importlib.import_module(info.name)
        done += 1
print(done)
"""
    assert int(python(program)) > 20


def parsed(path: Path) -> Any:
    yaml = pytest.importorskip("yaml", reason="PyYAML reads what GitHub reads: pip install pyyaml")
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_github_runs_what_ci_runs() -> None:
    workflow = parsed(GITHUB / "workflows/ci.yml")
    assert set(workflow[True]) == {"push", "pull_request"}  # YAML 1.1 reads the key "on" as a Boolean
    (job,) = workflow["jobs"].values()
    assert job["steps"][-1]["run"] == "./.ci/run"
    versions = next(step["with"]["python-version"] for step in job["steps"] if "setup-python" in step.get("uses", ""))
    assert versions.split()[-1] == "3.11"  # the last version is the default
    assert "3.9" in versions.split()


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_issue_templates_ask_for_what_is_needed(path: Path) -> None:
    form = parsed(path)
    if path.stem == "config":
        assert form == {"blank_issues_enabled": True}
        return
    assert set(form) == {"name", "description", "labels", "body"}
    fields = {field["id"]: field for field in form["body"]}
    assert len(fields) == len(form["body"])
    for field in fields.values():
        assert field["type"] in {"textarea", "dropdown"}
        assert field["attributes"]["label"]
        if field["type"] == "dropdown":
            options = field["attributes"]["options"]
            assert all(isinstance(option, str) for option in options)
    assert fields["model"]["validations"]["required"]
    assert ("doctor" in fields) == (path.stem != "missing_operator")


def test_there_is_a_template_for_every_kind_of_issue() -> None:
    assert [path.stem for path in TEMPLATES] == ["bug", "config", "missing_operator", "wrong_answer"]
    assert "CONTRIBUTING.md" in (GITHUB / "PULL_REQUEST_TEMPLATE.md").read_text(encoding="utf-8")
