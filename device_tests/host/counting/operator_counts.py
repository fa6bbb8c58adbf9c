"""Counts the instructions of a network on emulated ARM: in total, by operator, for the start, and with other runtimes.

    counts = count_pair(emulated("arm64"), Path("squeezenet"))
    counts.network.instructions, counts.operators[0].counts.multiply_add

``device_tests.suite.count_steps`` is the program that is counted.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional

from device_tests.host.counting.regions import CountReport, Counts, count
from device_tests.host.emulation.cache import EmulationUnavailable, built, locked, progress
from device_tests.host.emulation.machine import Machine
from device_tests.host.suite_run import runtime_files, suite_files
from device_tests.suite.count_steps import NETWORK, NOTHING, START
from runtime_arm.errors import UsageError
from runtime_arm.machine.cache import cache_root

TIMEOUT = 900.0  # seconds
OTHER_RUNTIMES = {".onnx": "onnxruntime", ".tflite": "tflite-runtime"}
OTHER_PROGRAM = Path(__file__).with_name("other_inference.py")
RECIPE = 1
# The platforms of wheels that pip takes on Debian 12.
WHEEL_PLATFORMS = {
    "arm64": ("manylinux2014_aarch64", "manylinux_2_28_aarch64", "manylinux_2_34_aarch64"),
    "armhf": ("manylinux2014_armv7l", "manylinux_2_28_armv7l", "manylinux_2_34_armv7l"),
}


class OperatorCounts(NamedTuple):
    """Counts of the operator at position ``number`` of its net."""

    number: int
    type: str
    output: str
    engine: str
    counts: Counts

    @property
    def name(self) -> str:
        """A name that depends neither on the operator's position nor on its engine."""
        return f"{self.type} -> {self.output}"


class NetworkCounts(NamedTuple):
    """Counts of one inference, of each of its operators, and of the start.

    The start reaches from importing the runtime, which compiles it, to the end of the first inference.
    """

    network: Counts
    operators: List[OperatorCounts]
    start: Counts


def count_pair(machine: Machine, pair: Path) -> NetworkCounts:
    """Counts an inference of a pair or a bundle with one thread; open dimensions are 1."""
    with tempfile.TemporaryDirectory(prefix="armnet-count-") as folder:
        for name, source in {**runtime_files(), **suite_files()}.items():
            link = Path(folder, name)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(source)
        arguments = ["-m", "device_tests.suite.count_steps", str(pair.resolve())]
        report = count(machine, arguments, TIMEOUT, cwd=Path(folder))
    regions = _net_regions(report)
    network, start = regions.pop(NETWORK), regions.pop(START)
    return NetworkCounts(network, [_operator_counts(name, counts) for name, counts in regions.items()], start)


def count_other_runtime(machine: Machine, model: Path) -> Counts:
    """Counts an inference of an .onnx file by onnxruntime, or of a .tflite file by tflite-runtime, with one thread.

    EmulationUnavailable if that runtime cannot be installed on the machine.
    """
    packages = runtime_packages(machine, runtime_of(model))
    arguments = [str(OTHER_PROGRAM), str(model.resolve())]
    env = {"PYTHONPATH": f"{packages}:{OTHER_PROGRAM.parents[3]}"}
    return _net_regions(count(machine, arguments, TIMEOUT, env))[NETWORK]


def runtime_of(model: Path) -> str:
    """The runtime that a model file is for."""
    if model.suffix not in OTHER_RUNTIMES:
        formats = " or ".join(f"{suffix} ({other})" for suffix, other in OTHER_RUNTIMES.items())
        raise UsageError(f"{model}: no other runtime takes this file; give {formats}")
    return OTHER_RUNTIMES[model.suffix]


def runtime_packages(machine: Machine, name: str) -> Path:
    """A folder with the package's newest release for the machine, from the package index that pip uses."""

    def build(folder: Path) -> None:
        progress(f"downloading {name} for {machine.architecture}")
        tags = WHEEL_PLATFORMS[machine.architecture]
        platforms = [word for platform in tags for word in ("--platform", platform)]
        command = [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"),
            *("--python-version", machine.python_version, *platforms, "--dest", str(folder), name),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        wheels: List[Path] = list(folder.glob("*.whl"))
        if done.returncode or not wheels:
            reasons = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            raise EmulationUnavailable(f"pip has no {name} for {machine.architecture}: {(reasons or ['?'])[-1]}")
        with zipfile.ZipFile(wheels[0]) as wheel:
            wheel.extractall(folder)
        wheels[0].unlink()

    cache = cache_root()
    with locked(cache):
        folder = cache / "runtimes" / f"{name}-{machine.architecture}"
        return built(folder, [RECIPE, name, machine.python_version], build)


def _operator_counts(region: str, counts: Counts) -> OperatorCounts:
    index, type, output, engine = region.split("\t")
    return OperatorCounts(int(index), type, output, engine, counts)


def _net_regions(report: CountReport) -> Dict[str, Counts]:
    """The regions' counts, less the cost of entering and leaving a region."""
    nothing: Optional[Counts] = report.regions.get(NOTHING)
    assert nothing is not None, f"the program has no region {NOTHING!r}"
    return {name: counts.less(nothing) for name, counts in report.regions.items() if name != NOTHING}
