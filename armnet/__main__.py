"""The command: ``armnet COMMAND ...``, one file a command in ``commands/``."""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from typing import List, Optional

import armnet
from armnet.commands import COMMANDS
from runtime_arm.app.command_line import REFUSED, guarded


def main(argv: Optional[List[str]] = None) -> int:
    """Runs one command. Results go to stdout, everything else to stderr; a user's mistake is one line and status 2."""
    words = sys.argv[1:] if argv is None else argv
    return guarded("armnet", lambda: _run(words))


def _run(words: List[str]) -> int:
    if not words or words[0] not in COMMANDS:
        _overview().parse_args(words or ["--help"])
        return REFUSED
    module = import_module(f"armnet.commands.{words[0]}")
    parser = argparse.ArgumentParser(
        prog=f"armnet {words[0]}", description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    module.add_arguments(parser)
    args = parser.parse_args(words[1:])
    if getattr(args, "threads", None) == 1:
        os.environ["OPENBLAS_NUM_THREADS"] = "1"  # OpenBLAS starts its threads when NumPy loads it
    return int(module.run(args))


def _overview() -> argparse.ArgumentParser:
    width = max(map(len, COMMANDS))
    listing = "\n".join(f"  {name:<{width}}  {purpose}" for name, purpose in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="armnet",
        usage="armnet COMMAND ...",
        description="Run trained neural networks on any device that has Python and NumPy.",
        epilog=f"commands:\n{listing}\n\n'armnet COMMAND --help' tells more.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"armnet {armnet.__version__}")
    parser.add_argument("command", choices=list(COMMANDS), metavar="COMMAND", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
