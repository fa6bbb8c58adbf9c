"""The README: its example prints the output shown, its commands run, and its figures are those of BENCHMARKS.md."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
BENCHMARKS = (ROOT / "BENCHMARKS.md").read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A new folder that holds only the demo's files."""
    (tmp_path / "demo").symlink_to(ROOT / "demo")
    return tmp_path


def ran(folder: Path, *command: str) -> str:
    """What a command prints in the folder; it finds armnet."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_prints_the_output_shown_below_it(folder: Path) -> None:
    pytest.importorskip("onnx", reason="the example exports an ONNX file")
    example, output = re.search(r"```python\n(.*?)```\s*```\n(.*?)```", README, re.DOTALL).groups()  # type: ignore[union-attr]
    assert len(example.strip().splitlines()) <= 12
    assert ran(folder, sys.executable, "-c", example) == output
    assert (folder / "digits" / "model.json").exists()


def test_the_example_of_training_runs(folder: Path) -> None:
    pytest.importorskip("onnx", reason="the example exports an ONNX file")
    (example,) = (text for text in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "Trainer" in text)
    ran(folder, sys.executable, "-c", f"{example}\nassert trainer.iteration == 5 and loss < 0.1")
    assert (folder / "digits_taught" / "model.json").exists()


def test_its_commands_run_in_order(folder: Path) -> None:
    for package in ("onnx", "onnxruntime", "PIL"):
        pytest.importorskip(package, reason=f"the commands need {package}")
    script = "".join(re.findall(r"```sh\n(.*?)```", README, re.DOTALL))
    assert script.count("armnet ") >= 10
    programs = f'armnet() {{ "{sys.executable}" -m armnet "$@"; }}; python3() {{ "{sys.executable}" "$@"; }}'
    printed = ran(folder, "bash", "-c", f"set -euo pipefail; {programs}\n{script}")
    assert re.search(r"demo/pictures/digit_7\.png\n +\S+  7\n", printed)
    assert "self-test passed" in printed


def test_every_command_folder_and_file_it_names_exists() -> None:
    from armnet.commands import COMMANDS

    blocks = "".join(re.findall(r"```(?:sh)?\n(.*?)```", README, re.DOTALL))
    for command in re.findall(r"^armnet (\w+)", blocks, re.MULTILINE):
        assert command in COMMANDS
    for row in re.findall(r"^\| `(\w+/)` \|(.*)", README, re.MULTILINE):
        for name in re.findall(r"`(\w+/)`", row[1]):
            assert (ROOT / row[0] / name).is_dir(), row[0] + name
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / link).exists(), link


def test_every_public_name_it_mentions_exists() -> None:
    import armnet

    section = README.partition("`help(armnet)` lists the public names")[2].partition("## ")[0]
    names = re.findall(r"`(\w+)`", section)
    assert len(names) > 8
    for name in names:
        assert name in [*armnet.__all__, "runtime_arm"], name


def test_its_instructions_are_those_of_the_benchmarks() -> None:
    models = {
        "ResNet-18": "resnet18",
        "SqueezeNet": "squeezenet1_1",
        "MobileNetV2": "mobilenet_v2",
    }
    told = " ".join(README.split()).partition("On an emulated Cortex-A72,")[2].partition(". ")[0]
    rows = BENCHMARKS.partition("## Instructions on emulated ARM")[2].partition("\n## ")[0].splitlines()
    for name, network in models.items():
        found = re.search(rf"{name}\D*? (\d\.\d\d)", told)
        assert found is not None, f"README does not say how many instructions {name} takes"
        first = next(row.split("|") for row in rows if row.startswith(f"| {network} |"))
        assert f" {found[1]} " in first, f"{name}: {found[1]}, measured {first}"
