"""``armnet device``, as a user types it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List

import numpy as np
import pytest

from device_tests.host.counting.regions import counting_plugin
from device_tests.host.emulation.cache import EmulationUnavailable
from device_tests.host.emulation.machine import emulated
from device_tests.host.targets.factory import known_targets
from device_tests.suite.tolerance import assert_network_close
from exporter.bundle.pack import pack
from runtime_arm import Pair
from tests.support.commands import Armnet, refused
from tests.support.paths import DEMO
from tests.support.ssh_server import HOST, SshServer, ssh_server

PICTURES = sorted((DEMO / "pictures").glob("*.png"))
DEAD = "ssh://127.0.0.1:1"


@pytest.fixture(params=["local", "emulated:armhf"])
def target(request: pytest.FixtureRequest) -> str:
    """Targets on this computer; the ssh server covers the 64-bit one."""
    name: str = request.param
    try:
        if name != "local":
            emulated(name.partition(":")[2])
    except EmulationUnavailable as error:
        pytest.skip(str(error))
    return name


@pytest.fixture(scope="module")
def packed(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("packed") / "digits.pyz"
    pack(Pair.load(digits), path)
    return path


@pytest.fixture
def bundle(packed: Path, tmp_path: Path) -> Path:
    """A copy of the bundle, which the test may change."""
    return Path(shutil.copy(packed, tmp_path))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    """An ssh server that runs the Python of an emulated machine."""
    try:
        with ssh_server(tmp_path_factory.mktemp("ssh")) as running:
            running.use_python(emulated("arm64").python)
            yield running
    except EmulationUnavailable as error:
        pytest.skip(str(error))


def test_the_targets_are_listed(armnet: Armnet) -> None:
    status, out, _ = armnet("device", "list")
    assert status == 0
    assert all(name in out for name, _ in known_targets())
    listed = json.loads(armnet("device", "list", "--json")[1])
    assert (listed["schema"], listed["command"]) == (1, "device list")
    assert [row["target"] for row in listed["targets"]] == [name for name, _ in known_targets()]


def test_the_suite_runs_on_targets_and_describes_them(armnet: Armnet, target: str, bundle: Path) -> None:
    words = ["device", "test", target, "--bundle", bundle, "--select", "bundle or blas_threads"]
    status, out, err = armnet(*words, "--json")
    assert status == 0, out
    (result,) = json.loads(out)["results"]
    assert (result["target"], result["passed"], result["failed"]) == (target, 3, [])
    assert {"cpu", "features", "python", "numpy", "blas", "memory_nbytes"} <= set(result["identity"])
    assert f"{target}: 3 passed, 0 failed, 0 skipped" in err


def test_a_failing_suite_is_status_1_and_a_table(armnet: Armnet, bundle: Path) -> None:
    data = bytearray(bundle.read_bytes())
    data[data.find(b"pair/init_net.pb") + 50_000] ^= 1
    bundle.write_bytes(data)
    status, out, _ = armnet("device", "test", "local", "--bundle", bundle, "--select", "expected_outputs")
    assert status == 1
    assert re.search(r"^local +0 +1 +0 ", out, re.MULTILINE)
    assert re.search(r"^local: failed .*expected_outputs\[digits\]: .*pair/init_net.pb", out, re.MULTILINE)


def test_an_unusable_target_does_not_stop_the_others(armnet: Armnet) -> None:
    status, out, err = armnet("device", "test", DEAD, "local", "--select", "blas_threads", "--json")
    assert status == 2
    answer = json.loads(out)
    assert [result["target"] for result in answer["results"]] == ["local"]
    assert "Connection refused" in answer["refused"][0]
    assert f"armnet: {answer['refused'][0]}" in err


def test_a_network_gives_the_same_outputs_on_a_target_as_here(
    armnet: Armnet, target: str, digits: Path, tmp_path: Path
) -> None:
    words = ["--input", *PICTURES, "--top", "1"]
    assert armnet("run", digits, *words, "--output", tmp_path / "here.npz")[0] == 0
    status, out, _ = armnet("device", "run", target, digits, *words, "--output", tmp_path / "there.npz", "--json")
    assert status == 0
    answer = json.loads(out)
    assert (answer["command"], answer["target"]) == ("device run", target)
    assert [run["top"][0]["label"] for run in answer["runs"]] == [path.stem.split("_")[1] for path in PICTURES]
    here, there = (np.load(tmp_path / name)["probabilities"] for name in ("here.npz", "there.npz"))
    assert_network_close(there, here)


def test_a_bundle_runs_on_a_target(armnet: Armnet, target: str, bundle: Path) -> None:
    status, out, _ = armnet("device", "run", target, bundle, "--input", PICTURES[7], "--top", 1)
    assert status == 0
    assert out.split()[-1] == "7"


def test_a_network_is_timed(armnet: Armnet, digits: Path) -> None:
    status, out, _ = armnet("device", "bench", "local", digits, "--runs", 3, "--threads", 1)
    assert status == 0
    assert "median ms" in out
    facts = json.loads(armnet("device", "bench", "local", digits, "--runs", 3, "--json")[1])
    assert facts["runs"] == 3
    assert 0 < facts["fastest_ms"] <= facts["median_ms"]
    assert facts["identity"]["cpu"]


def test_the_doctor_examines_targets(armnet: Armnet, target: str, digits: Path) -> None:
    status, out, _ = armnet("device", "doctor", target, digits)
    assert status == 0
    assert "fits" in out
    assert "OpenBLAS" in out
    facts = json.loads(armnet("device", "doctor", target, "--json")[1])
    assert (facts["command"], facts["target"], facts["network"]) == ("device doctor", target, None)


def test_run_doctor_and_test_work_over_ssh(
    armnet: Armnet, server: SshServer, digits: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARMNET_SSH_CONFIG", str(server.config))
    name = f"ssh://{HOST}"
    status, out, _ = armnet("device", "run", name, digits, "--input", PICTURES[3], "--top", 1)
    assert (status, out.split()[-1]) == (0, "3")
    assert "Cortex-A72" in armnet("device", "doctor", name)[1]
    assert "2 passed" in armnet("device", "test", name, "--bundle", bundle, "--select", "bundle")[2]
    assert server.left_behind() == []


def test_a_killed_command_leaves_nothing_on_the_device(
    server: SshServer, digits: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    np.save(tmp_path / "in.npy", np.zeros((1, 1, 8, 8), np.float32))
    command = [sys.executable, "-m", "armnet", "device", "run", f"ssh://{HOST}", str(digits), "--input", "in.npy"]
    environment = {**os.environ, "ARMNET_SSH_CONFIG": str(server.config), "PYTHONPATH": str(DEMO.parent)}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while not list(server.devices.glob("*/network")) and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    progress, error = err.splitlines()
    assert progress.startswith(f"armnet: ssh://{HOST}: copying ")
    assert (process.returncode, error) == (2, "armnet: stopped by SIGTERM")
    assert server.left_behind() == []


class TestRefusals:
    """Each refusal is one line and exit status 2."""

    @pytest.mark.parametrize("action", ["run", "bench", "doctor"])
    def test_a_dead_host(self, armnet: Armnet, digits: Path, action: str) -> None:
        rest = ["--input", PICTURES[0]] if action == "run" else []
        refused(armnet("device", action, DEAD, digits, *rest), DEAD, "Connection refused")

    def test_invalid_targets_pairs_bundles_and_inputs(self, armnet: Armnet, digits: Path, tmp_path: Path) -> None:
        refused(armnet("device", "bench", "toaster", digits), "no target 'toaster'; there are local, emulated:arm64")
        refused(armnet("device", "bench", "pi@toaster", digits), "did you mean 'ssh://pi@toaster'?")
        refused(armnet("device", "bench", "ssh://-oProxyCommand=x", digits), "is not an address")
        refused(armnet("device", "bench", "local", tmp_path / "nowhere"), "nowhere")
        refused(armnet("device", "test", "local", "--bundle", tmp_path / "nowhere.pyz"), "nowhere.pyz: no such bundle")
        refused(armnet("device", "run", "local", digits, "--input", tmp_path / "nowhere.npy"), "nowhere.npy")
        refused(armnet("device", "run", "local", digits, "--input", PICTURES[0], "--threads", "0"), "threads")

    def test_a_selection_that_leaves_no_test(self, armnet: Armnet) -> None:
        status, out, err = armnet("device", "test", "local", "--select", "nothing_of_this_name")
        assert (status, out) == (2, "")
        assert err.splitlines()[-1] == "armnet: local: no test matches 'nothing_of_this_name'; no test was run"

    def test_a_run_that_times_out(
        self, armnet: Armnet, digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        words = ["device", "run", "local", digits, "--input", PICTURES[0], "--timeout", "0.01"]
        refused(armnet(*words), "local: not finished after 0.01 s")
        assert list(tmp_path.glob("armnet-device-*")) == []

    def test_counting_what_cannot_be_counted(self, armnet: Armnet, digits: Path) -> None:
        refused(armnet("device", "count", digits, "--cpu", "z80"), "no emulated CPU 'z80'; there are cortex-a72")
        refused(armnet("device", "count", digits, "--update-budget"), "give no PAIR")
        refused(armnet("device", "count", "--budget", "b.json"), "armnet device count PAIR --budget FILE")
        refused(armnet("device", "count", "--update-budget", "--cpu", "cortex-a7"), "on cortex-a72")


class TestCount:
    @pytest.fixture(autouse=True)
    def plugin(self) -> None:
        try:
            emulated("arm64")
            counting_plugin()
        except EmulationUnavailable as error:
            pytest.skip(str(error))

    def test_a_pair_is_counted_by_operator(self, armnet: Armnet, digits: Path) -> None:
        status, out, _ = armnet("device", "count", digits, "--cpu", "cortex-a7", "--json")
        assert status == 0
        facts: Dict[str, Any] = json.loads(out)
        assert facts["machine"] == "armhf-cortex-a7"
        types: List[str] = [op["type"] for op in facts["operators"]]
        assert types.count("Conv") == 4
        assert sum(op["counts"]["instructions"] for op in facts["operators"]) < 1.1 * facts["network"]["instructions"]

    def test_other_runtimes_are_counted_too(self, armnet: Armnet, digits: Path) -> None:
        status, out, err = armnet("device", "count", digits, "--against", DEMO / "digits.onnx")
        if "pip has no" in err:
            pytest.skip(err)
        assert status == 0
        assert re.search(r"^armnet +\d+\.\d\d ", out, re.MULTILINE)
        assert re.search(r"^onnxruntime .*digits\.onnx +\d+\.\d\d ", out, re.MULTILINE)

    def test_a_pair_is_held_against_a_budget_file_of_its_own(
        self, armnet: Armnet, digits: Path, tmp_path: Path
    ) -> None:
        path = tmp_path / "budgets" / "digits.json"
        words = ["device", "count", digits, "--budget", path]
        refused(armnet(*words), f"{path}: no budget for arm64-cortex-a72; --update-budget writes one")
        assert armnet(*words, "--update-budget")[0] == 0
        written = json.loads(path.read_text())
        budget = written["machines"]["arm64-cortex-a72"]
        budget["network"]["instructions"] //= 2
        budget["memory"]["arena"] //= 2
        path.write_text(json.dumps(written))
        status, out, _ = armnet(*words)
        assert status == 1
        assert f"{path}: the network: {budget['network']['instructions']:,} instructions allowed" in out
        assert f"{path}: the memory: {sum(budget['memory'].values()):,} bytes allowed" in out
