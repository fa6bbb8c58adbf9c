"""Workers on this machine: several compute the same as one, and none of them outlives its predictor."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any, Dict, List

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_close
from runtime_arm import Predictor
from runtime_arm.errors import ArmnetError
from runtime_arm.execution.workers import FORKS
from runtime_arm.machine import identity as machine
from runtime_arm.netdef import NetDef
from runtime_arm.pair.fills import fill
from runtime_arm.planning import work_splitting

CHANNELS, SIZE = 16, 64
NET = """net "split": data -> prob
Conv(data, w1, b1) -> conv1  kernel=3  pad=1
Relu(conv1) -> relu1
Conv(relu1, w2, b2) -> conv2  kernel=1
Sigmoid(conv2) -> gate
Mul(conv2, gate) -> swish
MaxPool(swish) -> pool  kernel=3  stride=2
Conv(pool, w3, b3) -> conv3  kernel=5  stride=2
Softmax(conv3) -> prob
"""
RUNS = 20  # enough to notice if a message overtook the data that it announces


@pytest.fixture(autouse=True)
def on_any_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_splitting, "least", lambda: work_splitting.LEAST)


def _nets() -> List[NetDef]:
    draw = np.random.default_rng(0)
    sizes = {
        "w1": (CHANNELS, 3, 3, 3),
        "w2": (64, CHANNELS, 1, 1),
        "w3": (32, 64, 5, 5),
        "b1": (CHANNELS,),
        "b2": (64,),
        "b3": (32,),
    }
    weights = {name: draw.standard_normal(size).astype(np.float32) / 8 for name, size in sizes.items()}
    init = NetDef("init", tuple(fill(name, value) for name, value in weights.items()), (), tuple(weights))
    return [init, NetDef.from_text(NET.replace(": data ->", f": data, {', '.join(weights)} ->"))]


def _feed(seed: int) -> Dict[str, Any]:
    draw = np.random.default_rng(seed)
    return {"data": draw.standard_normal((1, 3, SIZE, SIZE)).astype(np.float32)}


def _threads() -> int:
    """The number of threads of this process, including those of BLAS if the system lists them."""
    tasks = "/proc/self/task"
    return len(os.listdir(tasks)) if os.path.isdir(tasks) else threading.active_count()


@pytest.mark.parametrize("threads", [2, 3])
def test_workers_compute_what_one_computes(threads: int) -> None:
    with Predictor(*_nets(), threads=1) as alone, Predictor(*_nets(), threads=threads) as split:
        assert split.plan({"data": (1, 3, SIZE, SIZE)}).is_split, "no step of this net is worth splitting"
        for seed in range(RUNS):
            expected, actual = alone.run(_feed(seed))["prob"], split.run(_feed(seed))["prob"]
            assert_close(actual, expected, terms=25 * 64, what=f"run {seed} with {threads} workers")
        assert len(split.executor.worker_processes()) == (threads - 1 if FORKS else 0)


def test_one_thread_starts_neither_process_nor_thread() -> None:
    before = _threads()
    with Predictor(*_nets(), threads=1) as predictor:
        predictor.run(_feed(0))
        assert _threads() == before
        assert predictor.executor.worker_processes() == []


@pytest.mark.skipif(not FORKS, reason="workers are threads where the system cannot fork")
def test_a_killed_worker_is_an_error_and_close_ends_the_rest() -> None:
    with Predictor(*_nets(), threads=3) as predictor:
        expected = predictor.run(_feed(0))["prob"]
        os.kill(predictor.executor.worker_processes()[0], signal.SIGKILL)
        with pytest.raises(ArmnetError, match="killed by signal 9"):
            predictor.run(_feed(0))
        np.testing.assert_array_equal(predictor.run(_feed(0))["prob"], expected)
        pids = predictor.executor.worker_processes()
        assert len(pids) == 2
    for _ in range(500):
        if not any(os.path.exists(f"/proc/{pid}") for pid in pids):
            return
        time.sleep(0.01)
    raise AssertionError(f"workers {pids} live on, on {machine.identity()['cpu']}")
