"""How many cores to use if the user does not say."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Optional

ROOT = Path("/")


def useful_cores(root: Path = ROOT) -> int:
    """How many of the fastest cores that this process may use give the highest speed together.

    Workers get equal parts, so the slowest core sets the pace: n cores are n times as fast as the n-th fastest of them.
    If all cores are alike, the answer is all of them; of a phone's four large and four small cores, it is the large
    ones. The Linux kernel reports the capacity of each core, 1024 for the fastest, on ARM and wherever cores differ
    (Documentation/ABI/testing/sysfs-devices-system-cpu). Without that report, all cores count.
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
