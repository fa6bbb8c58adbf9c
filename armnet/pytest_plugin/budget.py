"""``assert_within_budget``: a model takes no more instructions and no more memory than its budget."""

from __future__ import annotations

from pathlib import Path
from typing import List, Optional, Sequence, Union

from armnet.opening import name_of
from armnet.pytest_plugin.common import UPDATE
from armnet.pytest_plugin.device import Device, files_of
from device_tests.host.counting.budget_file import Measured, compared, entry_of, update
from runtime_arm.files import AnyPath


def assert_within_budget(
    model: Union[AnyPath, Sequence[AnyPath]],
    device: Device,
    instructions: Optional[int] = None,
    memory: Optional[int] = None,
    file: Optional[AnyPath] = None,
) -> None:
    """Fails if an inference takes more than its budget on the device.

    model: what ``armnet.open`` takes. instructions: the most for an inference with one thread; only emulated machines
    count them. memory: the most bytes of weights and arena. file: a budget file, which ``--armnet-update-budgets``
    writes; without any of the three, ``NAME.json`` in the folder that the setting ``armnet_budgets`` names. A file also
    limits the start and each operator, all with a tolerance of 2 %. If numbers cannot be counted here, or were counted
    under other conditions, the test is skipped after the others were compared.
    """
    __tracebackhide__ = True
    path = Path(file) if file is not None else None
    if path is None and instructions is None and memory is None:
        path = device.budget_file(model)
    if path is not None and not device.updates_budgets:
        entry_of(path, device.name if device.machine is None else device.machine.name, UPDATE)
    found = device.measured(model, counted=path is not None or instructions is not None)
    _record(device, found)
    lines, unknown = _beyond(found, instructions, memory), ""
    if instructions is not None and found.counts is None:
        unknown = "instructions are counted only on emulated machines"
    if path is not None and device.updates_budgets:
        update(path, found)
    elif path is not None:
        verdict = compared(path, found, UPDATE)
        lines += [f"{path.name}: {line}" for line in verdict.excesses]
        if verdict.uncompared:
            unknown = f"{path} was counted under other conditions: {verdict.uncompared}; {UPDATE} counts again"
    if lines:
        hint = f"\n  if there is a good reason for it: pytest {UPDATE}" if path is not None else ""
        raise AssertionError(
            "\n  ".join([f"{name_of(files_of(model))} exceeds its budget on {device.name}", *lines]) + hint
        )
    if unknown:
        device.lacks(unknown)


def _record(device: Device, found: Measured) -> None:
    device.record("memory", found.nbytes)
    if found.counts is not None:
        device.record("instructions", found.counts.network.instructions)
        device.record("start_instructions", found.counts.start.instructions)


def _beyond(found: Measured, instructions: Optional[int], memory: Optional[int]) -> List[str]:
    """A line for each number beyond those that the test gives."""
    lines = []
    counted = None if found.counts is None else found.counts.network.instructions
    if instructions is not None and counted is not None and counted > instructions:
        lines.append(f"the network: {instructions:,} instructions allowed, {counted:,} counted")
    if memory is not None and found.nbytes > memory:
        lines.append(f"the memory: {memory:,} bytes allowed, {found.nbytes:,} needed")
    return lines
