"""A budget file: the limits of one model, machine by machine.

    {"schema": 1, "machines": {"arm64-cortex-a72": {"counted_on": ..., "network": ..., "operators": ..., "start": ...,
                                                    "memory": {"weights": ..., "arena": ...}}}}

Instructions are counted only on emulated machines; the entry of another device has only ``memory``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Optional

from device_tests.host.counting.budgets import GROWTH, Budget, as_budget, excesses, other_conditions
from device_tests.host.counting.operator_counts import NetworkCounts, count_pair
from device_tests.host.emulation.cache import locked
from device_tests.host.emulation.machine import Machine
from device_tests.host.suite_run import pair_files, runtime_files, suite_files
from device_tests.host.targets.target import Target
from runtime_arm.errors import FormatError, UsageError
from runtime_arm.files import map_file, one_line_errors, write_file
from runtime_arm.machine.cache import cache_root

SCHEMA = 1
NETWORK = "network"


class Measured(NamedTuple):
    """The figures of a model on a machine. counts, also as a budget: on an emulated machine, else None."""

    machine: str
    memory: Dict[str, int]
    counts: Optional[NetworkCounts] = None
    budget: Optional[Budget] = None

    @property
    def nbytes(self) -> int:
        """All bytes."""
        return sum(self.memory.values())


class Verdict(NamedTuple):
    """excesses: a line for each number that is too large. uncompared: why instructions were not compared, or ""."""

    excesses: List[str]
    uncompared: str = ""


def measured(target: Target, pair: Path, machine: Optional[Machine]) -> Measured:
    """The figures of a pair's folder or a bundle on an open target; instructions, too, if it is an emulated machine."""
    target.deploy({**runtime_files(), **suite_files(), **pair_files(pair, NETWORK)})
    memory: Dict[str, int] = json.loads(target.output(["-m", "device_tests.suite.memory_needs", NETWORK]))
    if machine is None:
        return Measured(target.name, memory)
    counts = count_pair(machine, pair)
    return Measured(machine.name, memory, counts, as_budget(machine, counts))


def entry_of(path: Path, machine: str, how: str) -> Mapping[str, Any]:
    """The entry of a machine. UsageError, with ``how`` to write one, if the file has none."""
    entry = _machines(path).get(machine) if path.is_file() else None
    if not entry:
        raise UsageError(f"{path}: no budget for {machine}; {how} writes one")
    found: Mapping[str, Any] = entry
    return found


def compared(path: Path, found: Measured, how: str) -> Verdict:
    """The numbers against those of a budget file. UsageError, with ``how`` to write one, if it has none for the
    machine."""
    entry = entry_of(path, found.machine, how)
    lines: List[str] = []
    uncompared = ""
    try:
        allowed = sum(entry["memory"].values())
        if found.counts is not None and found.budget is not None:
            budget = Budget(**{name: entry[name] for name in Budget._fields})
            uncompared = other_conditions(budget, found.budget.counted_on)
            lines = [] if uncompared else excesses(budget, found.counts)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise FormatError(f"{path}: the budget for {found.machine} is damaged: {error!r}; {how} writes one") from error
    if found.nbytes > (1 + GROWTH) * allowed:
        parts = ", ".join(f"{name} {entry['memory'].get(name, 0):,} -> {n:,}" for name, n in found.memory.items())
        lines.append(f"the memory: {allowed:,} bytes allowed, {found.nbytes:,} needed ({parts})")
    return Verdict(lines, uncompared)


def update(path: Path, found: Measured) -> None:
    """Makes the numbers the budget for their machine; those for other machines stay. Processes take turns."""
    with locked(cache_root() / "budgets"):
        machines = _machines(path) if path.is_file() else {}
        own: Dict[str, Any] = {} if found.budget is None else found.budget._asdict()
        machines = {**machines, found.machine: {**own, "memory": found.memory}}
        ordered = dict(sorted(machines.items()))
        with one_line_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, [json.dumps({"schema": SCHEMA, "machines": ordered}, indent=1).encode() + b"\n"])


def _machines(path: Path) -> Mapping[str, Any]:
    try:
        content = json.loads(bytes(map_file(path)))
        if content["schema"] != SCHEMA or not isinstance(content["machines"], dict):
            raise ValueError(f"schema is {content['schema']!r}, expected {SCHEMA}")
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(f"{path}: is no budget file: {error}") from error
    machines: Mapping[str, Any] = content["machines"]
    return machines
