"""Prepares emulated ARM: ``prepare_emulation [arm64|armhf|counting|full-system ...]``.

Nothing named means all but full-system. Prints a line for each thing prepared; running it again is instant.
"""

from __future__ import annotations

import sys
from typing import Sequence

from device_tests.host.counting.regions import counting_plugin
from device_tests.host.emulation.cache import EmulationUnavailable
from device_tests.host.emulation.full_system import full_system
from device_tests.host.emulation.machine import CPUS, emulated

DEFAULT_PARTS = (*CPUS, "counting")
PARTS = (*DEFAULT_PARTS, "full-system")


def main(arguments: Sequence[str]) -> int:
    """Exit status 2 and one line on stderr if something named cannot be had."""
    unknown = [name for name in arguments if name not in PARTS]
    if unknown:
        print(f"prepare_emulation: no part {unknown[0]!r}; there are {', '.join(PARTS)}", file=sys.stderr)
        return 2
    try:
        for part in arguments or DEFAULT_PARTS:
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
