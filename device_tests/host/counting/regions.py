"""Counts the ARM instructions that an emulated Python program executes, in all and in each region that it marks.

    report = count(emulated("arm64"), ["program.py"])       # program.py: with region("matmul"): a @ b
    report.regions["matmul"].instructions

Regions are marked with ``device_tests.suite.regions``. Counts of a region repeat exactly from run to run; those of a
whole program vary by a few thousand if it draws random numbers from the system, as ``import numpy`` does. A region's
counts include the cost of entering and leaving it, about 2,300 instructions. One thread is counted.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Sequence

from device_tests.host.emulation.apt import download_source
from device_tests.host.emulation.cache import EmulationUnavailable, built, locked, progress
from device_tests.host.emulation.machine import Machine, environment, run_group
from device_tests.host.emulation.tools import require_tools, run_tool
from runtime_arm.errors import ArmnetError
from runtime_arm.machine.cache import cache_root

SOURCE = Path(__file__).with_name("instruction_count.c")
API_VERSION = 1  # of QEMU's plugin interface; later versions cannot add to a plain variable inline
RECIPE = 1  # raise it when the way of building changes

KINDS = ("instructions", "simd_fp", "multiply_add", "load_store")
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}


class CountedProgramError(ArmnetError):
    """The program whose instructions were counted failed."""


@dataclass(frozen=True)
class Counts:
    """Executed instructions: all, SIMD and floating-point arithmetic, its multiply-adds, loads and stores.

    ``multiply_add`` covers fused and, on 32-bit ARM, chained (VMLA) multiply-adds. A vector instruction counts once.
    """

    entries: int
    instructions: int
    simd_fp: int
    multiply_add: int
    load_store: int

    def less(self, other: Counts) -> Counts:
        """These counts, less the counts of ``other`` for each entry."""
        entries = self.entries
        kinds = [getattr(self, kind) - entries * getattr(other, kind) // other.entries for kind in KINDS]
        return Counts(entries, *kinds)


@dataclass(frozen=True)
class CountReport:
    """Counts of the whole program, and of its regions by name in the order in which they were first entered."""

    total: Counts
    regions: Dict[str, Counts]
    stdout: str


def count(
    machine: Machine,
    arguments: Sequence[str],
    timeout: Optional[float] = None,
    env: Optional[Mapping[str, str]] = None,
    cwd: Optional[Path] = None,
) -> CountReport:
    """Runs the machine's Python with these arguments and counts its instructions; parameters as in ``Machine.run``.

    EmulationUnavailable if counting is not possible here, CountedProgramError if the program fails.
    """
    plugin = counting_plugin()
    with tempfile.TemporaryDirectory(prefix="armnet-count-") as scratch:
        counts, names = Path(scratch, "counts"), Path(scratch, "names.json")
        command = [
            *_without_address_randomisation(),
            *machine.command(["-seed", "1", "-plugin", f"{plugin},output={counts}"]),
            *arguments,
        ]
        variables = environment({**ONE_THREAD, "ARMNET_REGION_NAMES": str(names), **(env or {})})
        done = run_group(command, timeout, variables, cwd)
        if done.returncode or not counts.exists():
            reason = (done.stderr.strip().splitlines() or ["it printed no reason"])[-1]
            raise CountedProgramError(f"{' '.join(arguments)}: exit status {done.returncode}: {reason}")
        named = json.loads(names.read_text()) if names.exists() else []
        return _read_report(counts.read_text(), named, done.stdout)


def counting_plugin() -> Path:
    """The compiled plugin, built on first use; EmulationUnavailable if it cannot be built."""
    cache = cache_root()
    source = SOURCE.read_text()

    def build(folder: Path) -> None:
        require_tools(["gcc"], "counting instructions")
        header = _plugin_header(cache)
        progress("compiling the instruction counter")
        options = ["-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-I", str(header.parent)]
        run_tool(["gcc", *options, "-o", str(folder / "instruction_count.so"), str(SOURCE)])

    with locked(cache):
        return built(cache / "counting", [RECIPE, source], build) / "instruction_count.so"


def _plugin_header(cache: Path) -> Path:
    """qemu-plugin.h, which comes only with QEMU's source, of the QEMU in the package sources."""

    def build(folder: Path) -> None:
        require_tools(["xz"], "counting instructions")
        download = folder / "download"
        download.mkdir()
        download_source("qemu", download)
        (archive,) = download.glob("*.orig.tar.*z*")
        into = ["--directory", str(download), "--wildcards", "*/qemu-plugin.h"]
        run_tool(["tar", "--extract", "--file", str(archive), *into])
        header = next(download.rglob("qemu-plugin.h"))
        header.rename(folder / header.name)
        shutil.rmtree(download)

    header = built(cache / "qemu-header", [RECIPE], build) / "qemu-plugin.h"
    if not re.search(rf"(?m)^#define QEMU_PLUGIN_VERSION {API_VERSION}$", header.read_text()):
        raise EmulationUnavailable(f"counting instructions needs QEMU's plugin API {API_VERSION} (QEMU 4.2 to 8.2)")
    return header


def _without_address_randomisation() -> List[str]:
    """``setarch -R``, if it is installed and allowed; containers may forbid it."""
    command = ["setarch", "-R"]
    try:
        allowed = subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        allowed = False
    return command if allowed else []


def _read_report(text: str, names: Sequence[str], stdout: str) -> CountReport:
    """The report in the plugin's lines, "region counts...", with the regions' names; -1 is the whole program."""
    counts: Dict[int, Counts] = {}
    for line in text.splitlines():
        region, *numbers = map(int, line.split())
        counts[region] = Counts(*numbers)
    regions = {name: counts[number] for number, name in enumerate(names) if number in counts}
    return CountReport(counts[-1], regions, stdout)
