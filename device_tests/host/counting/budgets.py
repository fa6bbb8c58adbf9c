"""Budgets: how many instructions networks may take on emulated ARM, by operator and to start.

They are files in ``device_tests/budgets``. Unlike times, counts repeat exactly, so a count that grows is real. ``armnet
device count --update-budget`` makes the current counts the budgets.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List, NamedTuple

import device_tests
import runtime_arm
from device_tests.host.counting.operator_counts import NetworkCounts, count_pair
from device_tests.host.counting.regions import KINDS
from device_tests.host.emulation.machine import Machine
from device_tests.host.networks.known import build
from runtime_arm.errors import ArmnetError, UsageError
from runtime_arm.files import write_file

FOLDER = Path(device_tests.__file__).parent / "budgets"
DEMO = Path(device_tests.__file__).parents[1] / "demo"
NETWORKS = ("digits", "squeezenet1_1", "resnet18", "mobilenet_v2")
CPU = "cortex-a72"  # the CPU that the budgets are for
GROWTH = 0.02  # the share by which a count may exceed its budget
NOISE = 20_000  # instructions by which an operator may exceed its budget in any case


class Budget(NamedTuple):
    """Instructions of an inference, by kind and by operator, and of the start; and the conditions of the count."""

    counted_on: Dict[str, Any]
    network: Dict[str, int]
    operators: Dict[str, int]
    start: int


def read_budget(name: str) -> Budget:
    """The budget of a network. ArmnetError if there is none."""
    path = FOLDER / f"{name}.json"
    if not path.is_file():
        raise ArmnetError(f"{path}: no such budget; armnet device count --update-budget makes one")
    return Budget(**json.loads(path.read_text()))


def write_budget(name: str, budget: Budget) -> None:
    """Writes the budget of a network, in place of an older one."""
    write_file(FOLDER / f"{name}.json", [json.dumps(budget._asdict(), indent=1).encode() + b"\n"])


def as_budget(machine: Machine, counts: NetworkCounts) -> Budget:
    """The counts as a budget."""
    network = {kind: getattr(counts.network, kind) for kind in KINDS}
    operators = {op.name: op.counts.instructions for op in counts.operators}
    return Budget(counted_on(machine), network, operators, counts.start.instructions)


def counted_on(machine: Machine) -> Dict[str, Any]:
    """The conditions that counts depend on: the CPU model, Python, NumPy and its BLAS."""
    done = machine.run(["-m", "runtime_arm.machine.identity"], timeout=120, cwd=Path(runtime_arm.__file__).parents[1])
    identity = json.loads(done.stdout)
    blas = identity["blas"] or {"config": "none", "core": ""}
    return {
        "machine": machine.name,
        "python": identity["python"],
        "numpy": identity["numpy"],
        "blas": blas["config"],
    }


def other_conditions(budget: Budget, conditions: Dict[str, Any]) -> str:
    """How these conditions differ from the budget's, so that counts cannot be compared; "" if they do not."""
    differing = [key for key, value in budget.counted_on.items() if conditions[key] != value]
    return ", ".join(f"{key} is {conditions[key]}, was {budget.counted_on[key]}" for key in differing)


def excesses(budget: Budget, counts: NetworkCounts) -> List[str]:
    """A line for each count that exceeds its budget by more than ``GROWTH``: start, network, operators, worst first.

    Operators that the budget does not list are named only if the whole network exceeds it. If the network has become
    cheaper by more than ``GROWTH``, no operator is named: its budget is out of date.
    """
    start = counts.start.instructions
    slower = [f"the start: {_growth(budget.start, start)}"] if start > (1 + GROWTH) * budget.start else []
    return slower + _network_excesses(budget, counts)


def _network_excesses(budget: Budget, counts: NetworkCounts) -> List[str]:
    most, total = budget.network["instructions"], counts.network.instructions
    if total < (1 - GROWTH) * most:
        return []
    network_grew = total > (1 + GROWTH) * most
    found = []
    for op in counts.operators:
        allowed = budget.operators.get(op.name, 0)
        more = op.counts.instructions - allowed
        if more > max(GROWTH * allowed, NOISE) and (allowed or network_grew):
            found.append((more, f"{op.name} by {op.engine}: {_growth(allowed, op.counts.instructions)}"))
    lines = [line for _, line in sorted(found, reverse=True)]
    return [f"the network: {_growth(most, total)}", *lines] if network_grew else lines


def _growth(allowed: int, instructions: int) -> str:
    return f"{allowed:,} instructions allowed, {instructions:,} counted"


def source_model(name: str, folder: Path) -> Path:
    """The ONNX file of a budget's network: the demo's, or one with random weights made in ``folder``."""
    if name not in NETWORKS:
        raise UsageError(f"no network with a budget is called {name!r}; there are {', '.join(NETWORKS)}")
    if name == "digits":
        return DEMO / "digits.onnx"
    path = folder / f"{name}.onnx"
    path.write_bytes(build(name).SerializeToString())
    return path


def optimised(model: Path, folder: Path) -> Path:
    """Exports and optimises an ONNX file; returns the pair's folder, which is made in ``folder``."""
    from exporter import export
    from optimize import optimize

    pair = folder / f"{model.stem}_pair"
    optimize(export(model)).save(pair)
    return pair


def count_network(machine: Machine, model: Path, folder: Path) -> NetworkCounts:
    """Counts an inference of an ONNX file, which is exported and optimised in ``folder``."""
    return count_pair(machine, optimised(model, folder))


def model_for_runtime(model: Path, runtime: str, folder: Path) -> Path:
    """The file that another runtime takes for the network of an ONNX file: itself, or a .tflite file in ``folder``."""
    if runtime == "onnxruntime":
        return model
    from device_tests.host.networks.tflite_writer import tflite_bytes
    from exporter import export
    from optimize import optimize

    path = folder / f"{model.stem}.tflite"
    path.write_bytes(tflite_bytes(optimize(export(model), keep_biases=True)))
    return path
