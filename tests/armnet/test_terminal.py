"""What people see on a terminal: tables that fit, colour, and what may have been meant."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Dict, Sequence, Tuple

import pytest

from tests.support.commands import Armnet, refused
from tests.support.paths import DEMO, ROOT

CODES = re.compile(r"\x1b\[[0-9;]*m")


def on_a_terminal(words: Sequence[object], columns: int = 60, **settings: str) -> Tuple[int, str]:
    """Exit status and what ``armnet`` prints on a terminal of so many columns."""
    import fcntl
    import struct
    import termios

    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    env: Dict[str, str] = {**os.environ, "TERM": "xterm", "PYTHONPATH": str(ROOT), **settings}
    env.pop("COLUMNS", None)
    command = [sys.executable, "-m", "armnet", *map(str, words)]
    running = subprocess.Popen(command, stdin=its, stdout=its, stderr=its, env=env, cwd=ROOT)
    os.close(its)
    told = b""
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        told += part
    os.close(ours)
    return running.wait(60), told.decode("utf-8", "replace")


def longest(text: str) -> int:
    """The length of the longest line of tables; notes, which are told on stderr, may be longer."""
    lines = [CODES.sub("", line) for line in text.splitlines()]
    return max(len(line) for line in lines if "noisy" not in line and "--threads 1" not in line)


def test_tables_fit_the_terminal(digits: Path) -> None:
    pytest.importorskip("rich", reason="rich draws the tables")
    status, shown = on_a_terminal(["profile", digits, "--rounds", 1, "--why"])
    assert status == 0
    assert longest(shown) <= 60
    cyan = "\x1b[36m"
    assert cyan in shown
    assert cyan not in on_a_terminal(["profile", digits, "--rounds", 1], NO_COLOR="1")[1]


def test_names_that_people_type_are_shown_whole() -> None:
    pytest.importorskip("rich", reason="rich draws the tables")
    status, shown = on_a_terminal(["models"], columns=40)
    assert status == 0
    assert CODES.sub("", shown).count("mobilenet-v1-025-quant ") > 1  # in every part of the table
    assert longest(shown) <= 40


def test_a_pipe_gets_everything(armnet: Armnet, digits: Path) -> None:
    assert longest(armnet("profile", digits, "--rounds", 1, "--why")[1]) > 200
    assert longest(armnet("profile", digits, "--rounds", 1)[1]) < 120


def test_results_go_into_their_pipe_while_a_bar_is_drawn(digits: Path) -> None:
    pytest.importorskip("rich", reason="rich draws the bar")
    pytest.importorskip("PIL", reason="pictures need Pillow")
    ours, its = pty.openpty()
    words = ["run", str(digits), str(DEMO / "pictures"), "--top", "1"]
    env = {**os.environ, "TERM": "xterm", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "armnet", *words], stdout=subprocess.PIPE, stderr=its, env=env, cwd=ROOT, check=False
    )
    os.close(its)
    os.close(ours)
    assert [line.split()[-1] for line in done.stdout.decode().splitlines()[1::2]] == list("0123456789")


def test_errors_are_red_on_a_terminal_unless_nobody_wants_colour(digits: Path) -> None:
    status, shown = on_a_terminal(["inspect", "nowhere"])
    assert (status, shown) == (2, "\x1b[31marmnet\x1b[0m: nowhere: no such folder\r\n")
    assert on_a_terminal(["inspect", "nowhere"], NO_COLOR="1")[1] == "armnet: nowhere: no such folder\r\n"


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["runn"], "'run'"),
        (["run", "x", "--lables", "y"], "'--labels'"),
        (["device", "bensh", "local"], "'bench'"),
        (["export", "x.onnx", "-o", "y", "--to", "onxx"], "'onnx'"),
    ],
)
def test_what_may_be_meant_is_said(armnet: Armnet, words: Sequence[str], meant: str) -> None:
    refused(armnet(*words), f"did you mean {meant}? armnet", "--help tells more")


def test_dashes_alone_make_no_likeness(armnet: Armnet) -> None:
    refused(armnet("run", "x", "y", "--version"), "unrecognized arguments: --version; armnet run --help tells more")


def test_blobs_inputs_tasks_and_presets_that_may_be_meant_are_said(
    armnet: Armnet, digits: Path, tmp_path: Path
) -> None:
    pytest.importorskip("PIL", reason="pictures need Pillow")
    picture, output = DEMO / "pictures" / "digit_1.png", tmp_path / "o.npz"
    refused(armnet("run", digits, picture, "--keep", "probabilites", "--output", output), "mean 'probabilities'?")
    refused(armnet("inspect", digits, "--shape", "imag=1,1,8,8"), "did you mean 'image'?")
    refused(armnet("run", digits, picture, "--task", "clases"), "did you mean 'classes'?")
    refused(armnet("run", digits, picture, "--preprocessing", "imagnet"), "did you mean 'imagenet'?")
    refused(armnet("run", digits, picture, "--preprocessing", '{"rezise": 8}'), "did you mean 'resize'?")


def test_the_shell_completes_commands_and_options() -> None:
    pytest.importorskip("argcomplete", reason="argcomplete answers the shell")
    for line, wanted in (
        ("armnet pro", ["profile"]),
        ("armnet run --lab", ["--labels"]),
        ("armnet device b", ["bench"]),
    ):
        env = {
            **os.environ,
            "_ARGCOMPLETE": "1",
            "COMP_LINE": line,
            "COMP_POINT": str(len(line)),
            "_ARGCOMPLETE_IFS": "\n",
        }
        script = f"exec {sys.executable} -m armnet 8>&1 9>&2 1>/dev/null"
        done = subprocess.run(["bash", "-c", script], env=env, cwd=ROOT, capture_output=True, text=True, check=False)
        assert [word.strip() for word in done.stdout.splitlines()] == wanted, done
