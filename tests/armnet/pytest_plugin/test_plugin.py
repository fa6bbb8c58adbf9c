"""The pytest plugin, in model repositories that the tests make: what passes, what fails and why, what is skipped."""

from __future__ import annotations

import json
import re
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Callable, List

import numpy as np
import pytest

from device_tests.host.counting.regions import counting_plugin
from device_tests.host.emulation.cache import EmulationUnavailable
from device_tests.host.emulation.machine import emulated
from runtime_arm import Pair
from runtime_arm.netdef import OperatorDef
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


@pytest.fixture
def onnxruntime() -> None:
    pytest.importorskip("onnxruntime", reason="the original is run by onnxruntime: pip install 'armnet[validate]'")


@pytest.mark.usefixtures("onnxruntime")
def test_a_model_passes_on_an_emulated_machine_and_fails_when_it_exceeds_its_budget(repository: Path, run: Run) -> None:
    try:
        emulated("arm64")
        counting_plugin()
    except EmulationUnavailable as error:
        pytest.skip(str(error))
    result = run("--armnet-update-budgets", "--junitxml", "report.xml")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*test_answers[[]emulated:arm64-digits.onnx[]]: agreement 1, error *, top1 *"])
    report = (repository / "report.xml").read_text()
    for name in ("model", "device", "agreement", "error", "top1", "memory", "instructions"):
        assert f'<property name="armnet_{name}" value=' in report
    path = repository / "budgets" / "digits.json"
    written = json.loads(path.read_text())
    budget = written["machines"]["arm64-cortex-a72"]
    budget["network"]["instructions"] //= 2
    budget["operators"]["Softmax -> probabilities"] //= 2
    path.write_text(json.dumps(written))
    result = run("-k", "budget")
    result.assert_outcomes(failed=1, deselected=1)
    result.stdout.fnmatch_lines(
        [
            "*digits.onnx exceeds its budget on emulated:arm64",
            f"*digits.json: the network: {budget['network']['instructions']:,} instructions allowed, * counted",
            "*digits.json: Softmax -> probabilities by *: * instructions allowed, * counted",
            "*if there is a good reason for it: pytest --armnet-update-budgets",
        ]
    )


def _spoilt(op: OperatorDef) -> OperatorDef:
    """A fill whose first channel has other weights."""
    values = np.array(op.arg[0].t)
    values[0] *= -8
    return op.replace(arg=(op.arg[0].replace(t=values), *op.arg[1:]))


@pytest.mark.usefixtures("onnxruntime")
def test_a_wrong_weight_fails_and_its_operator_is_named(repository: Path, run: Run) -> None:
    pair = Pair.load(repository / "digits_fast")
    operators = [_spoilt(op) if op.output[0].startswith("conv3.weight") else op for op in pair.init_net.op]
    pair = pair.replace(init_net=pair.init_net.replace(op=tuple(operators)))
    shutil.rmtree(repository / "digits_fast")
    pair.save(repository / "digits_fast")
    result = run(*LOCAL, "-k", "answers")
    result.assert_outcomes(failed=1, deselected=1)
    text = result.stdout.str()
    assert re.search(r"digits_fast on local does not answer as digits\.onnx by onnxruntime \d", text)
    assert re.search(rf"the same answer to \d+ of {EXAMPLES} examples, [\d.]+; at least 0\.99 is asked for", text)
    assert re.search(r"images\[\d+\]: the original says \d \([\d.]+\), the pair \d \([\d.]+\)", text)
    assert re.search(r"the largest error is [\d.]+, in output probabilities of images\[\d+\]; 0\.0001 is allowed", text)
    assert re.search(r"the first blob that differs: \S+, error \S+, computed by .*Conv", text)


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
    result.stdout.fnmatch_lines(["SKIPPED*local: instructions are counted on emulated machines alone"])


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
