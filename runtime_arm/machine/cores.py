"""How many cores to use where nobody says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Optional

ROOT = Path("/")


def useful_cores(root: Path = ROOT) -> int:
    """Of the cores that this process may use, as many of the fastest as do most together.

    Workers get equal parts, so the slowest core sets the pace: n cores do n times what the n-th fastest does. Where
    all are alike that is all of them; of a phone's four large and four small cores it is the large ones. How much a
    core does the kernel tells, in parts of 1024 of the fastest, on ARM and wherever they differ
    (Documentation/ABI/testing/sysfs-devices-system-cpu); where it does not, all count.
    """
    try:
        cores = os.sched_getaffinity(0)
    except AttributeError:
        return os.cpu_count() or 1
    capacities = [_capacity(root, core) for core in cores]
    known = sorted((capacity for capacity in capacities if capacity), reverse=True)
    if len(known) < len(cores):
        return len(cores)
    return max(range(1, len(known) + 1), key=lambda count: (count * known[count - 1], count))


def _capacity(root: Path, core: int) -> Optional[int]:
    try:
        return int((root / f"sys/devices/system/cpu/cpu{core}/cpu_capacity").read_text())
    except (OSError, ValueError):
        return None
