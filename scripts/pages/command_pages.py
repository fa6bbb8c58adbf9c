"""A page of the site for each command, made from its parser, so that it is never out of date."""

from __future__ import annotations

import argparse
import re
from importlib import import_module
from typing import Dict, Iterator, List

from armnet.commands import COMMANDS
from runtime_arm.app.command_line import Parser
from scripts.pages import schemas

WIDTH = 100  # columns of a usage line
SCHEMAS = "../formats/json.md"
_CODE = re.compile(
    r"``(?P<quoted>.+?)``|(?P<word>(?<![\w`])(?:--?[a-zA-Z][\w-]*|\$[A-Z_]+|[\w./~$-]*[_*<\[][^\s,;:)]*))"
)


def pages() -> Dict[str, str]:
    """The Markdown of each page by its name: ``commands/index.md`` and one page per command."""
    return {"commands/index.md": _overview(), **{f"commands/{name}.md": _page(name) for name in COMMANDS}}


def parser_of(name: str) -> argparse.ArgumentParser:
    """The parser of a command, as ``armnet NAME`` makes it."""
    module = import_module(f"armnet.commands.{name}")
    parser = Parser(prog=f"armnet {name}", description=module.__doc__)
    module.add_arguments(parser)
    return parser


def subcommands(parser: argparse.ArgumentParser) -> Dict[str, argparse.ArgumentParser]:
    """The parsers of a command's actions, by name: those of ``armnet device`` are list, test, run, ..."""
    found = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return {name: sub for action in found for name, sub in action.choices.items()}


def _overview() -> str:
    rows = "\n".join(f"| [`armnet {name}`]({name}.md) | {_prose(purpose)} |" for name, purpose in COMMANDS.items())
    return f"""# Commands

Everything armnet does is a command, `armnet COMMAND`. `armnet COMMAND --help` prints what these pages say.

| command | what it does |
|---|---|
{rows}

Wherever a command takes a PAIR, a bundle or a model's own files do, too: `armnet run model.tflite photo.jpg`.

Results go to the standard output, all else to the error output. Every command takes `--json`; [the formats]({SCHEMAS})
say what it prints then. The exit status is

| status | meaning |
|--:|---|
| 0 | good |
| 1 | a result is bad, or inputs were skipped |
| 2 | a mistake in what was asked, told in one line on the error output |
"""


def _page(name: str) -> str:
    parser = parser_of(name)
    parts = [f"# armnet {name}", *_described(parser), *_output(name)]
    for action, sub in subcommands(parser).items():
        parts += [f"## armnet {name} {action}", *_described(sub), *_output(f"{name} {action}")]
    return "\n\n".join(parts) + "\n"


def _described(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Purpose, usage, the rest of the description, and a table for each group of arguments."""
    purpose, *rest = (parser.description or "").strip("\n").split("\n\n")
    yield _prose(purpose)
    yield f"```text\n{_usage(parser)}\n```"
    for block in rest:
        indented = all(line.startswith("  ") for line in block.splitlines())
        yield f"```text\n{_dedented(block)}\n```" if indented else _prose(block)
    for group in parser._action_groups:
        rows = list(_rows(parser, group._group_actions))
        if rows:
            title = (group.title or "").replace("positional arguments", "arguments")
            yield f"**{title[:1].upper()}{title[1:]}**"
            yield "\n".join(["| | |", "|---|---|", *rows])


def _output(command: str) -> Iterator[str]:
    """What ``--json`` prints, if the command has it."""
    name = schemas.file_of(command)
    if name is not None:
        yield f"**What `armnet {command} --json` prints**"
        yield schemas.table(name, schemas.EVERYWHERE)
        schema = f"[schema](../formats/schemas/{name}.schema.json)"
        yield f"`schema` and `command` are [always there]({SCHEMAS}). The {schema}."


def _usage(parser: argparse.ArgumentParser) -> str:
    formatter = argparse.HelpFormatter(parser.prog, width=WIDTH)
    formatter.add_usage(parser.usage, parser._actions, parser._mutually_exclusive_groups, prefix="")
    return formatter.format_help().strip()


def _rows(parser: argparse.ArgumentParser, actions: List[argparse.Action]) -> Iterator[str]:
    formatter = argparse.HelpFormatter(parser.prog, width=WIDTH)
    for action in actions:
        if action.help is argparse.SUPPRESS or isinstance(action, argparse._HelpAction):
            continue
        if isinstance(action, argparse._SubParsersAction):
            for choice in action._choices_actions:
                yield f"| `{choice.dest}` | {_prose(choice.help or '')} |"
            continue
        shown = "<br>".join(f"`{part}`" for part in formatter._format_action_invocation(action).split(", "))
        if action.choices is not None and not action.option_strings:
            shown = ", ".join(f"`{choice}`" for choice in action.choices)
        help_text = formatter._expand_help(action) if action.help else ""
        yield f"| {shown} | {_prose(help_text)} |".replace("\n", " ")


def _dedented(block: str) -> str:
    return "\n".join(line[2:] for line in block.splitlines())


def _prose(text: str) -> str:
    """A paragraph of a docstring as Markdown: options, variables and names with signs become code."""
    joined = " ".join(text.split())
    return _CODE.sub(lambda found: f"`{found['quoted'] or found['word']}`", joined)
