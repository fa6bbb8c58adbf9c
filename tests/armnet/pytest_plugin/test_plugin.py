"""The pytest plugin: its options, budgets, skips; test_model_repository.py has what passes and fails, and why."""

from __future__ import annotations

import json
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Callable, List

import numpy as np
import pytest

from tests.support.paths import DEMO, ROOT

pytest_plugins = ["pytester"]

EXAMPLES = 12
MODEL_TESTS = """
from armnet.pytest_plugin import assert_same_answers, assert_within_budget


def test_answers(armnet_model, armnet_device):
    assert_same_answers(armnet_model, "digits_fast", "held_back.npz", armnet_device, top1=0.99, tolerance=1e-4)


def test_budget(armnet_model, armnet_device):
    assert_within_budget(armnet_model, armnet_device)
"""
LOCAL = ["--armnet-devices", "local"]
Run = Callable[..., pytest.RunResult]


@pytest.fixture
def repository(pytester: pytest.Pytester, digits: Path) -> Path:
    """A repository of a model: the digits, the pair made of them, some examples and ten lines of tests."""
    shutil.copy(DEMO / "digits.onnx", pytester.path)
    shutil.copytree(digits, pytester.path / "digits_fast")
    with np.load(DEMO / "held_back.npz") as archive:
        np.savez(pytester.path / "held_back.npz", **{name: archive[name][:EXAMPLES] for name in archive.files})
    pytester.makeini("[pytest]\narmnet_models = digits.onnx\narmnet_devices = emulated:arm64\n")
    pytester.makepyfile(test_model=MODEL_TESTS)
    return pytester.path


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs pytest with the plugin of this working tree, and with no other."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def pytest_run(*words: object) -> pytest.RunResult:
        return pytester.runpytest_subprocess("-p", "armnet.pytest_plugin.plugin", "-ra", *map(str, words))

    return pytest_run


def test_memory_has_a_budget_on_every_device(repository: Path, run: Run) -> None:
    result = run(*LOCAL, "-k", "budget")
    result.assert_outcomes(failed=1, deselected=1)
    result.stdout.fnmatch_lines(["*digits.json: no budget for local; --armnet-update-budgets writes one"])
    run(*LOCAL, "-k", "budget", "--armnet-update-budgets").assert_outcomes(passed=1, deselected=1)
    path = repository / "budgets" / "digits.json"
    written = json.loads(path.read_text())
    written["machines"]["local"]["memory"]["weights"] //= 2
    path.write_text(json.dumps(written))
    result = run(*LOCAL, "-k", "budget")
    result.assert_outcomes(failed=1, deselected=1)
    result.stdout.fnmatch_lines(["*digits.json: the memory: * bytes allowed, * needed (weights * -> *, arena * -> *)"])


def test_budgets_given_in_the_test(repository: Path, pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        test_model="""
        import pytest
        from armnet.pytest_plugin import assert_within_budget

        def test_memory(armnet_model, armnet_device):
            with pytest.raises(AssertionError, match="the memory: 1,000 bytes allowed, [0-9,]+ needed"):
                assert_within_budget(armnet_model, armnet_device, memory=1000)
            assert_within_budget(armnet_model, armnet_device, memory=1000_000)

        def test_instructions(armnet_model, armnet_device):
            assert_within_budget(armnet_model, armnet_device, instructions=1)
        """
    )
    result = run(*LOCAL)
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*local: instructions are counted only on emulated machines"])


def test_what_is_missing_is_the_reason_of_a_skip_and_fails_when_asked(repository: Path, run: Run) -> None:
    dead = ["--armnet-devices", "ssh://127.0.0.1:1", "-k", "budget"]
    result = run(*dead)
    result.assert_outcomes(skipped=1, deselected=1)
    result.stdout.fnmatch_lines(["SKIPPED*ssh://127.0.0.1:1: *"])
    result = run(*dead, "--armnet-strict")
    result.assert_outcomes(errors=1, deselected=1)
    result.stdout.fnmatch_lines(["*ssh://127.0.0.1:1: *(--armnet-strict)"])


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--armnet-devices", "toaster"], "no device 'toaster'; there are local, emulated:arm64"),
        (["--armnet-devices", "emulated:arm64:z80"], "no device 'emulated:arm64:z80'"),
        (["--armnet-devices", ","], "names no device; nothing would be tested"),
        (["--armnet-models", "nowhere.onnx"], "no such file: "),
        (["--armnet-models", ","], "takes armnet_model, but no model is named"),
    ],
)
def test_wrong_options_are_refused(repository: Path, run: Run, words: List[str], reason: str) -> None:
    result = run(*words)
    assert result.ret != pytest.ExitCode.OK
    assert reason in result.stdout.str() + result.stderr.str()
    result.assert_outcomes(errors=1)


def test_a_selection_that_leaves_no_test_fails(repository: Path, run: Run) -> None:
    assert run("-k", "nothing_of_this_name").ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_models_of_a_marker(repository: Path, pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        test_model="""
        import pytest

        @pytest.mark.armnet_model("digits_fast", "digits.onnx")
        def test_name(armnet_model):
            assert armnet_model.name in ("digits_fast", "digits.onnx")
        """
    )
    run("--strict-markers").assert_outcomes(passed=2)


def test_processes_of_xdist_share_devices_and_budget_files(
    repository: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    if find_spec("xdist") is None:
        pytest.skip("pytest-xdist is not installed: pip install pytest-xdist")
    shutil.copy(repository / "digits.onnx", repository / "other.onnx")
    words = [*LOCAL, "-k", "budget", "--armnet-models", "digits.onnx,other.onnx", "--armnet-update-budgets"]
    run(*words, "-p", "xdist.plugin", "-n", "2").assert_outcomes(passed=2)
    assert sorted(path.name for path in (repository / "budgets").iterdir()) == ["digits.json", "other.json"]
