"""What networks may cost on emulated ARM: instructions by operator and to start, committed in ``device_tests/budgets``.

A count that grows is waste, whatever a clock says. ``armnet device count --update-budget`` takes the counts anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List, NamedTuple

import device_tests
from device_tests.host.counting.operator_counts import NetworkCounts, count_pair
from device_tests.host.counting.regions import KINDS
from device_tests.host.emulation.machine import Machine
from device_tests.host.networks.known import build
from device_tests.host.suite_run import runtime_files
from runtime_arm.errors import ArmnetError, UsageError
from runtime_arm.files import write_file

FOLDER = Path(device_tests.__file__).parent / "budgets"
DEMO = Path(device_tests.__file__).parents[1] / "demo"
NETWORKS = ("digits", "squeezenet1_1", "resnet18", "mobilenet_v2")
CPU = "cortex-a72"  # that the budgets are for
GROWTH = 0.02  # by which a count may exceed its budget
NOISE = 20_000  # instructions, by which an operator's may in any case


class Budget(NamedTuple):
    """Instructions of an inference by kind and by operator, those of the start, and what they were counted on."""

    counted_on: Dict[str, Any]
    network: Dict[str, int]
    operators: Dict[str, int]
    start: int


def read_budget(name: str) -> Budget:
    """The budget of a network. ArmnetError if there is none."""
    path = FOLDER / f"{name}.json"
    if not path.is_file():
        raise ArmnetError(f"{path}: no such budget; armnet device count --update-budget makes it")
    return Budget(**json.loads(path.read_text()))


def write_budget(name: str, budget: Budget) -> None:
    """Replaces the budget of a network."""
    write_file(FOLDER / f"{name}.json", [json.dumps(budget._asdict(), indent=1).encode() + b"\n"])


def as_budget(machine: Machine, counts: NetworkCounts) -> Budget:
    """The counts as a budget."""
    network = {kind: getattr(counts.network, kind) for kind in KINDS}
    operators = {op.name: op.counts.instructions for op in counts.operators}
    return Budget(counted_on(machine), network, operators, counts.start.instructions)


def counted_on(machine: Machine) -> Dict[str, Any]:
    """What counts depend on: the CPU model, Python, NumPy and its BLAS."""
    home = str(next(iter(runtime_files().values())).parents[1])
    done = machine.run(["-m", "runtime_arm.machine.identity"], timeout=120, cwd=Path(home))
    identity = json.loads(done.stdout)
    blas = identity["blas"] or {"config": "none", "core": ""}
    return {
        "machine": machine.name,
        "python": identity["python"],
        "numpy": identity["numpy"],
        "blas": blas["config"],
    }


def other_conditions(budget: Budget, conditions: Dict[str, Any]) -> str:
    """Why counts under these conditions say nothing about the budget, "" if they do."""
    differing = [key for key, value in budget.counted_on.items() if conditions[key] != value]
    return ", ".join(f"{key} is {conditions[key]}, the budget's {budget.counted_on[key]}" for key in differing)


def excesses(budget: Budget, counts: NetworkCounts) -> List[str]:
    """What exceeds the budget by more than ``GROWTH``, in lines: the start, the network, operators, the worst first.

    Operators that the budget does not know are named only where the network exceeds it. Nothing exceeds the budget of a
    network that has become cheaper by as much: what its operators may cost is to be counted anew.
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
    """An ONNX file as a pair in ``folder``, exported and optimised."""
    from exporter import export
    from optimize import optimize

    pair = folder / f"{model.stem}_pair"
    optimize(export(model)).save(pair)
    return pair


def count_network(machine: Machine, model: Path, folder: Path) -> NetworkCounts:
    """Counts an inference of an ONNX file, exported and optimised in ``folder``."""
    return count_pair(machine, optimised(model, folder))


def rival_model(model: Path, rival: str, folder: Path) -> Path:
    """What another runtime takes for the network of an ONNX file: that file, or one of its format in ``folder``."""
    if rival == "onnxruntime":
        return model
    from device_tests.host.networks.tflite_writer import tflite_bytes
    from exporter import export
    from optimize import optimize

    path = folder / f"{model.stem}.tflite"
    path.write_bytes(tflite_bytes(optimize(export(model), keep_biases=True)))
    return path
