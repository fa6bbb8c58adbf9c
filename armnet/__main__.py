"""The command ``armnet COMMAND ...``; each command is a module in ``commands/``."""
# PYTHON_ARGCOMPLETE_OK

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from typing import List, Optional

from armnet.commands import COMMANDS
from runtime_arm.app.command_line import BLAS_PATIENCE, LIVELY, Parser, guarded
from runtime_arm.errors import suggestion
from runtime_arm.version import VERSION


def main(argv: Optional[List[str]] = None) -> int:
    """Runs one command; returns its exit status: 2, after one line on stderr, for a user's mistake."""
    words = sys.argv[1:] if argv is None else argv
    gc.set_threshold(LIVELY)
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", BLAS_PATIENCE)
    if "_ARGCOMPLETE" in os.environ:
        _complete()
    return guarded("armnet", lambda: _run(words))


def _run(words: List[str]) -> int:
    if words[:1] == ["help"]:
        words = [*words[1:2], "--help"]
    if not words or words[0].startswith("-"):
        _overview().parse_args(words or ["--help"])
    if words[0] not in COMMANDS:
        near = suggestion(words[0], [*COMMANDS, "--version"]) or f"; there are {', '.join(COMMANDS)}"
        _overview().error(f"there is no command {words[0]!r}{near}")
    module = import_module(f"armnet.commands.{words[0]}")
    parser = Parser(prog=f"armnet {words[0]}", description=module.__doc__)
    module.add_arguments(parser)
    args = parser.parse_args(words[1:])
    if getattr(args, "threads", None) == 1:
        os.environ["OPENBLAS_NUM_THREADS"] = "1"  # OpenBLAS starts its threads when NumPy loads it
    return int(module.run(args))


def _complete() -> None:
    """Completes a command line for the shell; does not return if argcomplete is installed."""
    try:
        import argcomplete
    except ImportError:
        return
    parser = Parser(prog="armnet")
    commands = parser.add_subparsers()
    for name, purpose in COMMANDS.items():
        import_module(f"armnet.commands.{name}").add_arguments(commands.add_parser(name, help=purpose))
    argcomplete.autocomplete(parser)


def _overview() -> Parser:
    width = max(map(len, COMMANDS))
    listing = "\n".join(f"  {name:<{width}}  {purpose}" for name, purpose in COMMANDS.items())
    parser = Parser(
        prog="armnet",
        usage="armnet COMMAND ...",
        description="Run trained neural networks on any ARM device that has Python and NumPy.",
        epilog=f"commands:\n{listing}\n\n'armnet COMMAND --help' describes a command, with examples.",
    )
    parser.add_argument("--version", action="version", version=f"armnet {VERSION}")
    return parser


if __name__ == "__main__":
    sys.exit(main())
