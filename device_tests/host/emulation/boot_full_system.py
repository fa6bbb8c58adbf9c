"""Boot an emulated arm64 computer, run Python on it, and switch it off.

    boot_full_system -- -c 'import platform; print(platform.uname())'
    boot_full_system --copy digits_pair --memory 600 -- -m runtime_arm digits_pair --bench

The current directory there holds runtime_arm, device_tests/suite and what --copy names. The exit status is Python's.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Sequence

from device_tests.host.emulation.full_system import full_system
from runtime_arm.app.command_line import Parser
from runtime_arm.errors import ArmnetError

REPOSITORY = Path(__file__).resolve().parents[3]
SHIPPED = ("runtime_arm", "device_tests/__init__.py", "device_tests/suite")
FOLDER = "/armnet"


def main(arguments: Sequence[str]) -> int:
    """The exit status of the program; 2, after one line on stderr, if the computer cannot be made or fails."""
    parser = Parser(prog="boot_full_system", description=__doc__)
    parser.add_argument(
        "--copy",
        type=Path,
        action="append",
        default=[],
        metavar="PATH",
        help="a file or folder to copy there",
    )
    parser.add_argument("--cpu", default="cortex-a72", help="QEMU's CPU model (default: %(default)s)")
    parser.add_argument("--cpus", type=int, default=2, help="cores (default: %(default)s)")
    parser.add_argument("--memory", type=int, default=1024, metavar="MIB", help="600 or more (default: %(default)s)")
    parser.add_argument("--timeout", type=float, default=600, metavar="SECONDS", help="(default: %(default)s)")
    parser.add_argument("python", nargs="*", metavar="ARGUMENT", help="the arguments of Python, after --")
    options = parser.parse_args(arguments)
    copies = {f"{FOLDER}/{name}": REPOSITORY / name for name in SHIPPED}
    copies.update({f"{FOLDER}/{path.resolve().name}": path for path in options.copy})
    try:
        done = full_system().run(
            options.python,
            options.timeout,
            copies=copies,
            directory=FOLDER,
            cpu=options.cpu,
            cpus=options.cpus,
            memory_mib=options.memory,
        )
    except (ArmnetError, OSError, subprocess.TimeoutExpired) as error:
        print(f"boot_full_system: {error}", file=sys.stderr)
        return 2
    print(done.stdout)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
