"""What the README shows is what one gets."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_example_prints_what_stands_below_it(tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="the example exports an ONNX file")
    example, output = re.search(r"```python\n(.*?)```\s*```\n(.*?)```", README, re.DOTALL).groups()  # type: ignore[union-attr]
    assert len(example.strip().splitlines()) <= 12
    (tmp_path / "demo").symlink_to(ROOT / "demo")
    done = subprocess.run([sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == output
    assert (tmp_path / "digits" / "model.json").exists()


def test_every_command_and_folder_it_names_exists() -> None:
    from armnet.commands import COMMANDS

    for command in re.findall(r"^armnet (\w+)", README, re.MULTILINE):
        assert command in COMMANDS
    for folder in re.findall(r"^\| `(\w+)/` \|", README, re.MULTILINE):
        assert (ROOT / folder).is_dir()
