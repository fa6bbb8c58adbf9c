"""Prepare emulated ARM machines in a cache outside the repository.

  prepare_emulation                    arm64, armhf and counting
  prepare_emulation full-system        the whole emulated computer

It prints a line for each part; running it again is instant.
"""

from __future__ import annotations

import sys
from typing import Sequence

from device_tests.host.counting.regions import counting_plugin
from device_tests.host.emulation.cache import EmulationUnavailable
from device_tests.host.emulation.full_system import full_system
from device_tests.host.emulation.machine import CPUS, emulated
from runtime_arm.app.command_line import Parser

DEFAULT_PARTS = (*CPUS, "counting")
PARTS = (*DEFAULT_PARTS, "full-system")


def main(arguments: Sequence[str]) -> int:
    """Prepares the parts; returns 2, after one line on stderr, if one cannot be prepared."""
    parser = Parser(prog="prepare_emulation", description=__doc__)
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)} (default: {', '.join(DEFAULT_PARTS)})"
    )
    parts = parser.parse_args(arguments).parts
    unknown = [name for name in parts if name not in PARTS]
    if unknown:
        parser.error(f"no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    try:
        for part in parts or DEFAULT_PARTS:
            for cpu in CPUS.get(part, ()):
                machine = emulated(part, cpu)
                print(f"{machine.name}\t{machine.python}")
            if part == "counting":
                print(f"{part}\t{counting_plugin()}")
            if part == "full-system":
                print(f"{part}\t{full_system().kernel}")
    except EmulationUnavailable as error:
        print(f"prepare_emulation: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
