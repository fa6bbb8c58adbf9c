"""The command: ``armnet COMMAND ...``, one file a command in ``commands/``."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from importlib import import_module
from typing import Any, List, Optional

import armnet
from armnet.commands import COMMANDS
from runtime_arm.errors import ArmnetError

REFUSED = 2  # exit status for the user's mistakes; 1 is an answer ("they differ"), tracebacks are our bugs


def main(argv: Optional[List[str]] = None) -> int:
    """Runs one command. Results go to stdout, everything else to stderr; a user's mistake is one line and status 2."""
    words = sys.argv[1:] if argv is None else argv
    if not words or words[0] not in COMMANDS:
        _overview().parse_args(words or ["--help"])
        return REFUSED
    module = import_module(f"armnet.commands.{words[0]}")
    parser = argparse.ArgumentParser(prog=f"armnet {words[0]}", description=module.__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    module.add_arguments(parser)
    args = parser.parse_args(words[1:])
    if getattr(args, "threads", None) == 1:
        os.environ["OPENBLAS_NUM_THREADS"] = "1"  # OpenBLAS starts its threads when NumPy loads it
    return _guarded(module, args)


def _guarded(module: Any, args: argparse.Namespace) -> int:
    try:
        status: int = module.run(args)
        sys.stdout.flush()
        return status
    except ArmnetError as error:
        print(f"armnet: {error}", file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        print("armnet: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        _drop_output()
        return 0
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _drop_output()
        print(f"armnet: standard output: {error.strerror}", file=sys.stderr)
        return REFUSED


def _drop_output() -> None:
    """What is still buffered for stdout goes nowhere, instead of failing again when Python exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _overview() -> argparse.ArgumentParser:
    width = max(map(len, COMMANDS))
    listing = "\n".join(f"  {name:<{width}}  {purpose}" for name, purpose in COMMANDS.items())
    parser = argparse.ArgumentParser(prog="armnet", usage="armnet COMMAND ...",
                                     description="Run trained neural networks on any device that has Python and NumPy.",
                                     epilog=f"commands:\n{listing}\n\n'armnet COMMAND --help' tells more.",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action="version", version=f"armnet {armnet.__version__}")
    parser.add_argument("command", choices=list(COMMANDS), metavar="COMMAND", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
