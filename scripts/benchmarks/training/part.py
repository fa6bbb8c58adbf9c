"""Steps of training - forward, backward, SGD with momentum - beside PyTorch on one core."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Dict, List, Mapping, Sequence

import numpy as np

from armnet.console import note
from armnet.timing import take_turns
from scripts.benchmarks.part import Options, Part, Row, nbytes, number, word
from scripts.benchmarks.training.networks import TASKS, write

STEPS, APART = 3, 0.02  # the losses of the first steps must agree that well, relative to how far they move
ROOT = Path(__file__).parents[3]


class Worker:
    """A process that makes steps when it is asked to; a context manager."""

    def __init__(self, python: str, name: str, folder: Path) -> None:
        command = [python, "-m", f"scripts.benchmarks.training.{name}_worker", str(folder)]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def steps(self, count: int) -> Dict[str, Any]:
        """What so many steps answer: their losses, and the peak so far. CalledProcessError if the process ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{count}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise subprocess.CalledProcessError(self._process.wait(), self._process.args)
        answer: Dict[str, Any] = json.loads(line)
        return answer

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


def measure(options: Options) -> List[Row]:
    """One core. Without PyTorch, only armnet."""
    pythons = {"armnet": sys.executable, "torch": options.torch_python or sys.executable}
    found = subprocess.run([pythons["torch"], "-c", "import torch"], capture_output=True, check=False)
    if found.returncode:
        note("PyTorch is not installed here, so armnet trains alone: pip install torch, or name a Python that has it")
        del pythons["torch"]
    names = [name for name in options.networks if name in TASKS] or list(TASKS)
    return [measured(name, pythons, options.runs) for name in names]


def measured(name: str, pythons: Mapping[str, str], runs: int) -> Row:
    """The row of a network. pythons: who makes steps, with which Python; there is no time for wrong ones."""
    note(f"training {name}")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        task = TASKS[name]()
        write(task, Path(folder))
        workers = {who: stack.enter_context(Worker(pythons[who], who, Path(folder))) for who in pythons}
        losses = {who: worker.steps(STEPS)["losses"] for who, worker in workers.items()}
        row: Row = {"network": name, "threads": 1, "losses": losses}
        if "torch" in losses:
            row["difference"] = _apart(losses["armnet"], losses["torch"])
            if not row["difference"] <= APART:
                return {**row, "refused": "the losses of the first steps differ"}
        candidates = {who: partial(worker.steps, task.together) for who, worker in workers.items()}
        figures, row["warnings"] = take_turns(candidates, runs)
        for who, figure in figures.items():
            row[f"{who}_cpu_seconds"], row[f"{who}_spread"] = figure.cpu_seconds / task.together, figure.spread
            row[f"{who}_peak_nbytes"] = workers[who].steps(1)["peak_nbytes"]
    if "torch" in losses:
        row["ratio"] = row["armnet_cpu_seconds"] / row["torch_cpu_seconds"]
        row["memory_ratio"] = row["armnet_peak_nbytes"] / row["torch_peak_nbytes"]
    return row


def _apart(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The largest difference of two losses, relative to how much they change: rounding flips the sign of a few inputs
    of ReLU, so gradients in single precision differ.
    """
    return float(np.abs(np.subtract(ours, theirs)).max() / np.ptp(theirs))


PART = Part(
    "Training",
    measure,
    {
        "network": word("network"),
        "armnet CPU ms": number("armnet_cpu_seconds", "{:.1f}", 1e3),
        "PyTorch CPU ms": number("torch_cpu_seconds", "{:.1f}", 1e3),
        "ratio": number("ratio"),
        "spread": number("armnet_spread", "{:.0%}"),
        "armnet peak": nbytes("armnet_peak_nbytes"),
        "PyTorch peak": nbytes("torch_peak_nbytes"),
        "memory ratio": number("memory_ratio"),
        "loss difference": number("difference", "{:.0e}"),
        "": word("refused"),
    },
    remark="A step is forward, backward and SGD with momentum: digits at batch 32, the others at batch 4 and 224x224 "
    "pixels, on one core. Each runs in a process of its own, in turns, on the same weights and data; peak: its largest "
    "resident set. Ratios: armnet's divided by PyTorch's. Loss difference: the largest of the first "
    f"{STEPS} steps, relative to how far the loss moves in them.",
)
