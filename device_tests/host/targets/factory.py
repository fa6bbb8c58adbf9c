"""Makes targets from their names.

``local``                       this machine and this Python
``emulated:arm64[:CPU]``        an emulated machine, prepared on first use; ``emulated:armhf`` likewise
``ssh://[USER@]HOST[:PORT]``    a machine with an ssh server, Python and NumPy; HOST may be an alias that ssh knows
``full-system:arm64``           a whole emulated computer, booted for each run
"""

from __future__ import annotations

from typing import List

from device_tests.host.targets.target import Target
from runtime_arm.errors import UsageError


def target_of(name: str, python: str = "python3", with_driver: bool = False) -> Target:
    """The target of that name; UsageError if there is none.

    python: the program to run over ssh. with_driver: with PoCL as its driver of OpenCL; only this machine and emulated
    ones can have it.
    """
    kind, _, rest = name.partition(":")
    if name == "local":
        from device_tests.host.targets.folder import local

        return local(with_driver)
    if kind == "emulated":
        from device_tests.host.targets.folder import emulated_target

        architecture, _, cpu = rest.partition(":")
        return emulated_target(name, architecture, cpu or None, with_driver)
    if with_driver and kind in ("ssh", "full-system"):
        raise UsageError(f"{name} runs kernels with its own driver; PoCL is for local and emulated targets")
    if kind == "ssh":
        from device_tests.host.targets.ssh import SshTarget

        return SshTarget(name, python)
    if name == "full-system:arm64":
        from device_tests.host.targets.full_system import FullSystemTarget

        return FullSystemTarget(name)
    if "@" in name:
        raise UsageError(f"no target {name!r}; did you mean 'ssh://{name}'?")
    raise UsageError(f"no target {name!r}; there are {', '.join(row[0] for row in known_targets())}")


def known_targets() -> List[List[str]]:
    """Name and description of every kind of target."""
    from device_tests.host.emulation.machine import CPUS

    rows = [["local", "this machine and this Python"]]
    for architecture, cpus in CPUS.items():
        for index, cpu in enumerate(cpus):
            name = f"emulated:{architecture}" + (f":{cpu}" if index else "")
            rows.append([name, f"an emulated machine with the CPU {cpu}"])
    rows.append(["full-system:arm64", "a whole emulated computer that boots Debian's kernel; only for test"])
    rows.append(
        ["ssh://[USER@]HOST[:PORT]", "a machine over ssh: a Raspberry Pi, a phone with Termux (port 8022), ..."]
    )
    return rows
