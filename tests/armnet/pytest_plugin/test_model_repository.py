"""A model's repository with ten lines of tests and a workflow, which runs as on GitHub: it passes, it fails and why."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any, Callable, Dict, Tuple

import numpy as np
import pytest

from device_tests.host.counting.regions import counting_plugin
from device_tests.host.emulation.cache import EmulationUnavailable
from device_tests.host.emulation.machine import emulated
from runtime_arm import Pair
from runtime_arm.machine.cache import cache_root
from runtime_arm.netdef import OperatorDef
from tests.support.paths import DEMO, ROOT
from tests.support.publishing.bare_commands import bare_python
from tests.support.publishing.distributions import Distributions

pytest.importorskip("yaml", reason="PyYAML reads workflows: pip install pyyaml")
pytest.importorskip("onnxruntime", reason="the original is run by onnxruntime: pip install 'armnet[validate]'")
from tests.support.publishing.workflows import Runner, parsed

EXAMPLES = 12
TESTS = """\
from armnet.pytest_plugin import assert_same_answers, assert_within_budget


def test_answers(armnet_model, armnet_device):
    assert_same_answers(armnet_model, "digits_fast", "held_back.npz", armnet_device, top1=0.99, tolerance=1e-4)


def test_budget(armnet_model, armnet_device):
    assert_within_budget(armnet_model, armnet_device)
"""
WORKFLOW = """\
on: push
jobs:
  models:
    uses: OWNER/armnet/.github/workflows/test-model.yml@main
    with:
      armnet-repository: OWNER/armnet
      devices: emulated:arm64
"""
Run = Callable[..., Runner]


@pytest.fixture
def repository(tmp_path: Path, digits: Path) -> Path:
    """The digits, the pair made of them, some examples, ten lines of tests and a workflow."""
    folder = tmp_path / "repository"
    (folder / ".github/workflows").mkdir(parents=True)
    shutil.copy(DEMO / "digits.onnx", folder)
    shutil.copytree(digits, folder / "digits_fast")
    with np.load(DEMO / "held_back.npz") as archive:
        np.savez(folder / "held_back.npz", **{name: archive[name][:EXAMPLES] for name in archive.files})
    (folder / "pytest.ini").write_text("[pytest]\narmnet_models = digits.onnx\n")
    (folder / "test_model.py").write_text(TESTS)
    (folder / ".github/workflows/models.yml").write_text(WORKFLOW)
    return folder


@pytest.fixture(scope="module")
def python(distributions: Distributions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python of an environment of its own, where armnet is the wheel and its requirements are those of this one."""
    folder = tmp_path_factory.mktemp("environment")
    here = Path(np.__file__).parents[1]
    python = bare_python(sys.executable, [here], folder)
    (packages,) = folder.glob("lib/python3.*/site-packages")
    zipfile.ZipFile(distributions.wheel).extractall(packages)
    return python


def clean_environment(python: Path, home: Path) -> Dict[str, str]:
    return {
        "PATH": f"{python.parent}:/usr/bin:/bin",
        "HOME": str(home),
        "ARMNET_CACHE": str(cache_root()),
        "OPENBLAS_NUM_THREADS": "1",
    }


@pytest.fixture
def run(repository: Path, python: Path, distributions: Distributions, tmp_path: Path) -> Run:
    """Runs the workflow that the repository's own calls, with its inputs and others, in a clean environment."""
    called: Dict[str, Any] = parsed(ROOT / ".github/workflows/test-model.yml")

    def run_workflow(**others: str) -> Runner:
        (job,) = parsed(repository / ".github/workflows/models.yml")["jobs"].values()
        declared = called["on"]["workflow_call"]["inputs"]
        assert job["uses"].endswith("/.github/workflows/test-model.yml@main")
        assert {name for name, facts in declared.items() if facts.get("required")} <= set(job["with"]) <= set(declared)
        inputs = {**{name: facts.get("default", "") for name, facts in declared.items()}, **job["with"], **others}
        inputs["armnet"] = f"{distributions.wheel}[pytest,validate]"
        shutil.rmtree(tmp_path / "runner", ignore_errors=True)
        (tmp_path / "runner").mkdir()
        runner = Runner(repository, tmp_path / "runner", clean_environment(python, tmp_path / "runner"))
        (steps,) = (job["steps"] for job in called["jobs"].values())
        runner.run(steps, inputs)
        return runner

    return run_workflow


def table(summary: str) -> Tuple[Dict[str, str], str]:
    """The one row of a summary's table, by column, and what follows the table."""
    title, heads, line, values, rest = [part.strip() for part in re.split(r"\n+", summary, maxsplit=4)]
    assert title == "### Models on devices"
    assert set(line) == set("| -:")
    return dict(zip(heads.strip("| ").split(" | "), values.strip("| ").split(" | "))), rest


def test_a_model_passes_and_fails_when_it_exceeds_its_budget(repository: Path, run: Run) -> None:
    try:
        emulated("arm64")
        counting_plugin()
    except EmulationUnavailable as error:
        pytest.skip(str(error))
    assert not run(**{"pytest-arguments": "-k budget --armnet-update-budgets"}).failed
    path = repository / "budgets" / "digits.json"
    written = json.loads(path.read_text())

    runner = run()
    assert not runner.failed, runner.output
    assert runner.used == ["actions/checkout@v4"] * 2 + [
        "actions/setup-python@v5",
        "actions/cache@v4",
        "actions/upload-artifact@v4",
    ]
    budget = written["machines"]["arm64-cortex-a72"]
    instructions, memory = budget["network"]["instructions"], sum(budget["memory"].values())
    cells, rest = table(runner.summary)
    assert (cells["model"], cells["device"], cells["result"]) == ("digits.onnx", "emulated:arm64", "passed (2)")
    assert (cells["instructions"], cells["memory"]) == (f"{instructions:,}", f"{memory:,}")
    assert (cells["agreement"], cells["top1"]) == ("1", "1")
    assert 0 <= float(cells["error"]) < 1e-4
    assert rest == ""
    report = (runner.temporary / "armnet-reports/report.xml").read_text()
    for name in ("model", "device", "agreement", "error", "top1", "memory", "instructions"):
        assert f'<property name="armnet_{name}" value=' in report

    budget["network"]["instructions"] //= 2
    dearest = max(budget["operators"], key=budget["operators"].get)
    budget["operators"][dearest] //= 2
    path.write_text(json.dumps(written))
    runner = run(**{"pytest-arguments": "-k budget"})
    assert runner.failed
    assert "| digits.onnx | emulated:arm64 | **failed** |" in runner.summary
    for line in (
        "digits.onnx exceeds its budget on emulated:arm64",
        rf"digits\.json: the network: {instructions // 2:,} instructions allowed, {instructions:,} counted",
        rf"digits\.json: {re.escape(dearest)} by \w+: [\d,]+ instructions allowed, [\d,]+ counted",
        "if there is a good reason for it: pytest --armnet-update-budgets",
    ):
        assert re.search(line, runner.summary), (line, runner.summary)
    assert "actions/upload-artifact@v4" in runner.used


def _spoilt(op: OperatorDef) -> OperatorDef:
    """A fill whose first channel has other weights."""
    values = np.array(op.arg[0].t)
    values[0] *= -8
    return op.replace(arg=(op.arg[0].replace(t=values), *op.arg[1:]))


def test_a_wrong_weight_fails_and_its_operator_is_named(repository: Path, run: Run) -> None:
    pair = Pair.load(repository / "digits_fast")
    operators = [_spoilt(op) if op.output[0].startswith("conv3.weight") else op for op in pair.init_net.op]
    pair = pair.replace(init_net=pair.init_net.replace(op=tuple(operators)))
    shutil.rmtree(repository / "digits_fast")
    pair.save(repository / "digits_fast")
    runner = run(**{"devices": "local", "pytest-arguments": "-k answers"})
    assert runner.failed
    assert "| digits.onnx | local | **failed** | " in runner.summary
    for line in (
        r"digits_fast on local does not answer as digits\.onnx by onnxruntime \d",
        rf"the same answer to \d+ of {EXAMPLES} examples, [\d.]+; at least 0\.99 is asked for",
        r"images\[\d+\]: the original says \d \([\d.]+\), the pair \d \([\d.]+\)",
        r"the largest error is [\d.]+, in output probabilities of images\[\d+\]; 0\.0001 is allowed",
        r"the first blob that differs: \S+, error \S+, computed by .*Conv",
    ):
        assert re.search(line, runner.summary), (line, runner.summary)


def test_what_is_missing_fails_and_is_told_and_arguments_are_only_split(repository: Path, run: Run) -> None:
    words = "-k budget -o 'junit_suite_name=a b $(touch made)'"
    runner = run(**{"devices": "ssh://127.0.0.1:1", "pytest-arguments": words})
    assert not (repository / "made").exists()
    assert 'name="a b $(touch made)"' in (runner.temporary / "armnet-reports/report.xml").read_text()
    assert runner.failed
    assert "| digits.onnx | ssh://127.0.0.1:1 | **failed** |" in runner.summary
    assert re.search(r"ssh://127\.0\.0\.1:1: .*refused.* \(--armnet-strict\)", runner.summary)


def test_gitlabs_job_tests_the_same(
    repository: Path, python: Path, distributions: Distributions, tmp_path: Path
) -> None:
    job = parsed(ROOT / ".github/actions/test-model/gitlab.yml")["models-on-devices"]
    given = {
        "ARMNET": f"{distributions.wheel}[pytest,validate]",
        "ARMNET_DEVICES": "local",
        "PYTEST_ARGUMENTS": "-k answers",
    }
    assert set(given) < set(job["variables"])
    variables = {**job["variables"], **clean_environment(python, tmp_path), **given}
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", "\n".join(job["script"])],
        cwd=repository,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for path in (*job["artifacts"]["paths"], job["artifacts"]["reports"]["junit"]):
        assert (repository / path).exists()
    cells, _ = table((repository / "armnet-reports/summary.md").read_text())
    assert (cells["device"], cells["result"], cells["top1"]) == ("local", "passed (1)", "1")
