"""The stand-ins on emulated ARM machines with NumPy alone, beside the real packages on this one.

The calls recorded there are those recorded here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Iterator

import pytest

from device_tests.host.emulation.cache import EmulationUnavailable
from device_tests.host.suite_run import files_below
from device_tests.host.targets.factory import target_of
from device_tests.host.targets.target import Files, Target
from tests.support.paths import DEMO, ROOT, SHARED
from tests.support.recorded_calls import assert_same_calls, read_calls, recorded

SCRIPTS = "tests/armnet/standins/scripts"


@pytest.fixture(scope="module")
def files() -> Files:
    """The packages, the scripts and what records their calls."""
    found: Files = {}
    for folder in ("armnet", "exporter", "optimize", "runtime_arm", SCRIPTS):
        found.update(files_below(ROOT / folder, folder, (".py", ".desc")))
    for path in ("device_tests/__init__.py", "device_tests/suite/__init__.py", "device_tests/suite/tolerance.py"):
        found[path] = ROOT / path
    for path in ("tests/__init__.py", "tests/support/__init__.py", "tests/support/paths.py"):
        found[path] = ROOT / path
    found["tests/support/recorded_calls.py"] = ROOT / "tests/support/recorded_calls.py"
    return found


@pytest.fixture(scope="module", params=["emulated:arm64", "emulated:armhf"])
def target(request: pytest.FixtureRequest, files: Files) -> Iterator[Target]:
    try:
        machine = target_of(request.param)
    except EmulationUnavailable as error:
        pytest.skip(str(error))
    with machine as opened:
        opened.deploy(files)
        yield opened


def compare(target: Target, package: str, script: str, model: Path) -> None:
    target.deploy({model.name: model})
    words = ["-m", "tests.support.recorded_calls", package, "stand-in", "calls", f"{SCRIPTS}/{script}", model.name]
    done = target.run(words, 600.0)
    assert done.returncode == 0, done.stderr[-2000:]
    ours = read_calls(target.fetch("calls"))
    assert len(ours) > 40
    assert_same_calls(ours, recorded(package, ROOT / SCRIPTS / script, [model], False), model.name)


def test_onnxruntime(target: Target) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed to compare with")
    compare(target, "onnxruntime", "onnx_networks.py", DEMO / "digits.onnx")


def test_litert(target: Target, shared: Path) -> None:
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed to compare with")
    model = SHARED / "models/tflite/hello_world/hello_world_int8.tflite"
    compare(target, "ai_edge_litert.interpreter", "tflite_networks.py", model)


def test_the_checks_of_onnxruntimes_interface_hold(target: Target, interface_models: Path) -> None:
    target.deploy(files_below(interface_models, "models"))
    done = target.run(["-m", "armnet", "exec", f"{SCRIPTS}/onnx_interface.py", "models"], 600.0)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1])["failed"] == {}
