"""The command line: every command has help; a mistake gives one line that points to it, and exit status 2."""

from __future__ import annotations

import argparse
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Iterator, List

import pytest

from armnet.commands import COMMANDS
from runtime_arm.app.command_line import Parser
from runtime_arm.app.main import main as run_bundle
from tests.support.commands import Armnet, refused
from tests.support.paths import ROOT

OF_ANOTHER = ("exec",)  # commands whose words belong to the program that they run


def parser_of(command: str) -> argparse.ArgumentParser:
    module = import_module(f"armnet.commands.{command}")
    parser = Parser(prog=f"armnet {command}", description=module.__doc__)
    module.add_arguments(parser)
    return parser


def parsers_below(parser: argparse.ArgumentParser) -> List[argparse.ArgumentParser]:
    """The parsers of a command's actions, or the command's own parser if it has no actions."""
    actions = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return [sub for action in actions for sub in action.choices.values()] or [parser]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_and_describes_every_argument(armnet: Armnet, command: str) -> None:
    status, out, _ = armnet(command, "--help")
    assert status == 0
    assert f"\n  armnet {command}" in out
    for parser in parsers_below(parser_of(command)):
        assert parser.description
        assert "--json" in parser.format_help() or command in OF_ANOTHER
        for action in parser._actions:
            assert action.help, f"{parser.prog} {action.dest}"
            if action.default not in (None, "", [], False, argparse.SUPPRESS):
                assert "(default: " in action.help, f"{parser.prog} {action.dest}"


def mistakes(parser: argparse.ArgumentParser) -> Iterator[List[str]]:
    """Command lines that the parser rejects: an unknown option, and an invalid use of each argument."""
    yield ["--frobnicate"]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield ["frobnicate"]
            for name, sub in action.choices.items():
                yield from ([name, *words] for words in mistakes(sub))
        elif action.required and not action.option_strings and action.nargs != "*":
            yield []
        elif action.option_strings and not isinstance(action, argparse._HelpAction):
            option = action.option_strings[-1]
            if action.nargs == 0:
                yield [f"{option}=yes"]
            elif action.nargs in (None, "+"):
                yield [option]
            if action.type in (int, float) or action.choices:
                yield [option, "frobnicate"]


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in OF_ANOTHER])
def test_a_mistake_is_one_line_that_names_the_help(armnet: Armnet, command: str) -> None:
    tried = list(mistakes(parser_of(command)))
    assert len(tried) >= 2
    for words in tried:
        outcome = armnet(command, *words)
        refused(outcome, f"armnet {command}", "--help tells more")


def test_the_error_names_the_option(armnet: Armnet) -> None:
    refused(armnet("run", "pair", "--input", "x.npy", "--threads", "many"), "--threads", "'many'")
    refused(armnet("run", "pair"), "--input")
    refused(armnet("bench", "pair", "--run\ns"), r"--run\ns")


def test_options_may_stand_between_the_other_words() -> None:
    for command, words in (
        ("run", ["pair", "--top", "3", "a.jpg", "--every", "2", "b.jpg"]),
        ("run", ["pair", "--input", "c.jpg", "--top", "3", "a.jpg", "--input", "d.jpg"]),
        ("compare", ["model.onnx", "--seed", "3", "pair"]),
        ("evaluate", ["pair", "a", "--count", "3", "b"]),
    ):
        mixed = parser_of(command).parse_args(words)
        at = [number for number, word in enumerate(words) if word[:2] == "--"]
        options = [word for number in at for word in words[number : number + 2]]
        others = [word for number, word in enumerate(words) if not {number, number - 1} & set(at)]
        assert mixed == parser_of(command).parse_args([*others, *options])


def test_what_is_left_over_is_refused(armnet: Armnet) -> None:
    refused(armnet("diff", "a", "--runs", 3, "b", "data", "more"), "armnet diff: unrecognized arguments: more")
    refused(armnet("device", "list", "--json", "more"), "unrecognized arguments: more")


def test_an_unknown_command_is_refused_with_a_list_of_commands(armnet: Armnet) -> None:
    refused(armnet("frobnicate"), "'frobnicate'", ", ".join(COMMANDS), "--help tells more")
    refused(armnet("--frobnicate"), "--frobnicate", "--help tells more")


@pytest.mark.parametrize("words", [["--frobnicate"], ["--top"], ["--threads", "many"], ["--info", "--bench"], []])
def test_a_mistake_with_a_bundle_is_one_line_that_names_the_help(
    words: List[str], digits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status = run_bundle(str(digits), words, "app.pyz")
    except SystemExit as leaving:
        status = int(leaving.code or 0)
    refused((status, *capsys.readouterr()), "app.pyz: ", "--help tells more")


@pytest.mark.parametrize("words", [[], ["--frobnicate"], ["--bench", "x"]])
def test_a_mistake_with_the_runtime_module_is_one_line_that_names_the_help(words: List[str]) -> None:
    command = [sys.executable, "-m", "runtime_arm", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    refused((done.returncode, done.stdout, done.stderr), "python3 -m runtime_arm", "--help tells more")
