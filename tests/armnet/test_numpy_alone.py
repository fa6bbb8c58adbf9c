"""Every command with NumPy as the only package: it works, or says in one line what it lacks."""

from __future__ import annotations

import sys
import wave
from pathlib import Path
from typing import Dict, List

import numpy as np
import pytest

from armnet.commands import COMMANDS
from tests.support.paths import DEMO, ROOT
from tests.support.publishing.bare_commands import Told, bare_python, told_by


def numpy_alone(folder: Path) -> Path:
    """A folder that holds NumPy and no other package."""
    home = Path(np.__file__).parent.parent
    for name in ("numpy", "numpy.libs"):
        if (home / name).exists():
            (folder / name).symlink_to(home / name)
    return folder


def lines(pair: Path, folder: Path) -> Dict[str, List[List[object]]]:
    """Command lines by command."""
    picture, array, sound, clip = (
        DEMO / "pictures" / "digit_3.png",
        folder / "x.npy",
        folder / "s.wav",
        folder / "v.mp4",
    )
    np.save(array, np.zeros((1, 1, 8, 8), np.float32))
    clip.write_bytes(b"no video")
    with wave.open(str(sound), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes(bytes(3200))
    net = folder / "net.prototxt"
    net.write_text('input: "x" input_dim: 1 input_dim: 2 layer { name: "r" type: "ReLU" bottom: "x" top: "y" }')
    onnx, words = DEMO / "digits.onnx", folder / "model.tflite"
    words.write_bytes(b"\0\0\0\0TFL3")
    return {
        "export": [
            [onnx, "-o", folder / "a"],
            [words, "-o", folder / "b"],
            [pair, "--to", "onnx", "-o", folder / "c"],
            [net, "-o", folder / "d"],
            [pair / "init_net.pb", pair / "predict_net.pb", "-o", folder / "e"],
        ],
        "support": [[onnx], [words], [net]],
        "optimize": [[pair, "-o", folder / "f"], [onnx, "-o", folder / "g"], [pair, "-o", folder / "h", "--explain"]],
        "quantize": [[pair, "-o", folder / "i"], [pair, "-o", folder / "j", "--data", DEMO / "pictures"]],
        "inspect": [[pair], [pair, "--html", folder / "page.html"], [onnx]],
        "run": [
            *([pair, one] for one in (array, picture, sound, clip, "camera", DEMO / "pictures")),
            [pair, array, "--output", folder / "o.jsonl"],
            [pair, array, "--draw", folder / "drawn"],
            [pair, array, "--device", "opencl:0"],
            [onnx, array],
        ],
        "describe": [[pair], [onnx]],
        "compare": [[onnx, pair], [words, pair], [net, pair], [pair, folder / "f"], [onnx]],
        "profile": [[pair, "--rounds", 1], [pair, "--rounds", 1, "--why"], [words]],
        "bench": [[pair, "--runs", 1], *([pair, "--runs", 1, "--against", one] for one in OTHER_RUNTIMES)],
        "pack": [[pair, "-o", folder / "app.pyz"], [pair, "-o", folder / "b.pyz", "--sample", picture]],
        "device": [
            ["list"],
            ["run", "local", pair, "--input", array],
            ["run", "ssh://nobody@127.0.0.1:1", pair, "--input", array],
            ["bench", "local", pair],
            ["doctor", "local"],
            ["doctor", "local", onnx],
            ["test", "local", "--select", "nothing"],
            ["count", pair, "--cpu", "nothing"],
        ],
        "cache": [[], ["--empty", "pairs"]],
        "exec": [[], [folder / "nowhere.py"]],
        "standin": [["list"], ["install", "nothing"]],
        "doctor": [[], [pair], [onnx]],
        "setup": [["pi", "--list"], ["termux", "ssh://127.0.0.1:1"], ["toaster"]],
        "serve": [[pair]],
        "evaluate": [[pair, DEMO / "held_back.npz"], [pair, DEMO / "pictures"]],
    }


OTHER_RUNTIMES = ("onnxruntime", "tflite", "reference")
WORKS = (
    "export",
    "support",
    "optimize",
    "inspect",
    "describe",
    "profile",
    "cache",
    "doctor",
    "setup",
)  # those that need nothing else


@pytest.fixture(scope="module")
def told(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Dict[str, List[Told]]:
    """What each command said to its command lines."""
    folder = tmp_path_factory.mktemp("alone")
    written = lines(digits, folder)
    given = {name: written.get(name, [[], [digits]]) for name in COMMANDS}
    words = [[name, *some] for name, every in given.items() for some in every]
    found: Dict[str, List[Told]] = {name: [] for name in COMMANDS}
    python = bare_python(sys.executable, [numpy_alone(folder), ROOT], folder / "environment")
    for one in told_by(python, folder, words):
        found[one.words[0]].append(one)
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_works_or_says_what_it_lacks(told: Dict[str, List[Told]], command: str) -> None:
    for words, status, _, err in told[command]:
        assert status in (0, 1, 2), (words, status)
        assert "Traceback" not in err, words
        if status == 2:
            *progress, last = err.strip().splitlines()
            assert last.startswith("armnet"), (words, err)
            assert not any("Error" in line for line in progress), (words, err)
    if command in WORKS:
        assert told[command][0].status == 0, told[command][0]


def test_what_is_missing_is_named_with_what_installs_it(told: Dict[str, List[Told]]) -> None:
    wanted = {
        "export": [(2, "'armnet[export]'")],
        "run": [(1, "'armnet[image]'"), (3, "'armnet[video]'"), (4, "'armnet[video]'")],
        "compare": [(0, "'armnet[")],
        "device": [(7, "'armnet[")],
        "bench": [(1, "'armnet[validate]'")],
    }
    for command, places in wanted.items():
        for place, what in places:
            words, status, _, err = told[command][place]
            assert status == 2, words
            assert what in err, (words, err)


def test_arrays_run_and_results_are_written(told: Dict[str, List[Told]]) -> None:
    for place in (0, 6):
        words, status, _, err = told["run"][place]
        assert status == 0, (words, err)
    assert told["pack"][0].status == 0
