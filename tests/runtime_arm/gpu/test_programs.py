"""Compiled kernels are kept from process to process, and never believed blindly."""

from __future__ import annotations

from pathlib import Path
from typing import Tuple

import pytest

from runtime_arm.gpu.device import Device
from runtime_arm.gpu.kernels import Define
from runtime_arm.gpu.programs import Programs

MACROS: dict[str, Define] = {"HALF": 0}


@pytest.fixture
def kept(device: Device, tmp_path: Path) -> Tuple[Path, bytes]:
    """The folder and the content of the one binary in it."""
    programs = Programs(device, tmp_path)
    programs.get("move", MACROS)
    programs.get("move", MACROS)
    assert programs.compiled == 1
    (path,) = (tmp_path / "programs").iterdir()
    return path, path.read_bytes()


def _compiled(device: Device, folder: Path) -> int:
    programs = Programs(device, folder)
    program = programs.get("move", MACROS)
    here, there = device.allocate(4), device.allocate(4)
    device.prepare(program, "widen", (1, 1, 1), (1, 1, 1), [here, there, 1]).enqueue()
    device.finish()
    return programs.compiled


def test_a_second_process_compiles_nothing(device: Device, kept: Tuple[Path, bytes]) -> None:
    assert _compiled(device, kept[0].parent.parent) == 0


@pytest.mark.parametrize("damage", ["empty", "cut", "changed", "another program", "a folder"])
def test_a_damaged_binary_is_compiled_again(device: Device, kept: Tuple[Path, bytes], damage: str) -> None:
    path, content = kept
    if damage == "a folder":
        path.unlink()
        path.mkdir()
    else:
        changed = bytes([content[-1] ^ 1])
        written = {"empty": b"", "cut": content[:-9], "changed": content[:-1] + changed, "another program": b"x" * 99}
        path.write_bytes(written[damage])
    assert _compiled(device, path.parent.parent) == 1
    if damage != "a folder":
        assert path.read_bytes()[:32] == content[:32] or len(path.read_bytes()) > 100


def test_a_binary_that_the_driver_refuses_is_compiled_again(device: Device, kept: Tuple[Path, bytes]) -> None:
    from hashlib import sha256

    path, _ = kept
    foreign = b"not a binary of this driver"
    path.write_bytes(sha256(foreign).digest() + foreign)
    assert _compiled(device, path.parent.parent) == 1


def test_a_folder_that_cannot_be_written_is_no_obstacle(device: Device, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert _compiled(device, tmp_path / "file") == 1
